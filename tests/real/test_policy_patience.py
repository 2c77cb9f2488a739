"""Patience that the journal's own history teaches: used, explained with its count, replayed."""

from dataclasses import dataclass, field
from pathlib import Path

import pytest

from agentops.box.box import Box
from journal import Actor, Journal, KeyStore, NewEvent, Reader, SystemClock
from journal.events import (
    CommandIntended,
    ConfigurationLoaded,
    IncidentClosed,
    IncidentOpened,
    VerdictReached,
)
from tests.support.projects import HOST, JOB, project

pytestmark = [pytest.mark.needs("sshd", "root-namespaces"), pytest.mark.timeout(300)]
STOPS_S = (2, 3, 2, 3, 4)
RELEASES_S = (61, 70, 64, 62, 63)


@dataclass
class Past:
    """A clock that was some time ago and goes on when it is told to."""

    now_us: int = field(default_factory=lambda: SystemClock().wall_us() - 86_400 * 1_000_000)

    def wall_us(self) -> int:
        """Microseconds since 1970."""
        return self.now_us

    def mono_ns(self) -> int:
        """Nanoseconds."""
        return self.now_us * 1_000


def write_history(path: Path, keys: Path) -> None:
    """Five earlier incidents of the job: an INT, its end, and the cards' release."""
    clock = Past()
    actor = Actor("human", "earlier")
    with Journal.open(path, clock=clock, actor=actor, keys=KeyStore(keys)) as journal:
        for number, (stop_s, release_s) in enumerate(zip(STOPS_S, RELEASES_S, strict=True)):
            incident = f"EARLIER-{number}"
            intent = CommandIntended(
                command_id=f"c{number}", command="signal_process", definition="0" * 64,
                arguments={"signal": "INT"}, argv=("x",), route=(), effect="destroys",
                intrusiveness=3, retry="reconcile", deadline_ms=1, victims=(), decision_id=None,
                authority="standing dev-hosts", reason="r",
            )  # fmt: skip
            journal.append(
                NewEvent(IncidentOpened(title="earlier", job=JOB), incident=incident),
                NewEvent(intent, incident=incident),
            )
            for kind, after_s in (
                ("members_absent", stop_s), ("job_stopped", 1),
                ("gpu_idle", release_s), ("gpu_released", 2),
            ):  # fmt: skip
                clock.now_us += after_s * 1_000_000
                said = VerdictReached(
                    condition={"kind": kind}, verdict="confirmed", reason="r", evidence=()
                )
                journal.append(NewEvent(said, incident=incident))
            closed = IncidentClosed(resolution="STOPPED", reason="r", evidence=())
            journal.append(NewEvent(closed, incident=incident))


def test_what_history_taught_is_recorded_used_explained_and_replayed(tmp_path: Path) -> None:
    """A grace of 4 s by five earlier stops, where the file says 2 s; the release likewise."""
    with Box(containers=()) as box:
        place = project(box, tmp_path, "310")
        who = place.user
        assert who.run("journal", "init").status == 0
        write_history(place.journal, who.home / ".config" / "agentops" / "keys")
        place.start("deaf")
        ended = who.run("recover", JOB, "--host", HOST, "--stop", "--json")
        assert ended.json["resolution"] == "STOPPED", ended.err
    (loaded,) = Reader.open(place.journal).events(kinds={"configuration_loaded"})
    assert isinstance(loaded.payload, ConfigurationLoaded)
    terms = loaded.payload.body["terms"]
    assert isinstance(terms, dict)
    assert (terms["learned_grace_s"], terms["learned_grace_of"]) == (4, 5)
    assert (terms["learned_release_s"], terms["learned_release_of"]) == (70, 5)
    told = [
        who.run("policy", "explain", event.id).out
        for event in Reader.open(place.journal).events(kinds={"decision_made"})
        if b"is not over" in event.line
    ]
    assert any("up to 4 s, the 95th percentile of 5 earlier ones" in text for text in told)
    assert who.run("replay").status == 0
