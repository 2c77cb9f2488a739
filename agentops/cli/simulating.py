"""``bench simulate`` and ``policy simulate``: the product in simulated worlds, with an oracle."""

import argparse
import os
from pathlib import Path

from agentops.bench.seeds import SeedTally, run_seeds
from agentops.cli.context import add_json_option
from agentops.cli.policies import read_policy_file, shipped_text
from agentops.cli.printing import console, emit
from agentops.cli.status import Status
from agentops.cli.values import natural, positive
from agentops.errors import UsageError
from agentops.policy import parse_policy

_TELL_EVERY = 1_000


def add_simulate(verbs: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the verb."""
    parser = verbs.add_parser(
        "simulate", help="run loop, executor and journal in simulated worlds; no host needed"
    )
    parser.add_argument(
        "--seeds", type=positive, default=1_000, metavar="N", help="how many (1000)"
    )
    parser.add_argument("--first", type=natural, default=0, metavar="K", help="the first seed (0)")
    parser.add_argument("--seed", type=natural, metavar="K", help="this one seed, told in full")
    parser.add_argument(
        "--alone", action="store_true", help="the engine without executor and journal; faster"
    )
    parser.add_argument(
        "--dies-at",
        type=natural,
        metavar="N",
        help="with --seed: the controller dies at its Nth step, and nowhere by chance; 0 is never",
    )
    parser.add_argument("--policy", type=Path, metavar="FILE", help="rules to run under (shipped)")
    parser.add_argument("--side-by-side", type=positive, metavar="N", help="processes (all cores)")
    add_json_option(parser)
    parser.set_defaults(run=_simulate)


def _simulate(arguments: argparse.Namespace) -> Status:
    if arguments.policy is None:
        rules = parse_policy(shipped_text(), "dev.toml")
    else:
        rules = read_policy_file(arguments.policy)
    seeds = range(arguments.first, arguments.first + arguments.seeds)
    if arguments.seed is not None:
        seeds = range(arguments.seed, arguments.seed + 1)
    if arguments.dies_at is not None and (arguments.seed is None or arguments.alone):
        raise UsageError("bench simulate: --dies-at goes with --seed, and not with --alone")
    side_by_side = arguments.side_by_side or os.cpu_count() or 1
    if len(seeds) == 1:
        side_by_side = 1
    tally = SeedTally()
    progress = console(to_stderr=True)
    alone = " --alone" if arguments.alone else ""
    for run in run_seeds(
        rules,
        seeds,
        side_by_side=side_by_side,
        alone=arguments.alone,
        dies_at=arguments.dies_at,
    ):
        tally.add(run)
        if len(seeds) == 1:
            progress.print(f"{run.drawn}", soft_wrap=True)
            progress.print(f"{run.resolution}: {run.reason}; {' '.join(run.signals)}")
            progress.print(f"{run.steps} steps, {run.deaths} deaths")
        if run.findings:
            progress.print(f"RED seed {run.seed}: {'; '.join(run.findings)}", soft_wrap=True)
            progress.print(f"  again: agentops bench simulate --seed {run.seed}{alone}")
        elif tally.seeds % _TELL_EVERY == 0:
            progress.print(f"{tally.seeds} seeds, {len(tally.red)} red")
    if arguments.json:
        emit(tally.json())
    else:
        console().print(
            f"{tally.seeds} seeds, {tally.decisions} decisions, {tally.deaths} controllers died, "
            f"{tally.full_disks} times the disk was full, {sum(tally.struck.values())} faults, "
            f"{len(tally.red)} red; "
            + ", ".join(f"{name} {count}" for name, count in sorted(tally.resolutions.items())),
            soft_wrap=True,
        )
    return Status.NO if tally.red else Status.YES
