"""Simulated worlds under seeds: the oracle finds nothing, and it would find something."""

import json
from collections import Counter
from dataclasses import replace

import pytest

from agentops.bench.simulate import DECISIONS_MAX, simulate
from tests.support.simulated import (
    BYTES,
    BYTES_SEEDS,
    GOLDEN,
    config,
    golden_bytes,
    golden_runs,
)

SEEDS = 60


@pytest.mark.parametrize("first", range(0, SEEDS, 20))
def test_no_seed_breaks_a_gate(first: int) -> None:
    """No innocent is signalled, nothing is called green that is not, and each run ends."""
    runs = [simulate(seed, config()) for seed in range(first, first + 20)]
    assert [(run.seed, run.findings) for run in runs if run.findings] == []
    assert max(run.decisions for run in runs) < DECISIONS_MAX


def test_the_worlds_differ_enough_to_mean_something() -> None:
    """Every resolution comes up, and every rung is used."""
    runs = [simulate(seed, config()) for seed in range(30)]
    assert {run.resolution for run in runs} == {
        "RECOVERED",
        "STOPPED",
        "NOTHING_TO_DO",
        "HANDED_OVER",
    }
    sent = Counter(name for run in runs for name in run.signals)
    assert {"INT", "TERM", "KILL"} <= set(sent)


def test_a_policy_without_a_permit_signals_nobody() -> None:
    """What no rule permits is not done."""
    bare = config().model_copy(update={"permit": ()})
    runs = [simulate(seed, bare) for seed in range(12)]
    assert [run.signals for run in runs] == [()] * 12
    assert all(not run.findings for run in runs)


def test_the_same_seed_runs_the_same_way() -> None:
    """A red seed is run again by its number alone."""
    assert simulate(7, config()) == simulate(7, config())
    assert replace(simulate(7, config()), seed=8) != simulate(8, config())


def test_a_change_of_behaviour_is_seen_line_by_line() -> None:
    """What is decided in six worlds; ``python -m tests.support.simulated`` writes it anew."""
    assert golden_runs() == json.loads(GOLDEN.read_text(encoding="utf-8"))


@pytest.mark.parametrize("first", range(0, len(BYTES_SEEDS), 20))
def test_no_byte_of_a_decision_changes_unnoticed(first: int) -> None:
    """Replay compares bytes, so other words break the replay of older journals as well."""
    seeds = BYTES_SEEDS[first : first + 20]
    known = json.loads(BYTES.read_text(encoding="utf-8"))
    assert golden_bytes(seeds) == {str(seed): known[str(seed)] for seed in seeds}
