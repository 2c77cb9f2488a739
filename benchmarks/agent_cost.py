"""Round trips and tokens for "is the trainer stuck, and is it gone now?": raw ssh against tools.

A real box: sshd, a container behind ``pct``, eight cards behind an nvidia-smi, a trainer with four
workers that hangs, three innocents. Two scripts do the same errand: a careful person's typed
commands (list, cards, log, wait, interrupt, look, climb, look twice more), and three tool calls.
A token is taken to be four characters of what was asked and what was answered; the tools' schemas,
which a client reads once a session, stand in a column of their own.

    python -P benchmarks/agent_cost.py [--seeds N] [--json]

Limits: 0.4 of the round trips, 0.5 of the tokens; exit status 1 where one is not kept.
"""

import argparse
import json
import sys
from dataclasses import dataclass
from statistics import mean

from agentops.bench.agent import AgentRun, Setting, run_agent
from agentops.bench.giving import Surface
from agentops.bench.scenario import Written
from agentops.cli.policies import shipped_text

ROUND_TRIPS_MAX = 0.4
TOKENS_MAX = 0.5
_INNOCENTS = ["download", "daemon", "viewer"]
_STUCK = {"hangs_at_step": 12, "workers": 4}
_GPU = {"devices": 8}
# How the trainer takes an interrupt decides how often a person has to look again.
SITUATIONS = {
    "the first interrupt ends it": {**_STUCK, "interrupt": "stops"},
    "threads survive the first interrupt": {**_STUCK, "interrupt": "threads"},
    "interrupts are ignored": {**_STUCK, "interrupt": "ignored"},
}


@dataclass(frozen=True, slots=True)
class Row:
    """One situation: means over the seeds, by surface."""

    situation: str
    shell: tuple[float, float]
    tools: tuple[float, float]
    schemas: int

    @property
    def ratios(self) -> tuple[float, float]:
        """Tools by shell: round trips, tokens."""
        return (self.tools[0] / self.shell[0], self.tools[1] / self.shell[1])


def measured(name: str, seeds: int) -> Row:
    """Let both scripts do the errand in every seed's world."""
    table = {
        "title": name,
        "accepted": ["STOPPED"],
        "trainer": SITUATIONS[name],
        "gpu": _GPU,
        "innocents": _INNOCENTS,
    }
    written = Written("stuck", table)
    by: dict[Surface, list[AgentRun]] = {}
    surfaces: tuple[Surface, ...] = ("shell", "tools")
    for surface in surfaces:
        setting = Setting("scripted", surface, 0.2, 600, shipped_text())
        by[surface] = [run_agent(written, seed, setting) for seed in range(seeds)]
        for one in by[surface]:
            assert not one.run.failure, one.run.failure
            assert one.run.resolution == "STOPPED", (one.run.reason, one.said)
            assert not one.run.touched, one.run.touched
    shell, tools = (_means(by[surface]) for surface in surfaces)
    return Row(name, shell, tools, max(one.cost.schemas for one in by["tools"]))


def _means(runs: list[AgentRun]) -> tuple[float, float]:
    return (mean(one.cost.round_trips for one in runs), mean(one.cost.tokens for one in runs))


def main() -> int:
    """Measure, print, compare with the limits."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    rows = [measured(name, given.seeds) for name in SITUATIONS]
    if given.json:
        print(json.dumps([{**_plain(row)} for row in rows], indent=2))
    else:
        print("| the trainer hangs, and | ssh: trips, tokens | tools: trips, tokens | ratio |"
              " schemas once |")  # fmt: skip
        print("| --- | --- | --- | --- | --- |")
        for row in rows:
            (trips, tokens) = row.ratios
            print(
                f"| {row.situation} | {row.shell[0]:.0f}, {row.shell[1]:.0f} |"
                f" {row.tools[0]:.0f}, {row.tools[1]:.0f} | {trips:.2f}, {tokens:.2f} |"
                f" {row.schemas} |",
                flush=True,
            )
    kept = all(r.ratios[0] <= ROUND_TRIPS_MAX and r.ratios[1] <= TOKENS_MAX for r in rows)
    return 0 if kept else 1


def _plain(row: Row) -> dict[str, object]:
    return {
        "situation": row.situation,
        "shell": row.shell,
        "tools": row.tools,
        "ratios": row.ratios,
        "schema_tokens": row.schemas,
    }


if __name__ == "__main__":
    sys.exit(main())
