"""The shape of a typed command: arguments in, argv out, and a parser for the answer.

Here: what every command declares. Not here: how bytes reach a host (``agentops.transport``), who
may run what (``agentops.policy``), what is recorded (``agentops.executor``).
"""

import hashlib
import json
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cache
from typing import Annotated, ClassVar

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from journal.events import Effect, Identity, Retry

# A journal line holds integers below 2^53 only, so no parser may hand on a larger one.
Count = Annotated[int, Field(ge=0, lt=2**53)]


@dataclass(frozen=True, slots=True)
class Completed:
    """What a command left behind once its end marker arrived.

    exit_status is the command's own status as its shell saw it (128 + signal for a signal).
    Streams are bytes: decoding is the parser's decision. A stream longer than the capture limit is
    head and tail joined, and its flag is set: a parser must not conclude "absent" from it.
    """

    exit_status: int
    stdout: bytes
    stderr: bytes
    stdout_truncated: bool = False
    stderr_truncated: bool = False


@dataclass(frozen=True, slots=True)
class Malformed:
    """The host's answer could not be read; *line* is 1-based, 0 when no line is to blame."""

    reason: str
    line: int = 0


class Observation(BaseModel):
    """Base of typed results. No floats: integers with a unit in the name, or decimal strings."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    def holds(self) -> bool | None:
        """Whether what was asked for is so; None where the answer cannot say. A look always is."""
        return True


class Command(BaseModel, ABC):
    """One operation on one host. A text below an argument is its description."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    name: ClassVar[str]
    parser_version: ClassVar[int] = 1
    effect: ClassVar[Effect]
    intrusiveness: ClassVar[int]
    retry: ClassVar[Retry]
    assumptions: ClassVar[tuple[str, ...]]
    silence: ClassVar[str]
    metric_cards: ClassVar[dict[str, str]] = {}
    no_free_text: ClassVar[bool] = False
    deadline_ms: ClassVar[int] = 30_000
    readable_statuses: ClassVar[frozenset[int]] = frozenset({0})

    @abstractmethod
    def argv(self) -> tuple[str, ...]:
        """The command, one element per argument. No shell is involved."""

    def stdin(self) -> bytes:
        """What the command reads; empty means closed."""
        return b""

    def victims(self) -> tuple[Identity, ...]:
        """The processes that this command may signal."""
        return ()

    def deadline(self) -> int:
        """How long connect, run and drain may take together, in milliseconds."""
        return self.deadline_ms

    @abstractmethod
    def parse(self, completed: Completed) -> Observation | Malformed:
        """Read the host's answer. Pure, and total: it never raises on any bytes."""

    def arguments(self) -> dict[str, JsonValue]:
        """The arguments by their public names, as plain JSON, for the journal."""
        dumped: dict[str, JsonValue] = self.model_dump(mode="json", by_alias=True)
        return dumped

    @classmethod
    def definition(cls) -> dict[str, JsonValue]:
        """What the command means, for ``definition_recorded``."""
        return {
            "name": cls.name,
            "summary": (cls.__doc__ or "").strip().splitlines()[0],
            "parser_version": cls.parser_version,
            "effect": cls.effect,
            "intrusiveness": cls.intrusiveness,
            "retry": cls.retry,
            "assumptions": list(cls.assumptions),
            "silence": cls.silence,
            "metric_cards": dict(cls.metric_cards),
            "no_free_text": cls.no_free_text,
        }

    @classmethod
    @cache
    def definition_digest(cls) -> str:
        """SHA-256 of the canonical definition, in hex."""
        text = json.dumps(cls.definition(), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()
