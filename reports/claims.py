"""Claims: the only thing a report is made of.

Here: what a claim is and how it is drawn from evidence and checked again. Not here: which
predicates exist (``reports.predicates``), how a claim reads (``reports.wording``), where it stands
in a report (``reports.sections``).
"""

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from pydantic import BaseModel, ConfigDict, JsonValue

from journal import Event
from reports.evidence import Evidence

ClaimKind = Literal["OBSERVED", "DERIVED", "INFERRED", "STATED", "BACKGROUND", "UNKNOWN"]
Strength = Literal["shown", "computed", "likely", "possible", "unknown"]
JsonObject = dict[str, JsonValue]

_LABEL_HASH = 8


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Ref(_Frozen):
    """Where a claim comes from: one event, a JSON pointer into it, a byte span of an output.

    An empty pointer means the whole event; ``/out/stdout`` an output, whose span is in bytes.
    """

    event: str
    stream: str
    seq: int
    hash: str
    pointer: str = ""
    span: tuple[int, int] | None = None

    @property
    def label(self) -> str:
        """The short form printed behind a sentence, without brackets."""
        return label(self.seq, self.hash)


class Claim(_Frozen):
    """One statement that a program can check: re-evaluate the predicate, compare the value."""

    id: str
    kind: ClaimKind
    predicate: str
    args: JsonObject
    value: JsonValue
    refs: tuple[Ref, ...]
    as_of: int
    valid_for_ms: int | None = None
    strength: Strength
    alternatives: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Found:
    """What a predicate found. ``unknown`` lowers the claim to UNKNOWN: nothing recorded says it."""

    value: JsonValue
    refs: tuple[Ref, ...]
    unknown: bool = False
    alternatives: tuple[str, ...] = ()
    strength: Strength | None = None
    valid_for_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Predicate:
    """A pure function over evidence, with the kind and strength that its claims carry."""

    name: str
    kind: ClaimKind
    strength: Strength
    evaluate: Callable[[Evidence, JsonObject], Found]


class ClaimError(ValueError):
    """A claim cannot be drawn: an unknown predicate, or an INFERRED one without alternatives."""


def label(seq: int, leaf: str) -> str:
    """The label of an event.

    >>> label(7, "3f2a91c4d0")
    'e0007·3f2a91c4'
    """
    return f"e{seq:04d}·{leaf[:_LABEL_HASH]}"


def ref(event: Event, pointer: str = "", span: tuple[int, int] | None = None) -> Ref:
    """A reference to an event or a part of it."""
    return Ref(
        event=event.id,
        stream=event.stream,
        seq=event.seq,
        hash=event.leaf,
        pointer=pointer,
        span=span,
    )


def canonical(value: JsonValue) -> str:
    """The one text form of a JSON value, for digests and comparison."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True)


def draw(
    predicates: Mapping[str, Predicate], evidence: Evidence, name: str, **args: JsonValue
) -> Claim:
    """Evaluate a predicate and state what it found.

    Raises:
        ClaimError: No such predicate, or an inference that names no alternative.
    """
    predicate = predicates.get(name)
    if predicate is None:
        raise ClaimError(f"no predicate is called {name!r}")
    found = predicate.evaluate(evidence, dict(args))
    kind: ClaimKind = "UNKNOWN" if found.unknown else predicate.kind
    if kind == "INFERRED" and not found.alternatives:
        raise ClaimError(f"the inference {name!r} names no alternative")
    identity = hashlib.sha256(f"{name}{canonical(dict(args))}".encode()).hexdigest()
    return Claim(
        id=f"c{identity[:10]}",
        kind=kind,
        predicate=name,
        args=dict(args),
        value=found.value,
        refs=found.refs or (ref(evidence.last),),
        as_of=evidence.last.seq,
        valid_for_ms=found.valid_for_ms,
        strength="unknown" if found.unknown else (found.strength or predicate.strength),
        alternatives=found.alternatives,
    )


def holds(predicates: Mapping[str, Predicate], evidence: Evidence, claim: Claim) -> bool:
    """Whether the journal still says what the claim says, references included."""
    predicate = predicates.get(claim.predicate)
    return predicate is not None and claim == draw(
        predicates, evidence, claim.predicate, **claim.args
    )
