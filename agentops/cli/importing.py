"""``agentops hosts import``: the inventory's entries from the user's own SSH configuration."""

import argparse
import asyncio
from collections.abc import Sequence
from pathlib import Path

from agentops.cli.context import add_json_option, settings_for
from agentops.cli.inventory_file import append
from agentops.cli.printing import emit, say
from agentops.cli.status import Status
from agentops.hosts import Host, toml_entry
from agentops.transport.ssh_config import Imported, import_all


def register(hosts: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command."""
    parser = hosts.add_parser("import", help="take hosts from an SSH configuration")
    parser.add_argument(
        "file",
        metavar="FILE",
        nargs="?",
        type=Path,
        default=Path("~/.ssh/config"),
        help="the configuration; ssh itself reads it",
    )
    parser.add_argument(
        "--only", action="append", default=[], metavar="NAME", help="this Host; may repeat"
    )
    parser.add_argument(
        "--tier", choices=("dev", "prod", "unknown"), default="unknown", help="of all of them"
    )
    parser.add_argument("--label", action="append", default=[], metavar="LABEL", help="may repeat")
    parser.add_argument("--plan", action="store_true", help="show the entries and write nothing")
    add_json_option(parser)
    parser.set_defaults(run=_import)


def _import(arguments: argparse.Namespace) -> Status:
    settings = settings_for(arguments)
    found = asyncio.run(
        import_all(
            arguments.file.expanduser(),
            names=arguments.only,
            known=tuple(settings.inventory.hosts),
            tier=arguments.tier,
        )
    )
    labels = {"labels": tuple(arguments.label)}
    hosts = tuple(Host.model_validate({**host.model_dump(), **labels}) for host in found.hosts)
    path = None if arguments.plan or not hosts else append(settings, hosts)
    if arguments.json:
        emit(
            {
                "file": None if path is None else str(path),
                "hosts": [host.model_dump(mode="json") | {"route": host.route()} for host in hosts],
                "left_out": dict(found.left_out),
            }
        )
    else:
        _tell(hosts, found, path)
    return Status.YES if hosts or not found.left_out else Status.NO


def _tell(hosts: Sequence[Host], found: Imported, path: Path | None) -> None:
    if path is None and hosts:
        print("\n".join(map(toml_entry, hosts)), end="")  # noqa: T201 - the plan is the answer
    for host in hosts:
        say(f"{'planned' if path is None else 'added'} {host.name} ({' → '.join(host.route())})")
    for alias, why in found.left_out.items():
        say(f"left out {alias}: {why}")
    unpinned = [host.name for host in hosts if host.fingerprint is None]
    if unpinned:
        say(f"without a known key: {', '.join(unpinned)}; agentops hosts pin NAME asks for it")
    if path is not None:
        say(f"{len(hosts)} written to {path}")
