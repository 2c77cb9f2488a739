"""One victim's ladder: each rung in its turn with its grace, and who is not signalled at all."""

from dataclasses import replace

from pydantic import JsonValue

from agentops.policy import Close, Run
from agentops.policy.decision import RuleHit
from agentops.policy.view import SECOND_US
from journal.events import JsonObject
from tests.support.shown import Host, beat, row, shell, worker
from tests.support.stops import because, lone
from tests.support.telling import Incident, named, passed_over, rules

# What is looked at when a grace is over and the victim lives on.
WHY = ["list_processes", "wait process_absent 5000", "list_processes", "tail_log", "read_heartbeat"]
EVERY = ["request", "interrupt", "interrupt_again", "terminate", "kill"]


def acts(incident: Incident, *words: str) -> list[str]:
    """The steps up to each of these acts, all of which are carried out."""
    incident.steps.clear()
    for word in words:
        incident.until(word)
        incident.done()
    return incident.steps


def test_a_deaf_process_is_asked_twice_before_it_is_killed_and_then_left_to_a_person() -> None:
    """Between any two rungs: the grace, a listing after it, log and heartbeat."""
    incident = lone()
    rungs = ["INT 70", *WHY, "TERM 70", *WHY, "KILL 70"]
    assert acts(incident, "INT", "TERM", "KILL") == rungs
    incident.steps.clear()
    closed = incident.until("close HANDED_OVER")
    assert incident.steps == [*WHY, "close HANDED_OVER"]
    assert isinstance(closed.action, Close)
    assert closed.action.reason == "process 70 lives on after every rung of its ladder"
    assert closed.because == (RuleHit("ladder", "no rung is left", incident.view.listed),)
    assert closed.action.evidence == incident.view.listed


def test_each_rung_says_what_speaks_for_it_and_what_against_the_others() -> None:
    """The rungs below are taken, or would be lost; those above are not gentle."""
    incident = lone()
    first = incident.until("INT 70")
    assert (first.rung, first.lead, because(first)) == ("interrupt", "", "ladder")
    assert passed_over(first) == [
        ("interrupt_again", "gentleness"),
        ("terminate", "gentleness"),
        ("kill", "gentleness"),
    ]
    assert first.hypotheses
    incident.done()
    term = incident.until("TERM 70")
    assert (term.rung, term.lead, because(term)) == ("terminate", "H7", "H7")
    assert term.because[0].events == (*incident.state.acts[0].events, *incident.view.listed)
    assert passed_over(term) == [
        ("interrupt", "ladder"),
        ("interrupt_again", "ladder"),
        ("kill", "gentleness"),
    ]
    incident.done()
    kill = incident.until("KILL 70")
    assert (kill.rung, kill.lead) == ("kill", "H7")
    assert passed_over(kill) == [
        ("interrupt", "ladder"),
        ("interrupt_again", "ladder"),
        ("terminate", "ladder"),
    ]
    assert kill.hypotheses


def test_every_signal_expects_its_victims_end_within_the_grace_of_its_rung() -> None:
    """Each rung has its own, and history can only make it longer."""
    grace: JsonObject = {"interrupt_s": 5, "terminate_s": 7, "kill_s": 9}
    for learned_s, spans in ((0, (5, 7, 9)), (8, (8, 8, 9))):
        host = Host(rows=(row(70),), beat=beat(70, 10))
        config = rules({"stop": {"grace": grace}})
        incident = Incident(
            host, config=config, learned_grace_s=learned_s, learned_grace_of=6 if learned_s else 0
        )
        for word, span_s in zip(("INT", "TERM", "KILL"), spans, strict=True):
            decision = incident.until(word)
            (expected,) = decision.expects
            assert expected.by_us == incident.now_us + span_s * SECOND_US
            assert expected.condition["kind"] == "process_absent"
            incident.done()
            waits = incident.until("wait")
            assert incident.steps[-1] == f"wait process_absent {span_s}000"
            assert named(waits) == [70]
            assert (because(waits), waits.rung) == ("G3", decision.rung)
            assert ("of 6 earlier ones" in waits.because[0].text) is (span_s == learned_s)


