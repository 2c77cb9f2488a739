"""All predicates by name, and the two questions asked of them: draw a claim, check a claim."""

from collections.abc import Mapping
from types import MappingProxyType

from pydantic import JsonValue

from reports import claims
from reports.claims import Claim, Predicate
from reports.evidence import Evidence
from reports.predicates import (
    commands,
    decisions,
    incident,
    learning,
    processes,
    progress,
    standing,
)

PREDICATES: Mapping[str, Predicate] = MappingProxyType(
    {
        predicate.name: predicate
        for predicate in (
            *commands.PREDICATES,
            *incident.PREDICATES,
            *processes.PREDICATES,
            *progress.PREDICATES,
            *decisions.PREDICATES,
            *learning.PREDICATES,
            *standing.PREDICATES,
            learning.REMEDY,
        )
    }
)


def draw(evidence: Evidence, name: str, **args: JsonValue) -> Claim:
    """A claim: the predicate's value on this evidence, with references."""
    return claims.draw(PREDICATES, evidence, name, **args)


def holds(evidence: Evidence, claim: Claim) -> bool:
    """Whether re-evaluating the claim on this evidence gives exactly the claim."""
    return claims.holds(PREDICATES, evidence, claim)
