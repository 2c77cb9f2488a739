"""Many simulated seeds, side by side, and what they add up to.

Here: spreading seeds over processes, and counting; the counts are the same however many processes
there are. Not here: one seed (``agentops.bench.whole``,
or ``agentops.bench.simulate`` for the engine alone), or printing.
"""

import gc
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
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
    """Counts over seeds; red holds those whose gates broke, with what the oracle found.

    acts counts the commands that hosts carried out, struck the faults by what they were and the
    step that they struck: the event or file being written, or the command on its way.
    """

    seeds: int = 0
    decisions: int = 0
    deaths: int = 0
    full_disks: int = 0
    resolutions: Counter[str] = field(default_factory=Counter)
    signals: Counter[str] = field(default_factory=Counter)
    acts: Counter[str] = field(default_factory=Counter)
    struck: Counter[tuple[str, str]] = field(default_factory=Counter)
    red: list[tuple[int, tuple[str, ...]]] = field(default_factory=list)

    def add(self, run: Simulated) -> None:
        """Count one seed."""
        self.seeds += 1
        self.decisions += run.decisions
        self.deaths += run.deaths
        self.full_disks += run.full_disks
        self.resolutions[run.resolution or "no end"] += 1
        self.signals.update(run.signals)
        self.acts.update(dict(run.acts))
        self.struck.update(dict(run.struck))
        if run.findings:
            self.red.append((run.seed, run.findings))

    def json(self) -> dict[str, object]:
        """The counts as one object."""
        findings = [text for _, found in self.red for text in found]
        return {
            "seeds": self.seeds,
            "red": [{"seed": seed, "findings": list(found)} for seed, found in self.red],
            "false_kills": sum(text.startswith("innocent") for text in findings),
            "false_greens": sum(
                text.startswith("false green") or " confirmed, and " in text for text in findings
            ),
            "decisions": self.decisions,
            "controller_deaths": self.deaths,
            "full_disks": self.full_disks,
            "resolutions": dict(sorted(self.resolutions.items())),
            "signals": dict(sorted(self.signals.items())),
            "acts": dict(sorted(self.acts.items())),
            "faults": self.faults(),
            "faults_by_step": self.faults_by_step(),
        }

    def faults(self) -> dict[str, int]:
        """How often each fault struck."""
        whole: Counter[str] = Counter()
        for (fault, _), count in self.struck.items():
            whole[fault] += count
        return dict(sorted(whole.items()))

    def faults_by_step(self) -> dict[str, dict[str, int]]:
        """For each step, how often each fault struck there."""
        steps: dict[str, dict[str, int]] = {}
        for (fault, step), count in sorted(self.struck.items()):
            steps.setdefault(step, {})[fault] = count
        return dict(sorted(steps.items()))


def run_seeds(
    rules: PolicyConfig,
    seeds: Sequence[int],
    *,
    side_by_side: int,
    alone: bool = False,
    dies_at: int | None = None,
) -> Iterator[Simulated]:
    """Each seed's outcome, in order, worked out by *side_by_side* processes.

    alone: the engine without executor and journal, which is many times faster. dies_at: the step at
    which the controller dies, in the place of deaths by chance.
    """
    remaining = iter(seeds)
    chunks = iter(lambda: tuple(islice(remaining, CHUNK)), ())
    one = simulate if alone else partial(simulate_whole, dies_at=dies_at)
    work = partial(_run_chunk, config=simulated_config(rules), one=one)
    if side_by_side == 1:
        for chunk in chunks:
            yield from work(chunk)
        return
    with ProcessPoolExecutor(side_by_side) as pool:
        for runs in pool.map(work, chunks):
            yield from runs


def _run_chunk(
    seeds: tuple[int, ...],
    *,
    config: PolicyConfig,
    one: Callable[[int, PolicyConfig], Simulated],
) -> list[Simulated]:
    with _collected_once():
        return [one(seed, config) for seed in seeds]


@contextmanager
def _collected_once() -> Iterator[None]:
    """Seeds leave few cycles, and looking for them at every turn takes a tenth of the time."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        gc.collect()
