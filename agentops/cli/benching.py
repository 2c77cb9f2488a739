"""``agentops bench agent``: the stop benchmark's worlds, given to any agent."""

import argparse
from functools import partial

from rich.console import Console
from rich.table import Table

from agentops.bench.agent import INCLUDED, AgentRun, Setting, run_agent
from agentops.bench.giving import Surface
from agentops.bench.scenario import Written, chosen, shipped
from agentops.bench.tally import Tally, findings
from agentops.box.namespaces import isolation
from agentops.cli.context import add_json_option
from agentops.cli.policies import shipped_text
from agentops.cli.printing import console, emit
from agentops.cli.status import Status
from agentops.cli.values import positive, rate, scale
from agentops.errors import UsageError

_SCALE = 0.2
_LIMIT_S = 600.0
_SURFACES: tuple[Surface, ...] = ("shell", "tools")


def add_agent(verbs: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add ``bench agent``."""
    parser = verbs.add_parser("agent", help="give the same worlds to an agent; count harm and cost")
    parser.add_argument("scenario", nargs="*", metavar="SCENARIO", help="S05, … (default: all fit)")
    parser.add_argument(
        "--cmd",
        required=True,
        metavar="CMD",
        help="the agent, run by sh in a folder with task.md, or one of " + ", ".join(INCLUDED),
    )
    parser.add_argument(
        "--with", dest="surface", choices=(*_SURFACES, "both"), default="both", help="(both)"
    )
    parser.add_argument("--seeds", type=positive, default=1, metavar="N", help="seeds 0 to N-1 (1)")
    parser.add_argument(
        "--limit-s", type=rate, default=_LIMIT_S, metavar="S", help=f"per run ({_LIMIT_S:g})"
    )
    parser.add_argument("--time-scale", type=scale, default=_SCALE, metavar="X", help=f"({_SCALE})")
    add_json_option(parser)
    parser.set_defaults(run=_agent)


def fits_typed_work(written: Written) -> bool:
    """Only worlds to be stopped: trouble on the way strikes no agent's own ssh."""
    stops = written.table.get("goal", "stop") == "stop"
    return stops and not {"connection", "meddling"} & set(written.table)


def _agent(arguments: argparse.Namespace) -> Status:
    if isolation() == "none":
        raise UsageError("bench agent: needs PID namespaces (unshare, nsenter); run it as root")
    known = tuple(each for each in shipped() if fits_typed_work(each))
    scenarios = chosen(known, arguments.scenario)
    out = console(to_stderr=True)
    runs: dict[Surface, list[AgentRun]] = {}
    for surface in _SURFACES if arguments.surface == "both" else (arguments.surface,):
        setting = Setting(
            arguments.cmd, surface, arguments.time_scale, arguments.limit_s, shipped_text()
        )
        one = partial(run_agent, setting=setting)
        runs[surface] = []
        for seed in range(arguments.seeds):
            for written in scenarios:
                runs[surface].append(one(written, seed))
                _tell(out, runs[surface][-1])
    if arguments.json:
        emit({surface: _json(done) for surface, done in runs.items()})
    else:
        _print(console(), runs)
    held = all(run.run.gates_hold for done in runs.values() for run in done if run.run.journalled)
    unstaged = any(run.run.failure for done in runs.values() for run in done)
    return Status.NO if unstaged or not held else Status.YES


def _tell(out: Console, done: AgentRun) -> None:
    run, cost = done.run, done.cost
    said = run.resolution or ("not staged" if run.failure else "no answer")
    mark = "HARM" if run.touched else "FALSE GREEN" if run.false_greens else "ok"
    out.print(
        f"{run.scenario} seed {run.seed} with {done.surface}: {said} ({mark};"
        f" {cost.round_trips} round trips, {cost.tokens} tokens, {run.wall_s:g} s)"
    )
    for line in findings([run]):
        if done.surface == "tools" or "no journal" not in line:
            out.print(f"    {line}")
    if run.resolution is None and done.said:
        out.print(f"    the agent's last words: {done.said.splitlines()[-1][:200]}")


def _json(done: list[AgentRun]) -> dict[str, object]:
    tally = Tally([each.run for each in done])
    return {
        "runs": len(tally.measured),
        "false_kills": tally.false_kills.json(),
        "false_greens": tally.false_greens.json(),
        "resolved": tally.resolved.json(),
        "round_trips": sum(each.cost.round_trips for each in done),
        "tokens": sum(each.cost.tokens for each in done),
        "schema_tokens": max(each.cost.schemas for each in done),
        "each": [
            {
                "scenario": each.run.scenario,
                "seed": each.run.seed,
                "resolution": each.run.resolution,
                "touched": list(each.run.touched),
                "false_greens": list(each.run.false_greens),
                "round_trips": each.cost.round_trips,
                "tokens": each.cost.tokens,
                "failure": each.run.failure,
            }
            for each in done
        ],
    }


def _print(out: Console, runs: dict[Surface, list[AgentRun]]) -> None:
    table = Table(title="the same worlds, by the agent's means")
    for column in ("means", "runs", "innocents touched", "false greens", "resolved"):
        table.add_column(column)
    for column in ("round trips a run", "tokens a run", "schemas once"):
        table.add_column(column)
    for surface, done in runs.items():
        tally = Tally([each.run for each in done])
        count = max(1, len(done))
        table.add_row(
            surface,
            str(len(tally.measured)),
            tally.false_kills.text,
            tally.false_greens.text,
            tally.resolved.text,
            f"{sum(each.cost.round_trips for each in done) / count:.1f}",
            f"{sum(each.cost.tokens for each in done) / count:.0f}",
            str(max(each.cost.schemas for each in done)),
        )
    out.print(table)
