"""Many simulated seeds, side by side, and what they add up to.

Here: spreading seeds over processes and counting. Not here: one seed (``agentops.bench.whole``,
or ``agentops.bench.simulate`` for the engine alone), or printing.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from itertools import islice

from agentops.bench.drawing import simulated_config
from agentops.bench.simulate import Simulated, simulate
from agentops.bench.whole import simulate_whole
from agentops.policy import PolicyConfig

CHUNK = 50


@dataclass(slots=True)
class SeedTally:
    """Counts over seeds; red holds those whose gates broke, with what the oracle found."""

    seeds: int = 0
    decisions: int = 0
    deaths: int = 0
    full_disks: int = 0
    resolutions: Counter[str] = field(default_factory=Counter)
    signals: Counter[str] = field(default_factory=Counter)
    red: list[tuple[int, tuple[str, ...]]] = field(default_factory=list)

    def add(self, run: Simulated) -> None:
        """Count one seed."""
        self.seeds += 1
        self.decisions += run.decisions
        self.deaths += run.deaths
        self.full_disks += run.full_disks
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
            "controller_deaths": self.deaths,
            "full_disks": self.full_disks,
            "resolutions": dict(sorted(self.resolutions.items())),
            "signals": dict(sorted(self.signals.items())),
        }


def run_seeds(
    rules: PolicyConfig, seeds: Sequence[int], *, side_by_side: int, alone: bool = False
) -> Iterator[Simulated]:
    """Each seed's outcome, in order, worked out by *side_by_side* processes.

    alone: the engine without executor and journal, which is many times faster.
    """
    config = simulated_config(rules)
    one = simulate if alone else simulate_whole
    if side_by_side == 1:
        yield from (one(seed, config) for seed in seeds)
        return
    remaining = iter(seeds)
    chunks = iter(lambda: tuple(islice(remaining, CHUNK)), ())
    with ProcessPoolExecutor(side_by_side) as pool:
        for runs in pool.map(partial(_run_chunk, config=config, one=one), chunks):
            yield from runs


def _run_chunk(
    seeds: tuple[int, ...],
    *,
    config: PolicyConfig,
    one: Callable[[int, PolicyConfig], Simulated],
) -> list[Simulated]:
    return [one(seed, config) for seed in seeds]
