"""What a journal has under a name: numbers by kind, and the recorded reasons of acts.

Here: reading them out of payloads and observations. Not here: what happened and when
(``reports.lint.facts.happened``).
"""

import re
from collections.abc import Iterator

from pydantic import JsonValue

from journal.events import DecisionMade
from reports.evidence import Evidence
from reports.observed import items, number

_REASONED = frozenset(
    {"command_intended", "command_denied", "decision_made", "proposal_received", "incident_noted"}
)
_NUMBERED = ("step", "pid", "loss", "exit", "db", "threads")
_LIMIT = re.compile(r"(stall|respawn|interrupt|terminate|kill|graceful_max|request)_(s|ms)")
_NUMBER = re.compile(r"(?<![\w.])\d+(?:\.\d+)?")


def numbers(evidence: Evidence) -> dict[str, frozenset[str]]:
    """Numbers that are known under a name: steps, pids, losses, exit statuses, and so on."""
    found: dict[str, set[str]] = {name: set() for name in _NUMBERED}
    for event in evidence.events:
        values = [event.payload.model_dump(mode="json"), evidence.observations.get(event.id)]
        for value in values:
            for name, leaf in _leaves(value):
                _sort(found, name, leaf)
        if isinstance(event.payload, DecisionMade):
            weights = [number(h, "db") or 0 for h in items(event.payload.decision, "hypotheses")]
            found["db"] |= {str(abs(a - b)) for a in weights for b in weights}
    return {name: frozenset(each) for name, each in found.items()}


def _sort(found: dict[str, set[str]], name: str, leaf: JsonValue) -> None:
    """Put a leaf's numbers where the name of its field says that they belong."""
    said = str(leaf)
    if limit := _LIMIT.fullmatch(name):
        scale = 1_000 if limit[2] == "ms" else 1_000_000
        kind = f"limit:{limit[1] if limit[1] in {'stall', 'respawn'} else 'grace'}"
        if isinstance(leaf, int) and not isinstance(leaf, bool):
            found.setdefault(kind, set()).add(str(leaf * scale))
    if "step" in name or name == "series":
        found["step"].update(_NUMBER.findall(said))
    elif "pid" in name or name in {"pgid", "sid", "alive"}:
        found["pid"].update(_NUMBER.findall(said))
    elif name == "threads":
        found["threads"].add(said)
    elif name == "loss":
        found["loss"].update(_NUMBER.findall(said))
    elif name == "exit_status":
        found["exit"].add(said)
    elif name in {"db", "because"}:
        found["db"].update(n.lstrip("-") for n in _NUMBER.findall(said))
    if isinstance(leaf, str) and len(leaf) > 3:  # noqa: PLR2004  (words, not a digit)
        found["step"].update(re.findall(r"\bsteps?[ =](\d+)", leaf))
        found["step"].update(n for p in re.findall(r"from (\d+) to (\d+)", leaf) for n in p)
        found["pid"].update(re.findall(r"\bpid[ =](\d+)", leaf))
        found["loss"].update(re.findall(r"\bloss[ =](\d+\.\d+)", leaf))


def _leaves(value: JsonValue, name: str = "") -> Iterator[tuple[str, JsonValue]]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _leaves(inner, key)
    elif isinstance(value, list):
        for inner in value:
            yield from _leaves(inner, name)
    elif value is not None and not isinstance(value, bool) and name != "argv":
        yield name, value


def reasons(evidence: Evidence) -> Iterator[str]:
    """Recorded reasons: of intents, decisions, verdicts and what decisions passed over."""
    for event in evidence.events:
        if event.kind in _REASONED:
            dumped = event.payload.model_dump(mode="json")
            for name, leaf in _leaves(dumped):
                if name in {"reason", "text", "words", "note"} and isinstance(leaf, str):
                    yield leaf
