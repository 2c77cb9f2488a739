"""States of the engine as they really come about: simulated runs, stopped at any decision."""

import hashlib
import json
from collections.abc import Iterable
from functools import cache
from importlib.resources import files
from pathlib import Path

from agentops.bench.drawing import simulated_config
from agentops.bench.simulate import DECISIONS_MAX, Loop
from agentops.policy import (
    Close,
    Decision,
    Judge,
    Pause,
    PolicyConfig,
    PolicyState,
    Run,
    parse_policy,
)
from agentops.policy.decision import Action

GOLDEN = Path(__file__).parents[1] / "golden" / "policy" / "runs.json"
GOLDEN_SEEDS = (3, 4, 5, 8, 20, 42)
BYTES = GOLDEN.with_name("bytes.json")
BYTES_SEEDS = range(60)
SHIPPED = Path(str(files("agentops.policy"))) / "files" / "dev.toml"


@cache
def config() -> PolicyConfig:
    """The shipped rules with the simulated job."""
    return simulated_config(parse_policy(SHIPPED.read_text(encoding="utf-8"), SHIPPED.name))


@cache
def moments(seed: int) -> tuple[tuple[PolicyState, int, Decision], ...]:
    """The moments of a run, made once for all tests."""
    return made_moments(seed)


def made_moments(seed: int) -> tuple[tuple[PolicyState, int, Decision], ...]:
    """Each state of a run at which a decision was made, with its time and the decision."""
    run = Loop(seed, config())
    run.begin()
    found: list[tuple[PolicyState, int, Decision]] = []
    close: Close | None = None
    while close is None and len(found) < DECISIONS_MAX:
        state, now_us = run.state, run.now_us()
        close = run.step()
        found.append((state, now_us, run.decisions[-1]))
    assert close is not None, f"seed {seed} does not end"
    return tuple(found)


def told(decision: Decision) -> str:
    """One decision in one line: phase, action, and what it turned on."""
    rules = ",".join(hit.rule for hit in decision.because)
    words = (decision.phase + ":", _what(decision.action), decision.rung, decision.lead)
    return " ".join(f"{' '.join(words)} ({rules})".split())


def _what(action: Action) -> str:
    match action:
        case Run():
            return f"{action.purpose} {action.command} {action.arguments.get('signal', '')}"
        case Judge():
            return f"judge {action.condition['kind']} {action.verdict}"
        case Pause():
            return "pause"
        case Close():
            return f"close {action.resolution}"


def golden_runs() -> dict[str, list[str]]:
    """What the engine decides in six worlds, line by line."""
    return {str(seed): [told(made) for _, _, made in moments(seed)] for seed in GOLDEN_SEEDS}


def golden_bytes(seeds: Iterable[int]) -> dict[str, str]:
    """A digest of all decisions of each seed, words and evidence included.

    Without what only says which configuration and events they rest on: a new key of the policy file
    changes that, and no decision.
    """
    # Made anew: a test of the engine's own bytes must not find what another process left.
    return {str(seed): _bytes(made_moments(seed)) for seed in seeds}


def _bytes(found: Iterable[tuple[PolicyState, int, Decision]]) -> str:
    whole = hashlib.sha256()
    for _, _, decision in found:
        body = dict(decision.made("").decision)
        for key in ("decision_id", "inputs_sha256"):
            body.pop(key, None)
        whole.update(json.dumps(body, sort_keys=True).encode())
    return whole.hexdigest()[:16]


if __name__ == "__main__":
    # Run as ``python -m tests.support.simulated`` after a change that is meant; read the diff.
    GOLDEN.write_text(json.dumps(golden_runs(), indent=1) + "\n", encoding="utf-8")
    BYTES.write_text(json.dumps(golden_bytes(BYTES_SEEDS), indent=1) + "\n", encoding="utf-8")
