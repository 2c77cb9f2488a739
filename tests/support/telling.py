"""An incident told event by event: the test says what the host shows, the engine says what is next.

Here: a host without physics (it shows what it is told to show), the loop that answers the engine's
looks, waits and verdicts by events, and what must hold of each decision on the way. Not here: a
host with habits of its own (``agentops.bench.world``).

Acts are never carried out by the loop: it stops there, and the test says what became of them.
"""

import json
from collections.abc import Sequence
from typing import get_args

from pydantic import JsonValue

from agentops.bench.drawing import simulated_config
from agentops.bench.world import LOG, NAMESPACE
from agentops.policy import Close, Decision, Judge, Pause, PolicyConfig, PolicyState, Run
from agentops.policy import decide as policy_decide
from agentops.policy.fold import RECONCILED, SETTLED, fold
from agentops.policy.rules import EFFECT_OF
from agentops.policy.view import SECOND_US, View, look
from journal.envelope import Event, HostRef
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
    Verdict,
    VerdictReached,
)
from tests.support.shown import EPOCH_US, TICKS_PER_S, Host, row, up_ticks
from tests.support.simulated import config
from tests.support.unwritten import unwritten

BOOT = "11111111-2222-3333-4444-555555555555"
DECISIONS_MAX = 60


def rules(job: JsonObject | None = None, **tables: JsonObject) -> PolicyConfig:
    """The shipped rules with a job of few needs; *job* and *tables* are laid over them."""
    bare: JsonObject = {"lock": [], "shared_memory": None}
    plain: JsonObject = {"stop": {"dump_signal": None}, "launch": {"model": None}}
    body = _laid(simulated_config(config()).body(), {"job": {"job": bare | plain}})
    return PolicyConfig.model_validate(_laid(body, {"job": {"job": job or {}}, **tables}))


def _laid(below: JsonValue, above: JsonValue) -> JsonValue:
    if not isinstance(below, dict) or not isinstance(above, dict):
        return above
    return below | {key: _laid(below.get(key), value) for key, value in above.items()}


