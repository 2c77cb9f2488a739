"""``agentops watch JOB --host H``: the loop unattended, with budgets and somebody to tell."""

import argparse
import asyncio
import json
import shlex
import shutil
import subprocess

from agentops.cli.account import Account
from agentops.cli.context import add_journal_option, add_json_option, keep_journal, settings_for
from agentops.cli.doors import Meant, job_meant, open_door
from agentops.cli.printing import console, emit, say
from agentops.cli.status import Status
from agentops.cli.values import positive
from agentops.errors import UsageError
from agentops.executor import Executor
from agentops.recover import Recovery, Terms, engine_for, recover
from agentops.recover.loop import rest
from agentops.recover.watching import Notice, Rounds, Watched, looks, watch
from journal import Journal, SystemClock

_NOTIFY_TIMEOUT_S = 30


def register(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command."""
    parser = commands.add_parser("watch", help="look at a job again and again; mend it, tell you")
    parser.add_argument("job", metavar="JOB", help="a [job.NAME] of policy.toml")
    parser.add_argument("--host", required=True, metavar="NAME")
    parser.add_argument("--every", type=positive, default=300, metavar="S", help="seconds (300)")
    parser.add_argument("--rounds", type=positive, metavar="N", help="end after N looks")
    parser.add_argument(
        "--mends", type=positive, default=3, metavar="N", help="per hour at most (3)"
    )
    parser.add_argument(
        "--notify", metavar="COMMAND", help="gets one JSON object on stdin for each notice"
    )
    parser.add_argument("--shadow", action="store_true", help="change nothing on the host")
    add_json_option(parser)
    add_journal_option(parser)
    parser.set_defaults(run=_watch)


def _watch(arguments: argparse.Namespace) -> Status:
    bounds = Rounds(arguments.every, arguments.mends, arguments.rounds, arguments.shadow)
    settings = settings_for(arguments)
    meant = job_meant(settings, arguments.job, arguments.host)
    _require_program(arguments.notify)
    with keep_journal(settings) as journal:
        executor = open_door(settings, journal, meant.config, actor=engine_for(journal.actor))
        seen = asyncio.run(_rounds(arguments, bounds, meant, executor, journal))
    if arguments.json:
        emit(
            {
                "reason": seen.reason,
                "rounds": seen.rounds,
                "resolutions": dict(sorted(seen.resolutions.items())),
            }
        )
    else:
        say(f"watch ended after {looks(seen.rounds)}: {seen.reason}")
    if seen.resolutions["WAITS"]:
        return Status.WAITS
    handed_over = seen.resolutions["HANDED_OVER"] and not arguments.shadow
    return Status.DENIED if handed_over else Status.YES


def _require_program(command: str | None) -> None:
    """Whoever is to be told must be tellable: found out now, not in the night.

    Raises:
        UsageError: the command cannot be split into words, or its program is not there.
    """
    if command is None:
        return
    try:
        program = next(iter(shlex.split(command)), "")
    except ValueError as error:
        raise UsageError(f"--notify {command!r}: {error}") from None
    if shutil.which(program) is None:
        raise UsageError(f"--notify {command!r}: {program!r} is no program that can be run")


async def _rounds(
    arguments: argparse.Namespace,
    bounds: Rounds,
    meant: Meant,
    executor: Executor,
    journal: Journal,
) -> Watched:
    account = Account(console(to_stderr=True))

    async def once() -> Recovery:
        return await recover(
            meant.job,
            meant.host,
            executor=executor,
            journal=journal,
            clock=SystemClock(),
            config=meant.config,
            sources=meant.sources,
            terms=Terms(shadow=arguments.shadow, unattended=True),
            source=meant.source,
            on_event=account.tell,
        )

    try:
        return await watch(
            once,
            bounds,
            clock=SystemClock(),
            pause=rest,
            tell=lambda notice: _tell(arguments.notify, meant.job, meant.host.name, notice),
        )
    finally:
        await executor.close()


def _tell(command: str | None, job: str, host: str, notice: Notice) -> None:
    """Say it here, and hand it to the operator's command; one that fails stops nothing."""
    say(f"{notice.kind}: {notice.text}")
    if command is None:
        return
    body = json.dumps(
        {
            "kind": notice.kind,
            "job": job,
            "host": host,
            "text": notice.text,
            "incident": notice.incident,
        }
    )
    try:
        ended = subprocess.run(
            shlex.split(command),
            input=body.encode(),
            check=False,
            timeout=_NOTIFY_TIMEOUT_S,
            capture_output=True,
        )
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        say(f"--notify {command!r}: {error}")
        return
    if ended.returncode != 0:
        say(f"--notify {command!r}: exit status {ended.returncode}")
