"""A teller of incidents: appends intents, outcomes, observations and decisions to a real journal.

Every byte is determined: clock, random source and machine are given. Not here: the stories
(``tests.support.stories``), the engine at work (``tests.support.telling``).
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import JsonValue

from journal import Actor, Event, HostRef, Journal, KeyStore, NewEvent, Settings
from journal.events import (
    CommandCompleted,
    CommandIntended,
    CommandOutcomeUnknown,
    ConfigurationLoaded,
    DecisionMade,
    DefinitionRecorded,
    Identity,
    JsonObject,
    ObservationParsed,
    Payload,
)
from journal.machine import Machine

BOOT = "6f1d2c3b-0000-4000-8000-000000000001"
ENGINE = Actor("engine", "agentops", on_behalf_of="operator")
AGENT = Actor("agent", "assistant-1", model="model-x")
HUMAN = Actor("human", "operator")
HOST = HostRef("box-200", "SHA256:fixture")
MACHINE = Machine(
    name="controller-1",
    boot_id="0c0ffee0-0000-4000-8000-000000000002",
    platform="Linux",
    python="3.11.2",
    software="0.1.0",
    pid=1234,
    uid=1000,
)


class StepClock:
    """A clock that goes on by a fixed amount with every reading."""

    def __init__(self, start_us: int = 1_796_040_000_000_000, step_us: int = 700) -> None:
        self.now_us = start_us
        self.step_us = step_us

    def wall_us(self) -> int:
        """Microseconds since the epoch."""
        self.now_us += self.step_us
        return self.now_us

    def mono_ns(self) -> int:
        """Nanoseconds, the same clock."""
        return self.now_us * 1_000

    def pass_ms(self, milliseconds: int) -> None:
        """Let time go by."""
        self.now_us += milliseconds * 1_000


def counted_random() -> "RandomBytes":
    """A random source that gives the same bytes in every run."""
    return RandomBytes()


class RandomBytes:
    """SHA-256 of a counter, cut to length."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, size: int) -> bytes:
        """The next bytes."""
        made = b""
        while len(made) < size:
            self.count += 1
            made += hashlib.sha256(self.count.to_bytes(8, "big")).digest()
        return made[:size]


