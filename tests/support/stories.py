"""Journals that tell known stories, written by the journal itself.

The stories follow the payloads that the engine writes; they are data for report tests, not a second
engine.
"""

from pathlib import Path

from pydantic import JsonValue

from journal import Event
from journal.events import (
    CommandDenied,
    IncidentClosed,
    IncidentNoted,
    IncidentOpened,
    JsonObject,
    ProposalReceived,
    VerdictReached,
)
from tests.support.teller import AGENT, HUMAN, Teller, beat, begin, identity, table

TRAINER, INNOCENT = (412, 5_000, "S", "python3"), (97, 800, "S", "python3")
DAEMON = (55, 400, "S", "networkd-dispat")


def second_interrupt(path: Path, keys: Path) -> Path:
    """One interrupt is taken but worker threads go on; a second ends it; relaunch and recovery."""
    t = begin(path, keys)
    _asked_for(t)
    _first_interrupt(t)
    _taken_and_not_enough(t)
    absent = _gone(t)
    progress = _started_again(t)
    t.tell(
        IncidentClosed(
            resolution="RECOVERED",
            reason="relaunched and progressing",
            evidence=(absent.id, progress.id),
        )
    )
    t.journal.seal()
    t.journal.close()
    return path


def _asked_for(t: Teller) -> None:
    t.tell(IncidentOpened(title="training needs its patch", job="dflash"), actor=HUMAN)
    t.tell(IncidentNoted(text="please keep the *download* alive"), actor=HUMAN)
    t.tell(
        ProposalReceived(command="signal_process", arguments={}, words="Ctrl-C it again, I guess"),
        actor=AGENT,
    )
    t.run("list_processes", table(TRAINER, INNOCENT, DAEMON))
    t.run("read_heartbeat", beat(118))
    t.clock.pass_ms(900)
    t.run("read_heartbeat", beat(120))


def _first_interrupt(t: Teller) -> None:
    hypotheses: JsonValue = [
        {"hypothesis": "worker_threads_continue", "db": 3, "because": []},
        {"hypothesis": "graceful_stop_running", "db": 0, "because": []},
    ]
    d = t.decide(
        {"kind": "run", "purpose": "signal", "command": "signal_process", "arguments": {}},
        because=[{"rule": "ladder.interrupt", "text": "the gentlest rung that fits", "events": []}],
        rejected=[{"candidate": "KILL", "rule": "G3", "text": "no gentler rung was tried"}],
        guards=[{"guard": "G1", "passed": True, "note": "identity read 1 s ago"}],
        hypotheses=hypotheses,
        expects=[{"condition": {"kind": "process_absent"}, "by_us": 1}],
    )
    _interrupt(t, d, "stop before the patch")


def _interrupt(t: Teller, decision: str, reason: str) -> None:
    victim = identity(412, 5_000)
    signal: JsonObject = {"victim": victim.model_dump(mode="json"), "signal": "INT"}
    answer: JsonObject = {"delivered": True, "quality": "pidfd", "refusal": None}
    t.run(
        "signal_process", answer, effect="destroys", arguments=signal, victims=(victim,),
        decision=decision, reason=reason,
    )  # fmt: skip


def _taken_and_not_enough(t: Teller) -> None:
    t.clock.pass_ms(4_000)
    t.run("list_processes", table(TRAINER, INNOCENT, DAEMON), reason="see whether it ended")
    t.run("read_heartbeat", beat(131))
    d = t.decide(
        {"kind": "run", "purpose": "signal", "command": "signal_process", "arguments": {}},
        because=[{"rule": "ladder.again", "text": "the first interrupt was taken", "events": []}],
        hypotheses=[
            {"hypothesis": "worker_threads_continue", "db": 23, "because": []},
            {"hypothesis": "graceful_stop_running", "db": -5, "because": []},
        ],
    )
    _interrupt(t, d, "a second interrupt ends the thread join")


def _gone(t: Teller) -> Event:
    t.clock.pass_ms(1_500)
    t.run("list_processes", table(INNOCENT, DAEMON), reason="positive proof of absence")
    absent = t.events[-1]
    t.tell(
        VerdictReached(
            condition={"kind": "process_absent"},
            verdict="confirmed",
            reason="gone from a complete listing of the same boot and namespace",
            evidence=(absent.id,),
        )
    )
    return absent


def _started_again(t: Teller) -> Event:
    t.run("deploy_files", {"files": 1}, effect="changes", reason="put the patch in place")
    t.run("launch", {"pid": 500}, effect="changes", reason="start from the checkpoint")
    t.clock.pass_ms(2_000)
    t.run("read_heartbeat", beat(133, pid=500, start=9_000, resumed=120))
    t.clock.pass_ms(2_000)
    t.run("read_heartbeat", beat(141, pid=500, start=9_000, resumed=120))
    progress = t.events[-1]
    t.tell(
        VerdictReached(
            condition={"kind": "heartbeat_step", "at_least_step": 140},
            verdict="confirmed",
            reason="the step advanced and the loss is finite",
            evidence=(progress.id,),
        )
    )
    return progress


def lost_answer(path: Path, keys: Path, incident: str = "inc-0002") -> Path:
    """A connection breaks after a KILL was sent; nobody settles it; a proposal is denied."""
    t = begin(path, keys, incident)
    victim = identity(700, 6_000)
    t.tell(IncidentOpened(title="stop the stuck run", job="dflash"), actor=AGENT)
    t.run("list_processes", table((700, 6_000, "R", "python3"), complete=False))
    t.run(
        "signal_process",
        None,
        effect="destroys",
        arguments={"victim": victim.model_dump(mode="json"), "signal": "KILL"},
        victims=(victim,),
        answer=False,
        reason="operator asked for it",
    )
    t.tell(
        CommandDenied(
            command="run_argv",
            arguments={"argv": ["pkill", "-9", "-f", "python3"]},
            victims=(),
            decision_id=None,
            rule="G4",
            reason="a pattern is not an identity",
        ),
        actor=AGENT,
        host=True,
    )
    t.tell(
        VerdictReached(
            condition={"kind": "process_absent"},
            verdict="inconclusive",
            reason="the listing is not complete",
            evidence=(),
        )
    )
    t.journal.close()
    return path
