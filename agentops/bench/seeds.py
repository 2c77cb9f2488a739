"""Many simulated seeds, side by side, and what they add up to.

Here: spreading seeds over processes and counting. Not here: one seed
(``agentops.bench.simulate``), or printing.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from itertools import islice

from agentops.bench.drawing import simulated_config
from agentops.bench.simulate import Simulated, simulate
from agentops.policy import PolicyConfig

CHUNK = 50


@dataclass(slots=True)
class SeedTally:
    """Counts over seeds; red holds those whose gates broke, with what the oracle found."""

    seeds: int = 0
    decisions: int = 0
    resolutions: Counter[str] = field(default_factory=Counter)
    signals: Counter[str] = field(default_factory=Counter)
    red: list[tuple[int, tuple[str, ...]]] = field(default_factory=list)

    def add(self, run: Simulated) -> None:
        """Count one seed."""
        self.seeds += 1
        self.decisions += run.decisions
        self.resolutions[run.resolution or "no end"] += 1
        self.signals.update(run.signals)
        if run.findings:
            self.red.append((run.seed, run.findings))

    def json(self) -> dict[str, object]:
        """The counts as one object."""
        return {
            "seeds": self.seeds,
            "red": [{"seed": seed, "findings": list(found)} for seed, found in self.red],
            "decisions": self.decisions,
            "resolutions": dict(sorted(self.resolutions.items())),
            "signals": dict(sorted(self.signals.items())),
        }


def run_seeds(
    rules: PolicyConfig, seeds: Sequence[int], *, side_by_side: int
) -> Iterator[Simulated]:
    """Each seed's outcome, in order, worked out by *side_by_side* processes."""
    config = simulated_config(rules)
    if side_by_side == 1:
        yield from (simulate(seed, config) for seed in seeds)
        return
    remaining = iter(seeds)
    chunks = iter(lambda: tuple(islice(remaining, CHUNK)), ())
    with ProcessPoolExecutor(side_by_side) as pool:
        for runs in pool.map(_run_chunk, chunks, _forever(config)):
            yield from runs


def _forever(config: PolicyConfig) -> Iterator[PolicyConfig]:
    while True:
        yield config


def _run_chunk(seeds: tuple[int, ...], config: PolicyConfig) -> list[Simulated]:
    return [simulate(seed, config) for seed in seeds]
