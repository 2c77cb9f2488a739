"""``agentops mcp`` and ``agentops tools``: the tools that coding agents call."""

import argparse
import asyncio
import getpass
import json
import os
import sys
from pathlib import Path
from typing import get_args

from agentops.cli.context import add_journal_option, add_json_option, keep_journal, settings_for
from agentops.cli.policies import policy_for
from agentops.cli.printing import emit, say
from agentops.cli.reporting import overrides, rendered
from agentops.cli.status import Status
from agentops.cli.summaries import summary
from agentops.cli.trusting import standing
from agentops.cli.values import port
from agentops.config import Settings
from agentops.errors import UsageError
from agentops.recover import read_sources
from agentops.server.desk import Ground
from agentops.server.formats import Format, listed
from agentops.server.serving import serve_http, serve_streams, token_in
from journal import Journal, SystemClock

_PORT = 8775


def register(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the commands."""
    serving = commands.add_parser("mcp", help="serve the tools to coding agents (docs/agents.md)")
    serving.add_argument(
        "--http", action="store_true", help="over HTTP on 127.0.0.1, not standard streams"
    )
    serving.add_argument("--port", type=port, metavar="N", help=f"({_PORT}; 0: a free one)")
    serving.add_argument(
        "--token-file", type=Path, metavar="FILE", help="bearer token (default: made, state folder)"
    )
    serving.add_argument(
        "--ask-through-client",
        action="store_true",
        help="put approvals to the person at the client; for clients that show them to one",
    )
    add_journal_option(serving)
    serving.set_defaults(run=_mcp)
    listing = commands.add_parser("tools", help="the tools' names, words and schemas")
    listing.add_argument(
        "--format", choices=get_args(Format), default="mcp", help="for which kind of client"
    )
    add_json_option(listing)
    listing.set_defaults(run=_tools)


def _mcp(arguments: argparse.Namespace) -> Status:
    if not arguments.http and (arguments.port, arguments.token_file) != (None, None):
        raise UsageError("--port and --token-file are for --http; over standard streams is neither")
    settings = settings_for(arguments)
    person = f"{getpass.getuser()}@{os.uname().nodename}"
    os.environ.setdefault("AGENTOPS_ACTOR", "agent:mcp")
    with keep_journal(settings) as journal:
        ground = _ground(settings, journal, person, through_client=arguments.ask_through_client)
        if not arguments.http:
            asyncio.run(serve_streams(ground))
            return Status.YES
        path = arguments.token_file or settings.places.state / "mcp-token"
        token = token_in(path)
        asyncio.run(
            serve_http(
                ground,
                port=_PORT if arguments.port is None else arguments.port,
                token=token,
                ready=lambda address: say(f"serving {address}; the bearer token is in {path}"),
            )
        )
    return Status.YES


def _ground(settings: Settings, journal: Journal, person: str, *, through_client: bool) -> Ground:
    config, source = policy_for(settings)
    folder = Path.cwd() if settings.policy is None else settings.policy.parent
    config, sources = read_sources(config, folder)
    using = overrides(settings)
    return Ground(
        journal=journal,
        clock=SystemClock(),
        config=config,
        sources=sources,
        source=source,
        inventory=settings.inventory,
        leases=settings.places.leases,
        person=person,
        says=summary,
        tells=lambda reader, incident, depth: rendered(
            reader, incident, depth, "md", using, standing(settings, settings.journal)
        ),
        through_client=through_client,
        model=os.environ.get("AGENTOPS_MODEL") or None,
    )


def _tools(arguments: argparse.Namespace) -> Status:
    tools = listed(arguments.format)
    if arguments.json:
        emit({"format": arguments.format, "tools": tools})
    else:
        sys.stdout.write(json.dumps(tools, indent=2, ensure_ascii=False) + "\n")
    return Status.YES
