"""``agentops bench``: how well the engine stops jobs, on real processes in private namespaces."""

import argparse
import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from rich.console import Console
from rich.table import Table

from agentops.bench.baselines import BASELINES, run_baseline
from agentops.bench.judging import Run
from agentops.bench.running import run_once
from agentops.bench.scenario import Written, chosen, pairs, read_folder, shipped
from agentops.bench.suite import Runner, run_all
from agentops.bench.tally import Tally, findings
from agentops.box.namespaces import isolation
from agentops.cli.benching import add_agent, fits_typed_work
from agentops.cli.context import add_json_option
from agentops.cli.policies import shipped_text
from agentops.cli.printing import console, emit
from agentops.cli.simulating import add_simulate
from agentops.cli.status import Status
from agentops.cli.values import natural, positive, scale
from agentops.errors import UsageError

# Durations of the scenario files count as seconds at scale 1; a fifth keeps one seed short.
SCALE = 0.2
_SIDE_BY_SIDE_MAX = 4


def register(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command."""
    bench = commands.add_parser("bench", help="measure the engine, with faults and innocents")
    verbs = bench.add_subparsers(metavar="WHAT", required=True)
    stop = verbs.add_parser("stop", help="stop real jobs in real trouble; count harm first")
    stop.add_argument("scenario", nargs="*", metavar="SCENARIO", help="S05, … (default: all)")
    stop.add_argument("--seeds", type=positive, default=1, metavar="N", help="seeds 0 to N-1 (1)")
    stop.add_argument("--seed", type=natural, metavar="K", help="this one seed, to see it again")
    stop.add_argument("--pairs", action="store_true", help="two scenarios at once, all that fit")
    stop.add_argument("--scenarios", type=Path, metavar="DIR", help="a folder of TOML files")
    stop.add_argument(
        "--baseline", choices=sorted(BASELINES), metavar="B", help=f"{', '.join(BASELINES)}"
    )
    stop.add_argument("--time-scale", type=scale, default=SCALE, metavar="X", help=f"({SCALE})")
    stop.add_argument("--side-by-side", type=positive, metavar="N", help="runs at a time")
    add_json_option(stop)
    stop.set_defaults(run=_stop)
    add_agent(verbs)
    add_simulate(verbs)


def _stop(arguments: argparse.Namespace) -> Status:
    if isolation() == "none":
        raise UsageError("bench stop: needs PID namespaces (unshare, nsenter); run it as root")
    scenarios = _scenarios(arguments)
    seeds = range(arguments.seeds) if arguments.seed is None else (arguments.seed,)
    out = console(to_stderr=True)
    runs = run_all(
        scenarios,
        seeds,
        runner=_runner(arguments),
        side_by_side=arguments.side_by_side or min(_SIDE_BY_SIDE_MAX, os.cpu_count() or 1),
        on_run=partial(_tell, out),
    )
    tally = Tally(runs)
    if arguments.json:
        emit(tally.json())
    else:
        _print(console(), tally, engine=arguments.baseline or "agentops")
    return Status.YES if tally.all_gates_hold else Status.NO


def _scenarios(arguments: argparse.Namespace) -> Sequence[Written]:
    known = shipped() if arguments.scenarios is None else read_folder(arguments.scenarios)
    if arguments.baseline is not None:
        known = tuple(each for each in known if fits_typed_work(each))
    if not arguments.pairs:
        return chosen(known, arguments.scenario)
    return _pairs(known, arguments.scenario)


def _pairs(known: Sequence[Written], names: Sequence[str]) -> Sequence[Written]:
    """All pairs, those that a named scenario is part of, or those named as ``S05+S06``."""
    made = pairs(known)
    if not names:
        return made
    found = [each for each in made if set(names) & {each.name, *each.name.split("+")}]
    if not found:
        raise UsageError(f"no two scenarios fit together for {', '.join(names)}")
    return found


def _runner(arguments: argparse.Namespace) -> Runner:
    if arguments.baseline is not None:
        return partial(run_baseline, name=arguments.baseline, scale=arguments.time_scale)
    return partial(run_once, scale=arguments.time_scale, shipped=shipped_text())


def _tell(out: Console, run: Run) -> None:
    """One line as a run ends."""
    said = run.resolution or ("not staged" if run.failure else "no end")
    mark = "ok" if run.resolved else "gates hold" if run.gates_hold else "GATE BROKEN"
    signals = " ".join(run.scores.signals) or "no signal"
    out.print(f"{run.scenario} seed {run.seed}: {said} ({mark}; {signals}; {run.wall_s:g} s)")
    for line in findings([run]):
        out.print(f"    {line}")


def _print(out: Console, tally: Tally, *, engine: str) -> None:
    out.print(f"innocents touched:    {tally.false_kills.text}")
    out.print(f"false greens:         {tally.false_greens.text}")
    out.print(f"journal not whole:    {tally.journal_faults.text}")
    out.print(f"resolved (of resolvable): {tally.resolved.text}")
    out.print(f"gentleness of resolved runs: {tally.gentleness}")
    table = Table(title=f"stop benchmark: {engine}, {len(tally.runs)} runs")
    columns = ("scenario", "runs", "harm", "false green", "resolved", "resolutions", "signals")
    for column in (*columns, "gentle", "s"):
        table.add_column(column)
    for row in tally.rows:
        table.add_row(
            row.scenario,
            str(row.runs),
            str(row.false_kills),
            str(row.false_greens),
            str(row.resolved),
            ", ".join(f"{key} {count}" for key, count in row.resolutions.items()),
            "; ".join(row.signals),
            str(row.gentleness),
            str(row.wall_s),
        )
    out.print(table)
