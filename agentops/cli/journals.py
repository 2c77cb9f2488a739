"""``agentops journal init|seal|key|reindex|size``: care of the journal itself.

What makes evidence leave or go (redact, anchor, prove, snapshot) is in ``agentops.cli.evidence``.
"""

import argparse
from pathlib import Path

from agentops.cli import evidence
from agentops.cli.context import (
    add_journal_option,
    add_json_option,
    open_journal,
    open_reader,
    settings_for,
)
from agentops.cli.printing import emit, say
from agentops.cli.status import Status
from agentops.config import Settings
from agentops.errors import UsageError
from journal import KeyStore
from journal.index import rebuild


def register(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the commands."""
    journal = commands.add_parser("journal", help="care of the journal itself").add_subparsers(
        metavar="ACTION", required=True
    )
    making = journal.add_parser("init", help="make an empty journal; prints its public key line")
    making.set_defaults(run=_init)
    sealing = journal.add_parser("seal", help="sign the heads now and send copies to the anchors")
    sealing.set_defaults(run=_seal)
    key = journal.add_parser("key", help="the signing key").add_subparsers(
        metavar="ACTION", required=True
    )
    showing = key.add_parser("show", help="the public key line to pin elsewhere")
    showing.set_defaults(run=_key)
    reindexing = journal.add_parser("reindex", help="build journal.duckdb anew from the segments")
    reindexing.set_defaults(run=_reindex)
    sizing = journal.add_parser("size", help="bytes by part")
    sizing.set_defaults(run=_size)
    evidence.register_rotation(key)
    evidence.register_upkeep(journal)
    for parser in (making, sealing, showing, reindexing, sizing):
        add_json_option(parser)
        add_journal_option(parser)


def _init(arguments: argparse.Namespace) -> Status:
    settings = settings_for(arguments)
    if settings.journal.exists():
        raise UsageError(f"--journal {settings.journal}: something is there already")
    with open_journal(settings) as journal:
        pinned = KeyStore(settings.places.keys).pinned(journal.journal_id)
    line = pinned.keys[-1].line
    if arguments.json:
        emit({"journal": str(settings.journal), "key": line})
    else:
        say(f"made {settings.journal}; seals go to {', '.join(map(str, pinned.anchors))}")
        print(line)  # noqa: T201 - the key line is the answer
    return Status.YES


def _seal(arguments: argparse.Namespace) -> Status:
    with open_journal(_existing(arguments)) as journal:
        head = journal.seal()
    if arguments.json:
        emit({"stream": head.stream, "size": head.size, "root": head.root})
    else:
        say(f"sealed stream {head.stream} at {head.size} events, root {head.root[:16]}…")
    return Status.YES


def _key(arguments: argparse.Namespace) -> Status:
    settings = _existing(arguments)
    pinned = KeyStore(settings.places.keys).pinned(open_reader(settings).journal_id)
    if not pinned.keys:
        raise UsageError(f"{settings.journal}: no key of this journal is known to this user")
    if arguments.json:
        emit({"keys": [key.line for key in pinned.keys]})
    else:
        for key in pinned.keys:
            print(key.line)  # noqa: T201 - the answer
    return Status.YES


def _reindex(arguments: argparse.Namespace) -> Status:
    reader = open_reader(_existing(arguments))
    rebuild(reader.layout)
    rows = reader.query("SELECT count(*) FROM event").rows
    if arguments.json:
        emit({"events": rows[0][0]})
    else:
        say(f"rebuilt {reader.layout.index} with {rows[0][0]} events")
    return Status.YES


def _size(arguments: argparse.Namespace) -> Status:
    root = _existing(arguments).journal
    parts = {
        "segments": _bytes(root / "log"),
        "outputs": _bytes(root / "blob"),
        "index": _bytes(root / "journal.duckdb"),
        "seals": _bytes(root / "seals.jsonl"),
        "quarantine": _bytes(root / "quarantine"),
    }
    if arguments.json:
        emit({f"{name}_bytes": size for name, size in parts.items()})
    else:
        for name, size in parts.items():
            print(f"{name:<12}{size:>14} bytes")  # noqa: T201
    return Status.YES


def _bytes(path: Path) -> int:
    if path.is_dir():
        return sum(each.stat().st_size for each in path.rglob("*") if each.is_file())
    return path.stat().st_size if path.exists() else 0


def _existing(arguments: argparse.Namespace) -> Settings:
    settings = settings_for(arguments)
    open_reader(settings)
    return settings