def test_a_grace_counts_from_the_end_of_the_signals_command() -> None:
    """What is left of it is waited for; a listing from the very end of it is late enough."""
    incident = lone()
    incident.until("INT 70")
    incident.done()
    incident.later(3)
    incident.looks("list_processes")
    incident.decide()
    assert incident.steps[-1] == "wait process_absent 2000"
    incident.later(2, us=-1)
    incident.looks("list_processes")
    incident.decide()
    assert incident.steps[-1] == "wait process_absent 200"
    incident.later(0, us=1)
    again = incident.decide()
    assert incident.steps[-1] == "list_processes"
    assert (because(again), again.rung) == ("G3", "interrupt")
    events = incident.state.acts[-1].events
    assert again.because == (RuleHit("G3", "did it live on when its grace was over?", events),)
    incident.looks("list_processes")
    incident.decide()
    assert incident.steps[-1] == "tail_log"


def test_an_interrupt_that_would_be_lost_is_not_sent() -> None:
    """SIGINT is ignored: TERM is the gentlest rung that can work."""
    incident = lone(signals_ignored=[2])
    term = incident.until("TERM 70")
    assert incident.steps == ["TERM 70"]
    assert (term.rung, term.lead) == ("terminate", "H4")
    assert term.rejected[0].text == "SIGINT is ignored; it would be lost"
    assert passed_over(term) == [
        ("interrupt", "H4"),
        ("interrupt_again", "ladder"),
        ("kill", "gentleness"),
    ]


def test_a_supervising_shell_is_asked_by_term_and_any_other_program_by_interrupt() -> None:
    """A shell that waits holds an interrupt back."""
    incident = Incident(Host(rows=(shell(50), row(70, ppid=50)), beat=beat(70, 10)))
    assert passed_over(incident.until("TERM 50"))[0] == ("interrupt", "supervisor")
    python = shell(50, comm="python3", exe="/usr/bin/python3")
    incident = Incident(Host(rows=(python, row(70, ppid=50)), beat=beat(70, 10)))
    incident.until("INT 50")
    # Its child's program is a shell as well, and it supervises nobody.
    says: list[JsonValue] = ["bash", "train"]
    trainer = row(70, comm="bash", exe="/bin/bash", cmdline=says)
    Incident(Host(rows=(trainer,), beat=beat(70, 10))).until("INT 70")


def test_a_stopped_process_is_continued_once_before_it_is_asked() -> None:
    """It could not answer; continuing it is no rung, and has no grace."""
    for state in ("T", "t"):
        incident = lone(state=state)
        cont = incident.until("CONT 70")
        assert incident.steps == ["CONT 70"]
        assert (cont.rung, because(cont)) == ("interrupt", "continue-stopped")
        incident.done()
        assert acts(incident, "INT") == ["list_processes", "INT 70"]


def test_whoever_is_refused_twice_by_the_hosts_own_check_is_left_to_a_person() -> None:
    """The first refusal may be of the moment; the reason is told."""
    incident = lone()
    for _ in range(2):
        incident.until("INT 70")
        incident.refused("protected")
    incident.steps.clear()
    closed = incident.until("close HANDED_OVER")
    assert incident.steps == ["list_processes", "close HANDED_OVER"]
    assert isinstance(closed.action, Close)
    assert closed.action.reason == "the host refused to signal process 70: protected"
    refusal = incident.state.acts[-1].events
    assert closed.because == (RuleHit("G1", "the host's own check refused twice", refusal),)
    assert closed.action.evidence == refusal


def test_a_refusal_to_signal_one_process_is_not_held_against_another() -> None:
    """The worker's two refusals do not spare its root's next rung."""
    host = Host(rows=(row(70), worker(71, 70)), beat=beat(70, 10))
    incident = Incident(host)
    incident.until("INT 70")
    incident.refused("gone")
    incident.until("INT 70")
    incident.done()
    incident.host = replace(host, rows=(worker(71, 1),))
    incident.until("INT 71")
    incident.refused("gone")
    incident.until("INT 71")


def test_uninterruptible_sleep_is_looked_at_for_ten_seconds_and_never_signalled() -> None:
    """Every two seconds; long sleep is a person's matter."""
    incident = lone(state="D")
    pauses = incident.until("pause")
    assert incident.steps == ["inspect_process", "pause 2"]
    assert because(pauses) == "G10"
    closed = incident.until("close HANDED_OVER")
    assert incident.steps[2:] == [*["pause 2", "list_processes"] * 5, "close HANDED_OVER"]
    assert isinstance(closed.action, Close)
    assert closed.action.reason.startswith("process 70 is in uninterruptible sleep")
    assert closed.action.evidence == closed.because[0].events == incident.view.listed
    assert (because(closed), closed.lead) == ("G10", "H6")


