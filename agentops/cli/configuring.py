"""``agentops config show``: every setting in force, and who said so."""

import argparse

from rich.table import Table

from agentops.cli.context import add_journal_option, add_json_option, settings_for
from agentops.cli.policies import SHIPPED
from agentops.cli.printing import console, emit
from agentops.cli.status import Status


def register(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command."""
    actions = commands.add_parser("config", help="the settings in force").add_subparsers(
        metavar="ACTION", required=True
    )
    showing = actions.add_parser("show", help="each value, and which flag or file said so")
    add_json_option(showing)
    add_journal_option(showing)
    showing.set_defaults(run=_show)


def _show(arguments: argparse.Namespace) -> Status:
    settings = settings_for(arguments)
    values = {
        "journal": str(settings.journal),
        "key": settings.journal_key or "the key store's",
        "anchor": str(settings.anchor or "the key store's"),
        "policy": str(settings.policy or f"shipped {SHIPPED}"),
        **{f"hosts.{host.name}": " → ".join(host.route()) for host in settings.inventory},
    }
    folders = {
        "configuration": str(settings.places.config),
        "state": str(settings.places.state),
        "project": str(settings.project or "no agentops.toml from this folder upwards"),
    }
    rows = {name: (value, settings.origins[name]) for name, value in values.items()}
    if arguments.json:
        told = {name: {"value": value, "from": source} for name, (value, source) in rows.items()}
        emit({"settings": told, "folders": folders})
        return Status.YES
    table = Table("setting", "value", "from")
    for name, (value, source) in rows.items():
        table.add_row(name, value, source)
    for name, folder in folders.items():
        table.add_row(f"folder: {name}", folder, "")
    console().print(table)
    return Status.YES
