"""One seed, one world, one loop, one verdict of the oracle.

Here: drawing a world and the faults of its connection, driving the engine through it with events
made on the spot, and judging by the truth. A red seed is run again by its number alone. Not here:
the physics (``agentops.bench.world``); real processes are the other benchmark's matter.

The engine sees events only: no name of a habit, no truth, no seed.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Literal

from agentops.bench.answers import answer
from agentops.bench.drawing import Drawn, draw_world
from agentops.bench.world import SECOND_US, World
from agentops.policy import (
    Close,
    Decision,
    Judge,
    Pause,
    PolicyConfig,
    PolicyState,
    Run,
    decide,
    fold,
    recompute,
)
from agentops.policy.fold import RECONCILED, SETTLED
from agentops.policy.reconciling import TOOK_EFFECT
from agentops.policy.rules import EFFECT_OF
from journal.envelope import Actor, Event, HostRef
from journal.events import (
    CommandCompleted,
    CommandFailed,
    CommandIntended,
    CommandNotSent,
    CommandOutcomeUnknown,
    CommandReconciled,
    ConfigurationLoaded,
    Identity,
    IncidentOpened,
    JsonObject,
    ObservationParsed,
    Payload,
    Resolution,
    VerdictReached,
)

DECISIONS_MAX = 400
EPOCH_US = 1_700_000_000 * SECOND_US
Carried = Literal["ended", "not_sent", "lost_before", "lost_after", "failed"]


@dataclass(frozen=True, slots=True)
class Simulated:
    """What became of one seed. findings are breaches; an empty tuple is green.

    steps counts the places at which the controller could have died; acts counts the commands that
    were carried out, by name; struck counts faults by what they were and the step that they struck.
    """

    seed: int
    resolution: Resolution | None
    reason: str
    decisions: int
    signals: tuple[str, ...]
    findings: tuple[str, ...]
    drawn: Drawn
    deaths: int = 0
    full_disks: int = 0
    steps: int = 0
    acts: tuple[tuple[str, int], ...] = ()
    struck: tuple[tuple[tuple[str, str], int], ...] = ()


class Loop:
    """One loop over one world, its events kept for a second, independent folding."""

    def __init__(self, seed: int, config: PolicyConfig) -> None:
        self.random = Random(seed)  # noqa: S311 - a seed that can be told is the point
        self.world = World()
        self.drawn = draw_world(self.random, self.world)
        self.config = config
        self.state = PolicyState()
        self.events: list[tuple[Event, JsonObject | None]] = []
        self.decisions: list[Decision] = []
        self.signals: list[str] = []
        self.lost_in_row = 0
        self.lies: list[str] = []
        self.sent: Counter[str] = Counter()
        self.struck: Counter[tuple[str, str]] = Counter()

    def emit(self, payload: Payload, observation: JsonObject | None = None) -> Event:
        """An event as a journal would give it back, folded at once."""
        seq = len(self.events)
        now_us = self.now_us()
        event = Event(
            id=f"e{seq:06d}",
            stream="s1-00000000",
            seq=seq,
            prev="",
            leaf="",
            ts_us=now_us,
            mono_ns=self.world.now_us * 1_000,
            boot="boot",
            incident="incident",
            host=HostRef("simulated", "local"),
            actor=Actor("engine", "simulation"),
            cause=None,
            idem=None,
            kind=str(getattr(payload, "kind", "")),
            schema=1,
            payload=payload,
            out={},
            redacted={},
            line=b"",
        )
        self.events.append((event, observation))
        self.state = fold(self.state, event, observation)
        return event

    def now_us(self) -> int:
        """The controller's wall clock."""
        return EPOCH_US + self.world.now_us

    def begin(self) -> None:
        """Open the incident under the drawn goal."""
        self.emit(IncidentOpened(title="simulated", job="job"))
        terms: JsonObject = {
            "goal": self.drawn.goal,
            "tier": "dev",
            "shadow": False,
            "host": "simulated",
            "learned_grace_s": 0,
        }
        self.emit(
            ConfigurationLoaded(
                digest=self.config.digest(),
                source="simulated",
                body={"policy_file": self.config.body(), "terms": terms},
            )
        )

    def step(self) -> Close | None:
        """One decision, carried out; gives the close that ends the run."""
        decision = decide(self.state, self.config, self.now_us())
        self.decisions.append(decision)
        self.emit(decision.made(self.state.configuration))
        match decision.action:
            case Run() as run:
                self._command(run, decision)
            case Judge() as judge:
                self._judge(judge)
            case Pause() as pause:
                self.world.pass_time(max(0, pause.until_us - self.now_us()))
            case Close() as close:
                return close
        return None

    def _judge(self, judge: Judge) -> None:
        self.lies += lies(self.world, judge.condition, judge.verdict)
        self.emit(
            VerdictReached(
                condition=judge.condition,
                verdict=judge.verdict,
                reason=judge.reason,
                evidence=judge.evidence,
            )
        )
        unknown = judge.condition.get("status") in RECONCILED
        if judge.condition.get("kind") == TOOK_EFFECT and unknown:
            self.emit(
                CommandReconciled(
                    command_id=str(judge.condition.get("command_id")),
                    settled=SETTLED[judge.verdict],
                    evidence=judge.evidence,
                )
            )

    def _carried(self) -> Carried:
        """Whether the connection holds this time; never broken for ever."""
        if self.lost_in_row >= self.drawn.lost_in_row_max:
            self.lost_in_row = 0
            return "ended"
        if self.random.random() >= self.drawn.fault_rate:
            self.lost_in_row = 0
            return "ended"
        self.lost_in_row += 1
        kinds: tuple[Carried, ...] = ("not_sent", "lost_before", "lost_after", "failed")
        return self.random.choice(kinds)

    def _command(self, run: Run, decision: Decision) -> None:
        effect = EFFECT_OF.get(run.command, "observes")
        command_id = f"c{len(self.events)}"
        victims: tuple[Identity, ...] = ()
        if run.command == "signal_process":
            victims = (Identity.model_validate(run.arguments.get("victim")),)
            self.signals.append(str(run.arguments.get("signal")))
        self.emit(
            CommandIntended(
                command_id=command_id,
                command=run.command,
                definition="",
                arguments=run.arguments,
                argv=(),
                route=(),
                effect=effect,
                intrusiveness=0,
                retry="reconcile",
                deadline_ms=1_000,
                victims=victims,
                decision_id=decision.decision_id,
                authority="simulation",
                reason="",
            )
        )
        self._outcome(run, command_id)

    def _outcome(self, run: Run, command_id: str) -> None:
        how = self._carried()
        if how != "ended":
            self.struck[how.replace("_", " "), run.command] += 1
        if how == "not_sent":
            self.world.pass_time(SECOND_US)
            self.emit(CommandNotSent(command_id=command_id, reason="unreachable", detail=""))
            return
        observation: JsonObject | None = None
        if how != "lost_before":
            observation = answer(self.world, run.command, run.arguments)
            self.sent[run.command] += 1
        if how in {"lost_before", "lost_after"}:
            reason = self.random.choice(("connection_lost", "controller_died"))
            self.world.pass_time(SECOND_US)
            self.emit(
                CommandOutcomeUnknown(
                    command_id=command_id,
                    reason="connection_lost" if reason == "connection_lost" else "controller_died",
                    detail="",
                    duration_ms=1_000,
                )
            )
        elif how == "failed":
            fault = "malformed"
            self.emit(
                CommandFailed(command_id=command_id, exit_status=1, duration_ms=1, fault=fault)
            )
        else:
            self.emit(CommandCompleted(command_id=command_id, exit_status=0, duration_ms=1))
            self.emit(
                ObservationParsed(
                    command_id=command_id,
                    command=run.command,
                    definition="",
                    parser_version=1,
                    observation=None,
                ),
                observation,
            )