@dataclass
class Teller:
    """Writes one incident, step by step."""

    journal: Journal
    clock: StepClock
    incident: str
    events: list[Event] = field(default_factory=list)
    commands: int = 0
    decisions: int = 0
    defined: set[str] = field(default_factory=set)

    def tell(
        self,
        payload: Payload,
        *,
        actor: Actor | None = None,
        host: bool = False,
        attachments: Mapping[str, bytes] | None = None,
        incident: bool = True,
    ) -> Event:
        """Append one event."""
        (event,) = self.journal.append(
            NewEvent(
                payload,
                incident=self.incident if incident else None,
                host=HOST if host else None,
                actor=actor,
                attachments=dict(attachments or {}),
            )
        )
        self.events.append(event)
        return event

    def define(self, name: str, effect: str) -> str:
        """Record a command's definition once; gives its digest."""
        digest = hashlib.sha256(name.encode()).hexdigest()
        if digest not in self.defined:
            self.defined.add(digest)
            body: JsonObject = {
                "name": name,
                "effect": effect,
                "assumptions": ["the host runs Linux with /proc mounted"],
                "silence": "no end marker: nothing is known",
                "metric_cards": {"rss_kib": "resident memory at the moment of reading, KiB"},
            }
            self.tell(
                DefinitionRecorded(digest=digest, subject="command", name=name, body=body),
                incident=False,
            )
        return digest

    def decide(self, action: JsonObject, **parts: JsonValue) -> str:
        """Record a decision; gives its id."""
        self.decisions += 1
        decision: JsonObject = {"action": action, "because": [], "rejected": [], **parts}
        text = json.dumps(decision, sort_keys=True)
        name = f"d{self.decisions:03d}"
        self.tell(
            DecisionMade(
                decision_id=name,
                now_us=self.clock.now_us,
                configuration=hashlib.sha256(b"policy").hexdigest(),
                inputs_sha256=hashlib.sha256(f"in{text}".encode()).hexdigest(),
                decision=decision,
                decision_sha256=hashlib.sha256(text.encode()).hexdigest(),
            )
        )
        return name

    def run(
        self,
        command: str,
        observation: JsonValue,
        *,
        effect: str = "observes",
        arguments: JsonObject | None = None,
        victims: tuple[Identity, ...] = (),
        decision: str | None = None,
        reason: str = "find out what runs",
        took_ms: int = 40,
        answer: bool = True,
        stdout: bytes = b"{}\n",
    ) -> str:
        """Intent, outcome and observation; gives the command id."""
        digest = self.define(command, effect)
        self.commands += 1
        name = f"{self.incident}-c{self.commands:03d}"
        intended = CommandIntended(
            command_id=name,
            command=command,
            definition=digest,
            arguments=arguments or {},
            argv=("python3", "-c", f"probe {command}"),
            route=("ssh", "pct exec 200"),
            effect=effect,  # type: ignore[arg-type]  # the caller's literal
            intrusiveness=0 if effect == "observes" else 3,
            retry="repeat" if effect == "observes" else "reconcile",
            deadline_ms=30_000,
            victims=victims,
            decision_id=decision,
            authority="standing approval dev",
            reason=reason,
        )
        self.tell(intended, host=True)
        self.clock.pass_ms(took_ms)
        if answer:
            self._answer(intended, observation, stdout, took_ms)
        else:
            self.tell(
                CommandOutcomeUnknown(
                    command_id=name, reason="connection_lost", detail="reset", duration_ms=took_ms
                ),
                host=True,
            )
        return name

    def _answer(
        self, intended: CommandIntended, observation: JsonValue, stdout: bytes, took_ms: int
    ) -> None:
        self.tell(
            CommandCompleted(command_id=intended.command_id, exit_status=0, duration_ms=took_ms),
            host=True,
            attachments={"stdout": stdout, "stderr": b""},
        )
        self.tell(
            ObservationParsed(
                command_id=intended.command_id,
                command=intended.command,
                definition=intended.definition,
                parser_version=1,
                observation=None,
            ),
            host=True,
            attachments={"observation": json.dumps(observation, sort_keys=True).encode()},
        )


def identity(pid: int, start: int) -> Identity:
    """A process in the story's container."""
    return Identity(
        boot_id=BOOT,
        pid_namespace=4026532500,
        namespace_init_start_ticks=900,
        pid=pid,
        start_ticks=start,
    )


def table(*rows: tuple[int, int, str, str], complete: bool = True) -> JsonObject:
    """A process table of (pid, start ticks, state, name)."""
    return {
        "boot_id": BOOT,
        "pid_namespace": 4026532500,
        "namespace_init_start_ticks": 900,
        "complete": complete,
        "processes": [
            {
                "pid": pid,
                "ppid": 1,
                "start_ticks": start,
                "state": state,
                "comm": name,
                "threads": 7,
                "rss_kib": 8_912_896,
            }
            for pid, start, state, name in rows
        ],
    }


def beat(
    step: int, *, pid: int = 412, start: int = 5_000, resumed: int | None = None
) -> JsonObject:
    """A heartbeat as a command reads it."""
    return {
        "exists": True,
        "age_ms": 120,
        "heartbeat": {
            "run_id": "run-1",
            "pid": pid,
            "start_ticks": start,
            "state": "training",
            "step": step,
            "steps": 400,
            "loss": "3.4567",
            "tokens_per_s": "1234",
            "resumed_from_step": resumed,
        },
    }


def begin(
    path: Path, keys: Path, incident: str = "inc-0001", clock: StepClock | None = None
) -> Teller:
    """A new journal with a configuration, ready for one incident."""
    clock = clock or StepClock()
    journal = Journal.create(
        path,
        clock=clock,
        actor=ENGINE,
        keys=KeyStore(keys, random=counted_random()),
        anchor=None,
        settings=Settings(random=counted_random(), machine=MACHINE),
    )
    teller = Teller(journal, clock, incident)
    teller.tell(
        ConfigurationLoaded(
            digest=hashlib.sha256(b"policy").hexdigest(), source="policy.toml", body={"version": 3}
        ),
        incident=False,
    )
    return teller
