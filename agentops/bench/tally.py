"""Many runs in numbers: harm first, with intervals; then what was resolved, and how gently.

Here: counting. Not here: running (``agentops.bench.suite``) or printing (``agentops.cli``).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from math import sqrt
from statistics import mean, median

from agentops.bench.judging import Run
from journal.events import JsonObject

# Two-sided 95 % of the normal distribution.
_Z = 1.959964


@dataclass(frozen=True, slots=True)
class Rate:
    """A share with its Wilson 95 % interval; bounds lie in [0, 1]."""

    hits: int
    of: int

    @property
    def interval(self) -> tuple[float, float]:
        """Lower and upper bound; (0, 1) where nothing was counted.

        >>> Rate(0, 150).interval[1] < 0.0251
        True

        Source: E. B. Wilson, J. Am. Stat. Assoc. 22 (1927) 209-212.
        """
        if self.of == 0:
            return (0.0, 1.0)
        share = self.hits / self.of
        spread = _Z * sqrt(share * (1 - share) / self.of + _Z**2 / (4 * self.of**2))
        middle = share + _Z**2 / (2 * self.of)
        scale = 1 + _Z**2 / self.of
        low = 0.0 if self.hits == 0 else (middle - spread) / scale
        high = 1.0 if self.hits == self.of else (middle + spread) / scale
        return (low, high)

    @property
    def text(self) -> str:
        """For people.

        >>> Rate(0, 140).text
        '0 of 140 (0.0 %, 95 % interval 0.0 to 2.7 %)'
        """
        low, high = self.interval
        share = 100 * self.hits / max(1, self.of)
        shown = f"{share:.1f} %, 95 % interval {100 * low:.1f} to {100 * high:.1f} %"
        return f"{self.hits} of {self.of} ({shown})"

    def json(self) -> JsonObject:
        """For programs; shares as decimal fractions."""
        low, high = self.interval
        return {"hits": self.hits, "of": self.of, "low": round(low, 4), "high": round(high, 4)}


@dataclass(frozen=True, slots=True)
class Row:
    """One scenario over its seeds: counts, and medians of what a run took."""

    scenario: str
    runs: int
    false_kills: int
    false_greens: int
    journal_faults: int
    resolved: int
    resolutions: Mapping[str, int]
    signals: tuple[str, ...]
    gentleness: float | None
    diagnosis: float | None
    times_s: Mapping[str, float]
    probes: float
    torn_checkpoints: int
    wall_s: float
    findings: tuple[str, ...]

    def json(self) -> JsonObject:
        """For programs; the name stands outside."""
        body: JsonObject = asdict(self)
        return {key: value for key, value in body.items() if key != "scenario"}


@dataclass(frozen=True, slots=True)
class Tally:
    """All runs of one call."""

    runs: Sequence[Run]

    @property
    def measured(self) -> tuple[Run, ...]:
        """Runs whose stage could be set."""
        return tuple(run for run in self.runs if not run.failure)

    @property
    def false_kills(self) -> Rate:
        """Runs in which an innocent was signalled or ended."""
        return Rate(sum(bool(run.touched) for run in self.measured), len(self.measured))

    @property
    def false_greens(self) -> Rate:
        """Runs in which a verdict or resolution said more than was true."""
        return Rate(sum(bool(run.false_greens) for run in self.measured), len(self.measured))

    @property
    def journal_faults(self) -> Rate:
        """Runs whose journal is no whole evidence."""
        return Rate(sum(bool(run.journal_faults) for run in self.measured), len(self.measured))

    @property
    def resolved(self) -> Rate:
        """Among the worlds in which more than a handover is accepted."""
        possible = [run for run in self.measured if run.resolvable]
        return Rate(sum(run.resolved for run in possible), len(possible))

    @property
    def gentleness(self) -> float | None:
        """Mean over the runs that were resolved; None where there is none."""
        measured = [
            run.scores.gentleness
            for run in self.measured
            if run.resolved and run.scores.gentleness is not None
        ]
        return round(mean(measured), 3) if measured else None

    @property
    def all_gates_hold(self) -> bool:
        """Whether every run took place and broke no gate."""
        return all(run.gates_hold for run in self.runs)

    @property
    def rows(self) -> tuple[Row, ...]:
        """One row for each scenario, in the order of the runs."""
        names = dict.fromkeys(run.scenario for run in self.runs)
        return tuple(_row(name, [r for r in self.runs if r.scenario == name]) for name in names)

    def json(self) -> JsonObject:
        """The answer of ``bench stop --json``."""
        rows = self.rows
        return {
            "scenarios": len(rows),
            "runs": len(self.runs),
            "false_kills": self.false_kills.hits,
            "false_greens": self.false_greens.hits,
            "journal_faults": self.journal_faults.hits,
            "resolved": sum(run.resolved for run in self.runs),
            "not_staged": sum(bool(run.failure) for run in self.runs),
            "gates_hold": self.all_gates_hold,
            "gentleness": self.gentleness,
            "rates": {
                "false_kills": self.false_kills.json(),
                "false_greens": self.false_greens.json(),
                "resolved_of_resolvable": self.resolved.json(),
            },
            "per_scenario": {row.scenario: row.json() for row in rows},
        }


def _row(name: str, runs: Sequence[Run]) -> Row:
    resolutions: dict[str, int] = {}
    for run in runs:
        ending = run.resolution or ("not staged" if run.failure else "no end")
        resolutions[ending] = resolutions.get(ending, 0) + 1
    gentle = [run.scores.gentleness for run in runs if run.scores.gentleness is not None]
    leads = [run.scores.diagnosis for run in runs if run.scores.diagnosis is not None]
    return Row(
        scenario=name,
        runs=len(runs),
        false_kills=sum(bool(run.touched) for run in runs),
        false_greens=sum(bool(run.false_greens) for run in runs),
        journal_faults=sum(bool(run.journal_faults) for run in runs),
        resolved=sum(run.resolved for run in runs),
        resolutions=resolutions,
        signals=tuple(sorted({" ".join(run.scores.signals) or "none" for run in runs})),
        gentleness=round(mean(gentle), 3) if gentle else None,
        diagnosis=round(mean(leads), 3) if leads else None,
        times_s=_times([run.scores.times_s for run in runs]),
        probes=_median([run.scores.probes for run in runs]),
        torn_checkpoints=sum(run.torn_checkpoint for run in runs),
        wall_s=_median([run.wall_s for run in runs]),
        findings=tuple(findings(runs)),
    )


def findings(runs: Iterable[Run]) -> list[str]:
    """What is to be looked at, each with the seed that shows it again."""
    found = []
    for run in runs:
        about = f"{run.scenario} seed {run.seed}"
        found += [f"{about}: innocent touched: {name}" for name in run.touched]
        found += [f"{about}: false green: {text}" for text in run.false_greens]
        found += [f"{about}: journal: {text}" for text in run.journal_faults]
        if run.failure:
            found.append(f"{about}: not staged: {run.failure}")
        elif not run.accepted:
            found.append(f"{about}: {run.resolution or 'no end'}: {run.reason}")
        found += [f"{about}: {text}" for text in run.unmet]
    return found


def _times(listed: Iterable[Mapping[str, float]]) -> dict[str, float]:
    """Medians by name, over the runs that have one."""
    known: dict[str, list[float]] = {}
    for times in listed:
        for name, value in times.items():
            known.setdefault(name, []).append(value)
    return {name: round(median(values), 2) for name, values in known.items()}


def _median(values: Sequence[float]) -> float:
    return round(median(values), 1) if values else 0