def test_a_listing_of_uninterruptible_sleep_is_taken_again_after_two_seconds() -> None:
    """A microsecond earlier there is a pause first."""
    incident = lone(state="D")
    incident.until("pause 2")
    listed_us = incident.view.listed_at_us
    incident.now_us = listed_us + 2 * SECOND_US - 1
    incident.decide()
    assert incident.steps[-1] == "pause 2"
    incident.now_us += 1
    again = incident.decide()
    assert incident.steps[-1] == "list_processes"
    assert because(again) == "G10"


def test_a_short_uninterruptible_sleep_is_forgotten_when_it_is_over() -> None:
    """The ladder goes on."""
    incident = lone(state="D")
    incident.until("pause 2")
    incident.host = replace(incident.host, rows=(row(70),))
    incident.until("INT 70")


def asking(**more: JsonValue) -> Incident:
    """A job that watches a stop file, with a grace of eleven seconds for it."""
    rungs: list[JsonValue] = list(EVERY)
    stop: JsonObject = {"rungs": rungs, "request_file": "/job/stop", "grace": {"request_s": 11}}
    return lone(stop | more)


def test_a_job_that_watches_a_stop_file_is_asked_by_it_first() -> None:
    """An empty file, the grace of its rung, a listing after it; only then an interrupt."""
    incident = asking()
    asks = incident.until("deploy_files")
    assert incident.steps == ["deploy_files"]
    watches = RuleHit("ladder", "the job watches a stop file", incident.view.listed)
    assert (asks.rung, asks.because[0]) == ("request", watches)
    assert isinstance(asks.action, Run)
    files = asks.action.arguments["files"]
    assert isinstance(files, list)
    assert [file["path"] for file in files if isinstance(file, dict)] == ["/job/stop"]
    (expected,) = asks.expects
    assert expected.condition["kind"] == "process_absent"
    assert expected.by_us == incident.now_us + 11 * SECOND_US
    incident.done({})
    waits = incident.until("wait")
    assert incident.steps[1:] == ["list_processes", "wait process_absent 11000"]
    assert (because(waits), waits.rung, named(waits)) == ("G3", "request", [70])
    assert "the grace of rung request is not over" in waits.because[0].text
    incident.answered()
    incident.steps.clear()
    incident.until("INT 70")
    assert incident.steps == ["list_processes", "INT 70"]


def test_the_grace_of_a_stop_file_is_over_to_the_microsecond() -> None:
    """And a listing must be as late as that."""
    incident = asking()
    incident.until("deploy_files")
    incident.done({})
    over_us = incident.now_us + 11 * SECOND_US
    incident.now_us = over_us - 1
    incident.looks("list_processes")
    incident.decide()
    assert incident.steps[-1] == "wait process_absent 200"
    incident.now_us = over_us
    again = incident.decide()
    assert incident.steps[-1] == "list_processes"
    assert (because(again), again.rung) == ("G3", "request")
    incident.looks("list_processes")
    incident.decide()
    assert incident.steps[-1] == "INT 70"


def test_a_stop_file_that_never_left_is_written_again() -> None:
    """No grace is given for what was not asked."""
    incident = asking()
    incident.until("deploy_files")
    incident.lost(sent=False)
    incident.steps.clear()
    incident.until("deploy_files")
    assert "wait process_absent 11000" not in incident.steps


def test_a_stop_file_asks_trainers_alone_and_only_where_the_ladder_has_that_rung() -> None:
    """Neither a supervisor nor a worker reads it."""
    rungs: list[JsonValue] = list(EVERY)
    config = rules({"stop": {"rungs": rungs, "request_file": "/job/stop"}})
    host = Host(rows=(shell(50), row(70, ppid=50)), beat=beat(70, 10))
    Incident(host, config=config).until("TERM 50")
    asking(rungs=["interrupt", "terminate"]).until("INT 70")


def test_rungs_that_the_file_leaves_out_are_not_taken() -> None:
    """A ladder may begin with TERM and end without KILL, and none begins with KILL."""
    incident = lone({"rungs": ["terminate"]})
    term = incident.until("TERM 70")
    assert passed_over(term) == []
    incident.done()
    incident.until("close HANDED_OVER")
    alone = lone({"rungs": ["interrupt_again"]}).until("close HANDED_OVER")
    assert isinstance(alone.action, Close)
    assert "every rung of its ladder" in alone.action.reason
    assert because(lone({"rungs": ["kill"]}).until("close HANDED_OVER")) == "G3"
