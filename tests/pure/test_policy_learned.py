"""What earlier incidents teach of a job: its stops and releases, their 95th percentile."""

from dataclasses import dataclass, field, replace

import pytest

from agentops.policy import fold
from agentops.policy.config import Job
from agentops.policy.learned import ENOUGH, History, Patience, learn_patience
from agentops.policy.releasing import release_patience
from agentops.policy.state import PolicyState
from agentops.policy.view import look
from journal.envelope import Event
from journal.events import (
    CommandIntended,
    ConfigurationLoaded,
    Identity,
    IncidentOpened,
    JsonObject,
    Payload,
    VerdictReached,
)
from journal.events import Verdict as Said
from tests.support.acting import later_term
from tests.support.simulated import config
from tests.support.unwritten import unwritten

VICTIM = Identity(boot_id="b", pid_namespace=1, namespace_init_start_ticks=1, pid=7, start_ticks=70)


@dataclass
class Past:
    """Events of earlier incidents, each at a second of one monotonic clock."""

    events: list[Event] = field(default_factory=list)

    def add(self, incident: str, at_s: float, payload: Payload, boot: str = "b") -> None:
        """One more event."""
        place = len(self.events)
        self.events.append(
            unwritten(
                payload, place, ts_us=int(at_s * 1e6), mono_ns=int(at_s * 1e9), boot=boot,
                incident=incident,
            )
        )  # fmt: skip

    def opened(self, incident: str, job: str = "job") -> None:
        """An incident of *job*."""
        self.add(incident, 0, IncidentOpened(title="t", job=job))

    def signalled(self, incident: str, at_s: float, signal: str = "INT") -> None:
        """A signal to the job."""
        self.add(
            incident,
            at_s,
            CommandIntended(
                command_id="c", command="signal_process", definition="",
                arguments={"signal": signal}, argv=(), route=(), effect="destroys",
                intrusiveness=3, retry="reconcile", deadline_ms=1, victims=(VICTIM,),
                decision_id=None, authority="a", reason="r",
            ),
        )  # fmt: skip

    def judged(self, incident: str, at_s: float, kind: str, said: Said = "confirmed") -> None:
        """A verdict."""
        self.add(
            incident,
            at_s,
            VerdictReached(condition={"kind": kind}, verdict=said, reason="r", evidence=()),
        )

    def released(self, incident: str, after_s: float, job: str = "job") -> None:
        """A stop, and memory that was free so long after its proof."""
        self.opened(incident, job)
        self.judged(incident, 100, "job_stopped")
        self.judged(incident, 100 + after_s, "gpu_idle")
        self.judged(incident, 102 + after_s, "gpu_released")

    def teaches(self, before: str = "now") -> History:
        """What is learned of the job."""
        return learn_patience(self.events, "job", before=before)


def test_a_release_is_learned_from_the_stops_proof_to_the_first_of_two_idle_looks() -> None:
    """From five on, and the longest of few counts."""
    past = Past()
    for number in range(ENOUGH - 1):
        past.released(f"i{number}", 20)
    assert past.teaches().release == Patience(0, ENOUGH - 1)
    past.released("last", 74.2)
    assert past.teaches().release == Patience(75, ENOUGH)
    assert past.teaches().grace == Patience(0, 0)


def test_what_was_not_a_release_of_this_job_teaches_nothing() -> None:
    """Another job's, the present incident's, a refuted one, one without a proven stop."""
    past = Past()
    for number in range(ENOUGH):
        past.released(f"o{number}", 500, job="other")
        past.released("now", 500)
        past.opened(f"r{number}")
        past.judged(f"r{number}", 100, "job_stopped")
        past.judged(f"r{number}", 600, "gpu_released", "refuted")
        past.opened(f"n{number}")
        past.judged(f"n{number}", 600, "gpu_idle")
        past.judged(f"n{number}", 602, "gpu_released")
    assert past.teaches() == History(Patience(), Patience())


def test_an_idle_look_before_memory_was_held_again_does_not_shorten_a_release() -> None:
    """The look that counts is the one with which a second agreed."""
    past = Past()
    for number in range(ENOUGH):
        incident = f"i{number}"
        past.opened(incident)
        past.judged(incident, 100, "job_stopped")
        for idle_s in (101, 130):
            past.judged(incident, idle_s, "gpu_idle")
        past.judged(incident, 132, "gpu_released")
    assert past.teaches().release == Patience(30, ENOUGH)


def test_a_stop_is_learned_from_the_last_signal_and_a_kill_is_no_stop_of_its_own() -> None:
    """Five that ended by INT or TERM; five that were killed add none."""
    past = Past()
    for number in range(ENOUGH):
        past.opened(f"i{number}")
        past.signalled(f"i{number}", 10)
        past.signalled(f"i{number}", 30, "TERM")
        past.judged(f"i{number}", 42, "members_absent")
        past.opened(f"k{number}")
        past.signalled(f"k{number}", 10)
        past.signalled(f"k{number}", 300, "KILL")
        past.judged(f"k{number}", 900, "members_absent")
    assert past.teaches().grace == Patience(12, ENOUGH)


def test_the_monotonic_clock_measures_within_one_boot_and_the_wall_between_two() -> None:
    """A wall clock that was set back makes no release negative."""
    past = Past()
    for number in range(ENOUGH):
        past.opened(f"i{number}")
        past.judged(f"i{number}", 100, "job_stopped")
        idle = VerdictReached(
            condition={"kind": "gpu_idle"}, verdict="confirmed", reason="r", evidence=()
        )
        past.add(f"i{number}", 90, idle, boot="another")
        past.judged(f"i{number}", 150, "gpu_released")
    assert past.teaches().release == Patience(0, ENOUGH)


@pytest.mark.parametrize(
    ("learned_s", "wait_s", "told"),
    [
        (0, 60, ""),
        (59, 60, ""),
        (60, 60, ""),
        (75, 75, "; up to 75 s, the 95th percentile of 6 earlier ones"),
    ],
)
def test_learned_patience_raises_the_wait_for_a_release_and_never_lowers_it(
    learned_s: int, wait_s: int, told: str
) -> None:
    """The configured 60 s are the floor, and only what history adds is told."""
    state, now_us, _ = later_term()
    terms = replace(state.terms, learned_release_s=learned_s, learned_release_of=6)
    view = look(replace(state, terms=terms), config(), job(), now_us)
    patience = release_patience(view)
    assert (patience.seconds, patience.told) == (wait_s, told)


def job() -> Job:
    """The simulated job on cards."""
    return config().job["job"].model_copy(update={"gpu": True})


def test_what_was_learned_is_read_from_the_configuration_event() -> None:
    """So a replay needs no other journal; an older event that lacks a key teaches nothing."""
    said: JsonObject = {
        "learned_grace_s": 14, "learned_grace_of": 7,
        "learned_release_s": 75, "learned_release_of": 6,
    }  # fmt: skip
    past = Past()
    early: JsonObject = {"learned_grace_s": 14}
    for terms in (said, early):
        body: JsonObject = {"policy_file": {}, "terms": terms}
        past.add("i", 1, ConfigurationLoaded(digest="d", source="s", body=body))
    whole, older = (fold(PolicyState(), event).terms for event in past.events)
    assert (whole.learned_grace_s, whole.learned_grace_of) == (14, 7)
    assert (whole.learned_release_s, whole.learned_release_of) == (75, 6)
    assert (older.learned_grace_s, older.learned_grace_of) == (14, 0)
    assert (older.learned_release_s, older.learned_release_of) == (0, 0)
