"""After the stop: repairs are seen to be in place, and starts are made, paced and given up."""

from dataclasses import replace

import pytest
from pydantic import JsonValue

from agentops.bench.world import CODE, NEW_SHA256, OLD_SHA256
from agentops.policy import Close, Judge, PolicyConfig, Run
from agentops.policy.ledger import Tail
from agentops.policy.needs import due_repairs
from journal.events import JsonObject
from tests.support.shown import Host, beat, row
from tests.support.starts import gone, reason
from tests.support.telling import Incident, rules

# The signatures of these: a root that would fail again unchanged, and two that may not.
LACKS_A_MODULE = "ModuleNotFoundError: No module named 'flash_attn'"
LACKS_DATA = "RuntimeError: received 0 items of ancdata"
BAD_ADDRESS = "RuntimeError: CUDA error: an illegal memory access was encountered"
PROOF_OF_ABSENCE = [
    "judge members_absent confirmed",
    "pause 3",
    "read_heartbeat",
    "list_processes",
    "judge job_stopped confirmed",
]


def test_a_job_that_is_gone_is_started_under_an_id_of_its_own() -> None:
    """It is expected to make the configured steps within the configured time."""
    incident = gone()
    decision = incident.until("launch")
    assert incident.steps == ["launch"]
    assert isinstance(decision.action, Run)
    assert decision.action.arguments == {"job": "job", "launch_id": "i7-1"}
    (expected,) = decision.expects
    assert expected.condition == {"kind": "job_started", "advance_steps": 2}
    assert expected.by_us == incident.now_us + 30_000_000


def refuted(incident: Incident, log: tuple[str, ...] = ()) -> None:
    """The next start comes, leaves this in its log, and is refuted by its absence."""
    incident.until("launch")
    incident.done()
    incident.host = replace(incident.host, log=log)
    incident.until("judge job_started refuted")
    incident.judged()
    incident.steps.clear()


def budget(**limits: JsonValue) -> PolicyConfig:
    """A policy that would try five times, with other limits."""
    return rules(budget={"relaunches": 5, "probes": 400}, limits={"crash_loop": 9} | limits)


def test_each_start_after_a_failure_waits_twice_as_long_as_the_one_before() -> None:
    """Ten seconds from the verdict, then twenty, then never more than the most."""
    incident = gone(config=budget(backoff_max_s=35))
    for waits_s in (10, 20, 35, 35):
        refuted(incident)
        failed_us = incident.state.verdicts[-1].at_us
        launched = incident.until("launch").action
        assert incident.now_us == failed_us + waits_s * 1_000_000
        assert [step for step in incident.steps if step.startswith("pause")] == [
            "pause 3",
            f"pause {waits_s - 3}",
        ]
        number = 1 + len(incident.view.launches)
        assert isinstance(launched, Run)
        assert launched.arguments["launch_id"] == f"i7-{number}"


def test_starts_that_lead_nowhere_end_at_the_budget() -> None:
    """Three of them by default; each refuted start is named, and how many there were."""
    incident = gone()
    for _ in range(3):
        refuted(incident)
    closed = incident.until("close HANDED_OVER")
    assert incident.steps == [*PROOF_OF_ABSENCE, "close HANDED_OVER"]
    assert reason(closed) == "3 start(s) did not lead to progress"
    assert isinstance(closed.action, Close)
    judged = [v.event for v in incident.state.verdicts if v.kind == "job_started"]
    assert list(closed.action.evidence) == judged
    assert closed.because[0].rule == "crash-loop"


def test_a_budget_of_one_start_ends_after_one_that_failed() -> None:
    """Also where a loop would need more of them; the failure is the reason, not a guard."""
    incident = gone(config=rules(budget={"relaunches": 1}, limits={"crash_loop": 9}))
    refuted(incident)
    closed = incident.until("close HANDED_OVER")
    assert reason(closed) == "1 start(s) did not lead to progress"


def test_the_first_free_port_is_handed_to_the_start() -> None:
    """Those that somebody listens on are passed over."""
    port: JsonObject = {"variable": "PORT", "first": 4000, "tries": 3}
    incident = gone(config=rules({"launch": {"port": port}}))
    incident.host = replace(incident.host, ports=(4000, 22))
    launches = incident.until("launch").action
    assert incident.steps == ["ports", "launch"]
    assert isinstance(launches, Run)
    assert launches.arguments["port"] == 4001


def test_failures_count_as_a_loop_only_within_their_window() -> None:
    """Two within it end the incident; two that lie further apart do not."""
    for window_s, closes in ((900, True), (12, False)):
        incident = gone(config=budget(crash_loop=2, crash_window_s=window_s))
        refuted(incident)
        refuted(incident)
        incident.until("close HANDED_OVER" if closes else "launch")