class Incident:
    """One incident: its host, its events, and the decisions so far."""

    def __init__(
        self,
        host: Host,
        *,
        goal: str = "stop",
        config: PolicyConfig | None = None,
        learned_grace_s: int = 0,
        learned_grace_of: int = 0,
    ) -> None:
        self.host = host
        self.config = rules() if config is None else config
        self.state = PolicyState()
        self.now_us = EPOCH_US
        self.events: list[Event] = []
        self.decision: Decision | None = None
        self.steps: list[str] = []
        self.emit(IncidentOpened(title="told", job="job"))
        terms: JsonObject = {
            "goal": goal,
            "tier": "dev",
            "host": "told",
            "learned_grace_s": learned_grace_s,
            "learned_grace_of": learned_grace_of,
        }
        body: JsonObject = {"terms": terms}
        self.emit(ConfigurationLoaded(digest=self.config.digest(), source="told", body=body))

    @property
    def view(self) -> View:
        """What the engine sees at present."""
        return look(self.state, self.config, self.config.job["job"], self.now_us)

    def emit(self, payload: Payload, observation: JsonObject | None = None) -> Event:
        """One event, folded at once."""
        seq = len(self.events)
        event = unwritten(
            payload, seq, ts_us=self.now_us, mono_ns=(self.now_us - EPOCH_US) * 1_000,
            incident="i7", host=HostRef("told", "local"),
        )  # fmt: skip
        self.events.append(event)
        self.state = fold(self.state, event, observation)
        return event

    def later(self, seconds: int, *, us: int = 0) -> None:
        """Time passes."""
        self.now_us += seconds * SECOND_US + us

    def decide(self) -> Decision:
        """The next decision, recorded; it is what every decision must be."""
        made = policy_decide(self.state, self.config, self.now_us)
        self.emit(made.made(self.state.configuration))
        check(made, {event.id for event in self.events}, self.now_us)
        self.decision = made
        self.steps.append(said(made, self.now_us))
        return made

    def until(self, wanted: str) -> Decision:
        """The first decision from here on whose words begin with *wanted*.

        Looks and verdicts before it are answered, waits and pauses waited out.
        """
        for _ in range(DECISIONS_MAX):
            made = self.decide()
            if self.steps[-1].startswith(wanted):
                return made
            self.goes_on(made)
        raise AssertionError(f"no {wanted!r} among {self.steps}")

    def goes_on(self, made: Decision) -> None:
        """What was decided is answered, waited out or recorded; an act is the test's matter."""
        match made.action:
            case Judge() as judge:
                self.judged(judge)
            case Pause() as pause:
                self.now_us = max(self.now_us, pause.until_us)
            case Run() as run if run.purpose in {"probe", "wait", "reconcile"}:
                self.answered()
            case _:
                raise AssertionError(f"{self.steps[-1]!r} came first: {self.steps}")

    def judged(self, judge: Judge | None = None) -> None:
        """The verdict of the last decision, or *judge*, is recorded."""
        reached = judge or (None if self.decision is None else self.decision.action)
        assert isinstance(reached, Judge)
        fields = (reached.condition, reached.verdict, reached.reason, reached.evidence)
        condition, verdict, reason, evidence = fields
        self.emit(
            VerdictReached(condition=condition, verdict=verdict, reason=reason, evidence=evidence)
        )
        if condition.get("status") in RECONCILED:
            self.reconciled(condition, verdict, evidence)

    def reconciled(self, condition: JsonObject, verdict: Verdict, evidence: Sequence[str]) -> None:
        """What a verdict on an unknown outcome settled."""
        command_id = str(condition["command_id"])
        self.emit(
            CommandReconciled(
                command_id=command_id, settled=SETTLED[verdict], evidence=tuple(evidence)
            )
        )

    def answered(self) -> None:
        """The look or wait that was decided last is answered by what the host shows."""
        run = self._intended()
        if run.command == "wait_until":
            timeout_ms = run.arguments["timeout_ms"]
            assert isinstance(timeout_ms, int)
            self.later(0, us=timeout_ms * 1_000)
            self.done({"met": False, "elapsed_ms": timeout_ms, "series": []})
        else:
            self.done(self._shown(run.command))

    def looks(self, *commands: str) -> None:
        """Somebody takes these looks whom the engine did not send."""
        for command in commands:
            self._intent(Run("probe", command, {}), None)
            self._observed(command, self._shown(command))

    def _shown(self, command: str) -> JsonObject:
        host = self.host
        shown: dict[str, JsonObject] = {
            "list_processes": self._listing(),
            "read_heartbeat": {"exists": host.beat is not None, "heartbeat": host.beat},
            "tail_log": {"path": LOG, "size_bytes": 1, "lines": list(host.log)},
            "file_digest": {"exists": True, "sha256": host.sha256},
            "inspect_process": {},
            "ports": {"sockets": [{"port": port} for port in host.ports]},
        }
        return shown[command]

    def _listing(self) -> JsonObject:
        init = row(1, ppid=0, start_ticks=1, comm="init", cmdline=["init"], exe="/sbin/init")
        return {
            "boot_id": BOOT,
            "pid_namespace": NAMESPACE,
            "namespace_init_start_ticks": self.host.started_ticks,
            "uptime_ticks": up_ticks(self.now_us),
            "ticks_per_s": TICKS_PER_S,
            "complete": self.host.complete,
            "processes": [init, *self.host.rows],
        }

    def _intended(self) -> Run:
        """The intent of the run that was decided last, once."""
        assert self.decision is not None
        run = self.decision.action
        assert isinstance(run, Run), self.steps
        if (run.command, run.arguments) in [said[1:] for said in self.state.running]:
            return run
        self._intent(run, self.decision.decision_id)
        return run

    def _intent(self, run: Run, decision_id: str | None) -> None:
        victim = run.arguments.get("victim")
        victims = () if victim is None else (Identity.model_validate(victim),)
        self.emit(
            CommandIntended(
                command_id=f"c{len(self.events)}", command=run.command, definition="",
                arguments=run.arguments, argv=(), route=(),
                effect=EFFECT_OF.get(run.command, "observes"), intrusiveness=0,
                retry="reconcile", deadline_ms=1_000, victims=victims,
                decision_id=decision_id, authority="told", reason="",
            )
        )  # fmt: skip

    def done(self, observation: JsonObject | None = None) -> None:
        """The run that was decided last took place, and this was its answer.

        Without an answer a signal was delivered and a deployment put its files in place.
        """
        run = self._intended()
        plain: JsonObject = {"delivered": True} if run.command == "signal_process" else {}
        self._observed(run.command, plain if observation is None else observation)

    def _observed(self, command: str, observation: JsonObject) -> None:
        command_id = self.state.running[-1][0]
        self.emit(CommandCompleted(command_id=command_id, exit_status=0, duration_ms=1))
        self.emit(
            ObservationParsed(
                command_id=command_id, command=command, definition="", parser_version=1,
                observation=None,
            ),
            observation,
        )  # fmt: skip

    def refused(self, why: str) -> None:
        """The host's own check refused the signal."""
        self.done({"delivered": False, "refusal": why})

    def lost(self, *, sent: bool = True) -> None:
        """The connection broke: nobody knows whether it took place, or it was never sent."""
        self._intended()
        command_id = self.state.running[-1][0]
        if sent:
            self.emit(
                CommandOutcomeUnknown(
                    command_id=command_id, reason="connection_lost", detail="", duration_ms=1
                )
            )
        else:
            self.emit(CommandNotSent(command_id=command_id, reason="unreachable", detail=""))

    def cut_short(self) -> None:
        """It ended, and the writer died before its answer was on the disk as well."""
        self._intended()
        command_id = self.state.running[-1][0]
        self.emit(CommandCompleted(command_id=command_id, exit_status=0, duration_ms=1))

    def failed(self) -> None:
        """The command failed, and its answer could not be read."""
        self._intended()
        command_id = self.state.running[-1][0]
        self.emit(
            CommandFailed(command_id=command_id, exit_status=1, duration_ms=1, fault="malformed")
        )


