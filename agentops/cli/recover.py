"""``agentops recover JOB --host H``: the loop on a real host. This is the product."""

import argparse
import asyncio
from collections.abc import Awaitable

from agentops.cli.account import Account
from agentops.cli.context import (
    add_journal_option,
    add_json_option,
    keep_journal,
    resolve_incident,
    settings_for,
)
from agentops.cli.doors import job_meant, open_door
from agentops.cli.printing import console, emit, say
from agentops.cli.status import Status, of_resolution
from agentops.executor import Executor
from agentops.recover import Recovery, Terms, engine_for, recover
from journal import SystemClock


def register(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command."""
    parser = commands.add_parser(
        "recover", help="observe a job, find out what is wrong, mend it, prove that it runs"
    )
    parser.add_argument("job", metavar="JOB", help="a [job.NAME] of policy.toml")
    parser.add_argument("--host", required=True, metavar="NAME", help="where it runs")
    parser.add_argument("--incident", metavar="ID", help="go on with this open incident")
    parser.add_argument("--stop", action="store_true", help="stop the job and leave it stopped")
    parser.add_argument(
        "--shadow", action="store_true", help="observe and decide, change nothing on the host"
    )
    add_json_option(parser)
    add_journal_option(parser)
    parser.set_defaults(run=_recover)


def _recover(arguments: argparse.Namespace) -> Status:
    settings = settings_for(arguments)
    meant = job_meant(settings, arguments.job, arguments.host)
    account = Account(console(to_stderr=arguments.json))
    terms = Terms(goal="stop" if arguments.stop else "recover", shadow=arguments.shadow)
    with keep_journal(settings) as journal:
        incident = None
        if arguments.incident is not None:
            incident = resolve_incident(journal.reader(), arguments.incident)
        executor = open_door(settings, journal, meant.config, actor=engine_for(journal.actor))
        recovery = asyncio.run(
            _run(
                executor,
                recover(
                    meant.job,
                    meant.host,
                    executor=executor,
                    journal=journal,
                    clock=SystemClock(),
                    config=meant.config,
                    sources=meant.sources,
                    terms=terms,
                    incident=incident,
                    source=meant.source,
                    on_event=account.tell,
                ),
            )
        )
    if arguments.json:
        emit(
            {
                "resolution": recovery.resolution,
                "incident": recovery.incident,
                "reason": recovery.reason,
                "decisions": recovery.decisions,
                "waits_for": list(recovery.waits_for),
                "journal": str(settings.journal),
            }
        )
    elif recovery.resolution is None:
        say(f"waits for approval: {', '.join(recovery.waits_for)}")
    if recovery.resolution is None:
        return Status.WAITS
    return of_resolution(recovery.resolution)


async def _run(executor: Executor, recovery: Awaitable[Recovery]) -> Recovery:
    try:
        return await recovery
    finally:
        await executor.close()