def test_a_failure_counts_up_to_the_last_instant_of_the_window() -> None:
    """A microsecond later it is forgotten."""
    incident = gone(config=budget(crash_loop=2))
    refuted(incident)
    refuted(incident)
    incident.until("judge job_stopped")
    incident.judged()
    first = next(v for v in incident.state.verdicts if v.kind == "job_started")
    for over_us, closes in ((0, True), (1, False)):
        incident.now_us = first.at_us + 900_000_000 + over_us
        incident.looks("list_processes")
        assert (incident.decide().action.kind == "close") is closes


def test_the_same_root_twice_ends_the_loop_early() -> None:
    """It fails for the same reason; another reason is another try."""
    incident = gone(config=budget())
    refuted(incident, (BAD_ADDRESS,))
    refuted(incident, (LACKS_DATA,))
    refuted(incident, (BAD_ADDRESS,))
    refuted(incident, (BAD_ADDRESS,))
    closed = incident.until("close HANDED_OVER")
    assert reason(closed) == "4 start(s) did not lead to progress; root signature F08"
    soon = gone(config=budget())
    refuted(soon, (BAD_ADDRESS,))
    refuted(soon, (BAD_ADDRESS,))
    soon.until("close HANDED_OVER")


def test_silence_twice_is_not_the_same_root_twice() -> None:
    """Logs without a root signature tell nothing about why."""
    incident = gone(config=budget())
    refuted(incident)
    refuted(incident)
    incident.until("launch")


def test_a_root_that_would_fail_again_unchanged_ends_the_loop_at_once() -> None:
    """A module that is missing is missing at the next start."""
    incident = gone(config=budget())
    refuted(incident, (LACKS_A_MODULE, BAD_ADDRESS))
    closed = incident.until("close HANDED_OVER")
    assert reason(closed) == "1 start(s) did not lead to progress; root signature F08, F19"


def test_a_root_counts_for_the_start_whose_log_showed_it() -> None:
    """What was read after a verdict is not held against the start before it."""
    incident = gone(config=budget())
    refuted(incident, (BAD_ADDRESS,))
    incident.looks("tail_log")
    incident.until("launch")
    incident.done()
    incident.host = replace(incident.host, log=())
    incident.until("judge job_started refuted")
    incident.judged()
    incident.until("launch")


def test_a_log_of_something_else_shows_no_root_of_the_job() -> None:
    """Somebody read another file; the newest look at the job's own log is what counts."""
    incident = gone()
    other = Tail(incident.now_us, incident.state.order, "e0001", "/other.log", (("F19", 1),))
    incident.state = replace(incident.state, tails=(*incident.state.tails, other))
    incident.until("launch")


@pytest.mark.parametrize("state", ["failed", "training"])
def test_a_job_whose_log_shows_that_it_would_fail_again_is_not_started(state: str) -> None:
    """Whether it says that it failed or is just not there."""
    incident = gone(log=(LACKS_A_MODULE,), state=state)
    closed = incident.until("close HANDED_OVER")
    assert incident.steps == ["close HANDED_OVER"]
    assert reason(closed) == "root signature F19: it would fail again unchanged"
    assert isinstance(closed.action, Close)
    assert closed.action.evidence == (incident.state.tails[-1].event,)
    assert closed.because[0].rule == "R0"


def test_a_job_whose_log_shows_another_root_is_started() -> None:
    """A fault of the moment may not come back."""
    gone(log=(BAD_ADDRESS,)).until("launch")


def running(**traits: JsonValue) -> Incident:
    """A trainer that lives, in an incident that is to recover it."""
    sha256 = str(traits.pop("sha256", NEW_SHA256))
    says = beat(70, 10, **traits)
    return Incident(Host(rows=(row(70),), beat=says, sha256=sha256), goal="recover")


def stopped(incident: Incident) -> Incident:
    """The incident after the interrupt that ended the trainer."""
    incident.until("INT 70")
    incident.done()
    says = beat(70, 10, state="stopped")
    incident.host = replace(incident.host, rows=(), beat=says)
    incident.until("judge job_stopped")
    incident.judged()
    incident.steps.clear()
    return incident


def test_a_job_that_diverged_is_not_started_again_without_a_repair() -> None:
    """It would diverge again."""
    incident = stopped(running(loss="nan"))
    closed = incident.until("close HANDED_OVER")
    assert reason(closed) == "the loss diverged and no repair is configured; it would diverge again"


def test_a_job_that_diverged_is_started_again_with_its_repair_in_place() -> None:
    """Something was changed, so it need not diverge again."""
    file: JsonObject = {"path": CODE, "source": "code.py", "sha256": NEW_SHA256}
    repair: JsonObject = {"id": "steadier", "when": {"need": "diverged"}, "files": [file]}
    config = rules({"repair": [repair]})
    host = Host(rows=(row(70),), beat=beat(70, 10, loss="nan"), sha256=OLD_SHA256)
    incident = stopped(Incident(host, goal="recover", config=config))
    assert incident.view.verdicts("intervention_needed", "confirmed")[0].condition == {
        "kind": "intervention_needed",
        "need": "diverged",
    }
    incident.until("deploy_files")
    incident.host = replace(incident.host, sha256=NEW_SHA256)
    incident.done()
    incident.until("launch")