def check(made: Decision, known: set[str], now_us: int) -> None:
    """What holds of each decision: it says why, rests on what happened, and ends.

    A verdict and a handover rest on named events; whoever acts says what it expects, and by when.
    """
    body = made.made("").decision
    assert json.loads(json.dumps(body)) == body
    assert made.because
    for hit in made.because:
        assert all(str(words) == words != "" for words in (hit.rule, hit.text)), made
        assert set(hit.events) <= known, made
    assert all(part.candidate and part.rule and part.text for part in made.rejected), made
    assert isinstance(made.rung, str)
    assert isinstance(made.lead, str)
    match made.action:
        case Judge() | Close() as spoken:
            assert spoken.reason, made
            assert set(spoken.evidence) <= known
            name = spoken.verdict if isinstance(spoken, Judge) else spoken.resolution
            assert name in {*get_args(Verdict), *get_args(Resolution)}
        case Pause() as pause:
            assert pause.reason, made
            assert pause.until_us > now_us
        case Run() as run:
            assert run.command
            acts = run.purpose in {"signal", "deploy", "relaunch"}
            assert all(expected.by_us >= now_us for expected in made.expects)
            gentle = run.arguments.get("signal") in {"CONT", "USR1", "USR2"}
            assert bool(made.expects) is (acts and not gentle), made
    if isinstance(made.action, Judge):
        assert made.action.evidence, made


def said(made: Decision, now_us: int) -> str:
    """A decision in a few words, times relative to *now_us*."""
    match made.action:
        case Judge() as judge:
            return f"judge {judge.condition['kind']} {judge.verdict}"
        case Close() as close:
            return f"close {close.resolution}"
        case Pause() as pause:
            return f"pause {(pause.until_us - now_us) / SECOND_US:g}"
        case Run() as run:
            return _run(run)


def _run(run: Run) -> str:
    arguments = run.arguments
    victim, condition = arguments.get("victim"), arguments.get("condition")
    if isinstance(victim, dict):
        return f"{arguments['signal']} {victim['pid']}"
    if isinstance(condition, dict):
        return f"wait {condition['kind']} {arguments['timeout_ms']}"
    return run.command


def named(made: Decision) -> list[int]:
    """The pids that a decided wait or verdict names."""
    action = made.action
    assert isinstance(action, Run | Judge)
    condition = action.arguments.get("condition") if isinstance(action, Run) else action.condition
    listed = condition.get("identities") if isinstance(condition, dict) else None
    assert isinstance(listed, list)
    return [Identity.model_validate(who).pid for who in listed]


def passed_over(made: Decision) -> Sequence[tuple[str, str]]:
    """The other candidates of a decision, each with the rule that spoke against it."""
    return [(part.candidate, part.rule) for part in made.rejected]
