"""Stopping a job: who comes first, who is waited for, and who is left to a person."""

from dataclasses import replace

from pydantic import JsonValue

from agentops.policy import Close
from agentops.policy.decision import RuleHit
from agentops.policy.stopping import told
from agentops.policy.view import SECOND_US
from tests.support.shown import Host, beat, row, shell, worker, young
from tests.support.stops import alone, interrupted
from tests.support.telling import Incident, named, passed_over

# What the engine looks at before it says that a stop was asked for.
OPENING = [
    "list_processes",
    "read_heartbeat",
    "file_digest",
    "tail_log",
    "judge intervention_needed confirmed",
]


def supervised(**traits: JsonValue) -> Incident:
    """A shell that starts the job, and its child; the shell got its TERM."""
    above = shell(50, **traits)
    incident = Incident(Host(rows=(above, row(70, ppid=50)), beat=beat(70, 10)))
    incident.until("TERM 50")
    incident.done()
    incident.steps.clear()
    return incident


def test_a_lone_trainer_is_interrupted_after_the_opening_looks() -> None:
    """Nobody is signalled before anything is known, and the gentlest rung comes first."""
    incident = Incident(alone())
    incident.until("INT 70")
    assert incident.steps == [*OPENING, "INT 70"]


def test_a_stop_goes_on_only_from_a_whole_listing() -> None:
    """A listing that is cut shows nobody's absence: it is asked for again."""
    incident = interrupted()
    incident.host = Host(beat=beat(70, 10), complete=False)
    for _ in range(3):
        assert incident.decide().phase == "stopping"
        assert incident.steps[-1] == "list_processes"
        incident.answered()
    incident.host = replace(incident.host, complete=True)
    incident.until("judge members_absent confirmed")


def test_a_listing_that_has_aged_is_taken_again_before_the_stop_goes_on() -> None:
    """Ten seconds are the limit; one microsecond more is too old."""
    for more_us, step in ((0, "judge members_absent confirmed"), (1, "list_processes")):
        incident = interrupted()
        incident.host = Host(beat=beat(70, 10))
        incident.until("list_processes")
        incident.answered()
        incident.later(10, us=more_us)
        incident.decide()
        assert incident.steps[-1] == step


def test_whoever_waited_looks_before_the_next_step() -> None:
    """A wait that ended in vain tells nothing about who lives now."""
    incident = interrupted()
    incident.until("wait")
    incident.answered()
    assert incident.decide().phase == "stopping"
    assert incident.steps[-1] == "list_processes"


def test_the_supervisor_gets_its_term_and_a_grace_before_its_child_is_touched() -> None:
    """A shell with a trap acts when its child has ended, so after the grace the child is next."""
    incident = supervised()
    incident.until("INT 70")
    assert incident.steps == [
        "list_processes",
        "wait process_absent 5000",
        "list_processes",
        "INT 70",
    ]


def test_a_told_shell_whose_child_has_ended_has_a_grace_to_end_itself() -> None:
    """Counted from the last act; the shell alone is waited for, and only then it climbs on."""
    incident = supervised()
    incident.until("INT 70")
    incident.done()
    incident.later(2)
    incident.host = replace(incident.host, rows=(shell(50),))
    incident.steps.clear()
    waits = incident.until("wait")
    assert incident.steps == ["list_processes", "wait process_absent 3000"]
    words = "it was told, and what it waited for has ended"
    assert waits.because == (RuleHit("supervisor", words, incident.view.listed),)
    assert named(waits) == [50]
    incident.answered()
    incident.steps.clear()
    decision = incident.until("KILL 50")
    assert incident.steps == ["list_processes", "tail_log", "read_heartbeat", "KILL 50"]
    assert passed_over(decision) == [
        ("interrupt", "ladder"),
        ("interrupt_again", "ladder"),
        ("terminate", "ladder"),
    ]


def test_while_a_told_shell_has_a_worker_below_it_the_worker_comes_first() -> None:
    """What it waits for has not ended; it is not to blame for living on."""
    incident = supervised()
    incident.until("INT 70")
    incident.done()
    incident.host = replace(incident.host, rows=(shell(50), worker(71, 50)))
    incident.until("INT 71")
    assert "KILL 50" not in incident.steps


def test_a_shell_without_a_trap_climbs_its_own_ladder_while_its_child_lives() -> None:
    """TERM would have ended it at once: that it lives on says that it was not told."""
    incident = supervised(signals_caught=[2])
    incident.until("KILL 50")
    assert incident.steps == [
        "list_processes",
        "wait process_absent 5000",
        "list_processes",
        "tail_log",
        "read_heartbeat",
        "KILL 50",
    ]


def test_a_shell_that_starts_another_child_after_its_term_was_not_told() -> None:
    """It goes on as if nothing was said, so it is ended before the child."""
    incident = supervised()
    incident.later(1)
    child, says = young(71, incident.now_us, ppid=50)
    incident.host = Host(rows=(shell(50), child), beat=says)
    incident.until("KILL 50")
    assert "INT 71" not in incident.steps