@pytest.mark.parametrize(("after", "due"), [(0, True), (4, False)])
def test_a_repair_for_a_signature_is_not_due_when_the_job_outlived_it(
    after: int, *, due: bool
) -> None:
    """Memory ran out, the batch was halved and steps went on: nobody stops that job."""
    file: JsonObject = {"path": CODE, "source": "code.py", "sha256": NEW_SHA256}
    repair: JsonObject = {"id": "smaller", "when": {"signature": "F08"}, "files": [file]}
    log = ("step=1", f"caught {BAD_ADDRESS}", *(f"step={2 + at}" for at in range(after)))
    host = Host(rows=(row(70),), beat=beat(70, 10), log=log, sha256=OLD_SHA256)
    incident = Incident(host, goal="recover", config=rules({"repair": [repair]}))
    incident.looks("tail_log")
    assert [one.id for one in due_repairs(incident.view)] == ["smaller"] * due


def test_a_repair_is_deployed_over_what_was_seen_and_then_looked_at() -> None:
    """Its verdict names the repairs and rests on the digests; then the job is started."""
    incident = stopped(running(sha256=OLD_SHA256, loss="nan"))
    deploys = incident.until("deploy_files")
    assert incident.steps == ["deploy_files"]
    assert deploys.because[0].rule == "repair-corrected"
    assert isinstance(deploys.action, Run)
    file: JsonObject = {"path": CODE, "sha256": NEW_SHA256, "expects": OLD_SHA256}
    assert deploys.action.arguments == {"repair": "corrected", "files": [file]}
    (expected,) = deploys.expects
    digests: list[JsonValue] = [{"path": CODE, "sha256": NEW_SHA256}]
    assert expected.condition == {"kind": "repair_in_place", "files": digests}
    assert expected.by_us == incident.now_us + 60_000_000
    incident.host = replace(incident.host, sha256=NEW_SHA256)
    incident.done()
    incident.steps.clear()
    judged = incident.until("judge repair_in_place confirmed")
    assert incident.steps == ["list_processes", "file_digest", "judge repair_in_place confirmed"]
    assert isinstance(judged.action, Judge)
    condition: JsonObject = {"kind": "repair_in_place", "repairs": ["corrected"]}
    assert judged.action.condition == condition
    assert reason(judged) == "each deployed file shows the wanted digest"
    seen = incident.view.fact(f"file:{CODE}", "sha256")
    assert seen is not None
    assert judged.action.evidence == (seen.event,)
    incident.judged()
    incident.steps.clear()
    incident.until("launch")
    assert incident.steps == ["launch"]


def test_a_repair_that_is_twice_not_in_place_is_a_persons_matter() -> None:
    """Deployed, looked at, deployed once more, looked at, and no third time."""
    incident = stopped(running(sha256=OLD_SHA256))
    for _ in range(2):
        incident.until("deploy_files")
        incident.done()
    incident.steps.clear()
    closed = incident.until("close HANDED_OVER")
    assert incident.steps == ["list_processes", "file_digest", "close HANDED_OVER"]
    assert reason(closed) == "repair corrected was deployed and is not in place"
    assert isinstance(closed.action, Close)
    assert closed.action.evidence == incident.state.acts[-1].events
    assert closed.because[0].rule == "G7"


def test_a_stop_file_is_no_try_of_a_repair() -> None:
    """Both are deployments, of different files."""
    rungs: list[JsonValue] = ["request", "interrupt", "terminate", "kill"]
    config = rules({"stop": {"rungs": rungs, "request_file": "/job/stop"}})
    host = Host(rows=(row(70),), beat=beat(70, 10), sha256=OLD_SHA256)
    incident = Incident(host, goal="recover", config=config)
    incident.until("deploy_files")
    incident.done({"deployed": True})
    incident.host = replace(host, rows=(), beat=beat(70, 10, state="stopped"))
    for _ in range(2):
        incident.until("deploy_files")
        incident.done({"deployed": True})
    incident.until("close HANDED_OVER")


def test_a_deployment_that_was_never_sent_is_no_try() -> None:
    """Nothing happened, so nothing is learned from it; one whose answer was lost is one."""
    incident = stopped(running(sha256=OLD_SHA256))
    for _ in range(2):
        incident.until("deploy_files")
        incident.lost(sent=False)
    incident.until("deploy_files")
    incident.lost()
    incident.until("deploy_files")
    incident.failed()
    incident.until("close HANDED_OVER")


def test_a_stopped_job_that_nobody_says_how_to_start_is_a_persons_matter() -> None:
    """The stop was due all the same."""
    config = rules({"launch": None})
    says = beat(70, 10, loss="nan")
    incident = Incident(Host(rows=(row(70),), beat=says), goal="recover", config=config)
    stopped(incident)
    closed = incident.until("close HANDED_OVER")
    words = "the job is stopped, and the policy file does not say how to start it"
    assert reason(closed) == words
    assert isinstance(closed.action, Close)
    assert closed.action.evidence == incident.view.listed
