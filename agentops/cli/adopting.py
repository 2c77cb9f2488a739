"""``agentops adopt``: a job entry for policy.toml, from a process that already runs."""

import argparse
import asyncio
import tomllib
from pathlib import Path

from agentops.cli.context import add_journal_option, add_json_option, open_journal, settings_for
from agentops.cli.doors import open_door
from agentops.cli.policies import policy_for
from agentops.cli.printing import emit, say
from agentops.cli.status import Status
from agentops.cli.values import job, pid
from agentops.commands.adopting import job_entry, job_name
from agentops.commands.base import Observation
from agentops.commands.inspecting import InspectProcess, ProcessInspected
from agentops.errors import UsageError
from agentops.executor import Executor
from agentops.hosts import Host
from agentops.policy import PolicyState, parse_policy
from agentops.policy.config import Job
from agentops.policy.ledger import Terms


def register(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command."""
    adopt = commands.add_parser("adopt", help="a job entry from a process that already runs")
    adopt.add_argument("--host", required=True, metavar="NAME")
    adopt.add_argument("--pid", required=True, type=pid)
    adopt.add_argument(
        "--name", metavar="JOB", type=job, help="the job's name (default: its script's)"
    )
    adopt.add_argument("--write", action="store_true", help="append it to the policy file")
    add_json_option(adopt)
    add_journal_option(adopt)
    adopt.set_defaults(run=_adopt)


def _adopt(arguments: argparse.Namespace) -> Status:
    settings = settings_for(arguments)
    host = settings.inventory.get(arguments.host)
    config, _ = policy_for(settings)
    with open_journal(settings) as journal:
        seen = asyncio.run(_inspect(open_door(settings, journal, config), host, arguments.pid))
    if not isinstance(seen, ProcessInspected):
        say("agentops: the process could not be inspected; see agentops log")
        return Status.CANNOT_SAY
    if seen.process is None:
        say(f"agentops: there is no process {arguments.pid} on {host.name}")
        return Status.NO
    name = arguments.name or job_name(seen.process)
    entry = job_entry(name, seen)
    Job.model_validate(tomllib.loads(entry)["job"][name])
    if arguments.write and name in config.job:
        raise UsageError(f"job {name!r} is in the policy already; choose another with --name")
    written = _append(settings.policy, entry) if arguments.write else None
    if arguments.json:
        emit({"job": name, "entry": entry, "written": written})
    else:
        print(entry, end="")  # noqa: T201
    return Status.YES


def _append(path: Path | None, entry: str) -> str:
    """Add the entry to the policy file, if the whole still is a policy."""
    if path is None:
        raise UsageError("there is no policy file to write to; agentops init makes one")
    whole = path.read_text(encoding="utf-8").rstrip("\n") + "\n\n" + entry
    parse_policy(whole, str(path))
    path.write_text(whole, encoding="utf-8")
    return str(path)


async def _inspect(executor: Executor, host: Host, pid: int) -> Observation | None:
    state = PolicyState(terms=Terms(tier=host.tier))
    try:
        executed = await executor.execute(
            InspectProcess(pid=pid), host, state=state, reason="a job entry is wanted for it"
        )
    finally:
        await executor.close()
    return executed.observation