def simulate(seed: int, config: PolicyConfig) -> Simulated:
    """Run one seed to its close and judge it."""
    run = Loop(seed, config)
    run.begin()
    close: Close | None = None
    while close is None and len(run.decisions) < DECISIONS_MAX:
        close = run.step()
    run.world.pass_time(5 * SECOND_US)
    findings = (*truth(run.world, close, run.signals), *run.lies, *_again(run))
    return Simulated(
        seed=seed,
        resolution=None if close is None else close.resolution,
        reason="no end" if close is None else close.reason,
        decisions=len(run.decisions),
        signals=tuple(run.signals),
        findings=findings,
        drawn=run.drawn,
        acts=tuple(sorted(run.sent.items())),
        struck=tuple(sorted(run.struck.items())),
    )


def truth(world: World, close: Close | None, signals: Sequence[str]) -> tuple[str, ...]:
    """What the oracle holds against a run that ended so, with these signals sent."""
    found = [f"innocent {pid} got {name}" for pid, name in world.hurt]
    found += world.shelf.wrong
    if close is None:
        return (*found, f"no end within {DECISIONS_MAX} decisions")
    living = world.job()
    if close.resolution == "STOPPED" and living:
        found.append(f"false green: STOPPED, and {[p.pid for p in living]} live")
    if close.resolution == "RECOVERED":
        trainers = [p for p in living if p.role == "trainer"]
        moving = world.trainer is not None and world.trainer.state == "training"
        if len(trainers) != 1 or not moving:
            found.append(f"false green: RECOVERED, and {len(trainers)} trainers live")
    if close.resolution == "NOTHING_TO_DO" and signals:
        found.append("NOTHING_TO_DO after signals")
    if signals and signals[0] == "KILL":
        found.append("the first signal was KILL")
    return tuple(found)


def lies(world: World, condition: JsonObject, verdict: str) -> tuple[str, ...]:
    """What a verdict says beyond the truth of its moment."""
    if verdict != "confirmed" or condition.get("kind") not in {"members_absent", "job_stopped"}:
        return ()
    listed = condition.get("identities")
    named = [Identity.model_validate(each) for each in (listed if isinstance(listed, list) else [])]
    alive = [
        process.pid for process in world.processes.values() if world.identity(process) in named
    ]
    return (f"{condition['kind']} confirmed, and {alive} live",) if alive else ()


class Kept:
    """The events of a run as replay reads them from a journal."""

    def __init__(self, events: Sequence[tuple[Event, JsonObject | None]]) -> None:
        self._events = events

    def events(self) -> Iterable[Event]:
        """All events, in order."""
        return [event for event, _ in self._events]

    def observation(self, event: Event) -> object:
        """What was observed."""
        return self._events[event.seq][1]


def _again(run: Loop) -> tuple[str, ...]:
    """Folding and deciding again from the events alone must give the same bytes."""
    first = recompute(Kept(run.events)).first
    return () if first is None else (f"decision {first.ordinal}: {first.what} differ",)