def test_a_child_of_its_shells_very_first_tick_counts_as_started_by_it() -> None:
    """Ticks are hundredths of a second: a shell and its child often share one."""
    incident = Incident(
        Host(
            rows=(shell(50, start_ticks=700), row(70, ppid=50, start_ticks=700)),
            beat=beat(70, 10, start_ticks=700),
        )
    )
    incident.until("TERM 50")
    incident.done()
    incident.later(1)
    child, says = young(71, incident.now_us, ppid=50)
    incident.host = Host(rows=(shell(50, start_ticks=700), child), beat=says)
    incident.until("KILL 50")
    assert "INT 71" not in incident.steps


def test_a_shell_that_got_an_interrupt_only_was_not_told() -> None:
    """Only TERM ends a shell that waits."""
    incident = supervised()
    view = incident.view
    above = view.roles.supervisors[0]
    assert view.table is not None
    victim = view.table.identity(above)
    over_us = incident.state.acts[-1].ended_at_us + 5 * SECOND_US
    assert told(replace(view, now_us=over_us), above, victim)
    assert not told(replace(view, now_us=over_us - 1), above, victim)
    act = replace(incident.state.acts[-1], arguments={"signal": "INT"})
    other = replace(incident.state, acts=(act,))
    assert not told(replace(view, state=other, now_us=over_us), above, victim)


def respawned(times: int) -> Incident:
    """A trainer in whose place another came, so often, each proven by its heartbeat."""
    incident = Incident(alone())
    incident.until("INT 70")
    for pid in range(71, 71 + times):
        incident.done()
        incident.later(1)
        newcomer, says = young(pid, incident.now_us)
        incident.host = Host(rows=(newcomer,), beat=says)
        if pid < 70 + times:
            incident.until(f"INT {pid}")
    incident.steps.clear()
    return incident


def test_a_job_that_nobody_is_seen_to_start_again_is_stopped_twice_and_then_handed_over() -> None:
    """The third time a person must find out who starts it."""
    twice = respawned(2)
    twice.until("INT 72")
    thrice = respawned(3)
    decision = thrice.until("close HANDED_OVER")
    assert thrice.steps == ["list_processes", "read_heartbeat", "close HANDED_OVER"]
    assert isinstance(decision.action, Close)
    assert "process 73 was started again by something" in decision.action.reason
    assert decision.action.evidence == thrice.view.listed
    words = "it was started again more than twice"
    assert decision.because == (RuleHit("flapping", words, thrice.view.listed),)
    assert decision.lead == "H5"


def test_workers_that_ended_do_not_make_a_job_flap() -> None:
    """Only a trainer that came back counts as a start."""
    host = Host(rows=(row(70), *(worker(pid, 70) for pid in range(71, 75))), beat=beat(70, 10))
    incident = Incident(host)
    incident.until("INT 70")
    incident.done()
    incident.later(1)
    newcomer, says = young(80, incident.now_us)
    incident.host = Host(rows=(newcomer,), beat=says)
    incident.until("INT 80")


def test_a_job_whose_supervisor_is_known_does_not_flap() -> None:
    """Who starts it again is no riddle: that one is stopped."""
    incident = respawned(3)
    below = tuple(child | {"ppid": 50} for child in incident.host.rows)
    incident.host = replace(incident.host, rows=(shell(50), *below))
    incident.until("TERM 50")


def test_workers_get_one_grace_to_see_that_their_root_has_ended() -> None:
    """Then each has a ladder of its own, oldest first."""
    host = Host(rows=(row(70), worker(71, 70), worker(72, 70)), beat=beat(70, 10))
    incident = Incident(host)
    incident.until("INT 70")
    incident.done()
    incident.later(1)
    incident.host = replace(host, rows=(worker(71, 1), worker(72, 1)))
    incident.steps.clear()
    waits = incident.until("wait")
    assert incident.steps == ["list_processes", "wait process_absent 4000"]
    assert waits.because[0].rule == "workers"
    assert named(waits) == [71, 72]
    incident.answered()
    incident.steps.clear()
    incident.until("INT 71")
    assert incident.steps == ["list_processes", "INT 71"]
    incident.done()
    incident.host = replace(host, rows=(worker(72, 1),))
    incident.steps.clear()
    incident.until("INT 72")
    assert incident.steps == [
        "list_processes",
        "wait process_absent 5000",
        "list_processes",
        "INT 72",
    ]


def test_a_worker_that_was_asked_already_is_not_waited_for_as_if_it_were_not() -> None:
    """It is on its ladder: its own grace counts, and what it shows."""
    host = Host(rows=(row(70), worker(71, 70)), beat=beat(70, 10))
    incident = Incident(host)
    incident.until("INT 70")
    incident.done()
    incident.host = replace(host, rows=(worker(71, 1),))
    incident.until("INT 71")
    incident.done()
    incident.steps.clear()
    decision = incident.until("wait")
    assert incident.steps == ["list_processes", "wait process_absent 5000"]
    assert decision.because[0].rule == "G3"


def test_workers_that_nobody_was_signalled_before_are_not_waited_for() -> None:
    """No root ended just now, so nothing tells them to end."""
    host = Host(rows=(worker(71, 1, launch_id="l"),), beat=beat(70, 10, launch_id="l"))
    incident = Incident(host)
    incident.until("INT 71")
    assert incident.steps == [*OPENING, "INT 71"]
