"""``agentops export``, and ``agentops journal`` redact, anchor, prove, snapshot, key rotate.

Evidence that leaves, or must go. Here: arguments and printing. Not here: what a bundle, a proof or
an anchor is (``journal``).
"""

import argparse
from pathlib import Path

from agentops.cli.context import (
    add_journal_option,
    add_json_option,
    open_journal,
    open_reader,
    record_reading,
    resolve_incident,
    settings_for,
)
from agentops.cli.printing import emit, say
from agentops.cli.status import Status
from agentops.cli.trusting import is_tampered
from agentops.cli.values import words
from agentops.config import Settings
from agentops.errors import UsageError
from journal import KeyStore, NewEvent, Reader
from journal.anchors import Anchor, anchor_at
from journal.bundle import export_bundle
from journal.events import AnchorDropped
from journal.proving import prove
from journal.sealing import take_over
from journal.seals import read_notes
from journal.snapshot import snapshot
from journal.trail import write_trail
from journal.upkeep import redact, rotate_key


def register(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add ``export``."""
    export = commands.add_parser("export", help="evidence of one incident for others")
    export.add_argument("incident", metavar="INCIDENT", nargs="?")
    export.add_argument(
        "--format",
        choices=("bundle", "audit-trail"),
        default="bundle",
        help="a bundle with proofs and verifiers, or draft-sharif-agent-audit-trail, signed anew",
    )
    export.add_argument("--output", type=Path, required=True, metavar="FOLDER", help="a new folder")
    add_json_option(export)
    add_journal_option(export)
    export.set_defaults(run=_export)


def register_upkeep(journal: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the actions of ``agentops journal`` that this module has."""
    redacting = journal.add_parser(
        "redact", help="destroy one stored output; the chain still holds"
    )
    redacting.add_argument("event", metavar="EVENT", help="id, unambiguous prefix, or [STREAM:]SEQ")
    redacting.add_argument("output", metavar="OUTPUT", help="stdout, stderr, observation, …")
    redacting.add_argument("--reason", required=True, type=words, metavar="TEXT", help="why")
    redacting.set_defaults(run=_redact)
    anchoring = journal.add_parser(
        "anchor", help="send copies of seals to one more place, or no longer to one"
    )
    anchoring.add_argument("place", metavar="PLACE", help="a file, ssh:HOST:PATH, or git:FOLDER")
    anchoring.add_argument(
        "--drop",
        action="store_true",
        help="send none there from now on; what it has stays evidence",
    )
    anchoring.set_defaults(run=_anchor)
    proving = journal.add_parser("prove", help="the inclusion proof of one sealed event")
    proving.add_argument("event", metavar="EVENT", help="id, unambiguous prefix, or [STREAM:]SEQ")
    proving.set_defaults(run=_prove)
    copying = journal.add_parser("snapshot", help="a read-only copy of the index")
    copying.add_argument("target", metavar="TARGET", type=Path, help="a file or folder to make")
    copying.add_argument("--parquet", action="store_true", help="a folder of Parquet files instead")
    copying.set_defaults(run=_snapshot)
    for parser in (redacting, anchoring, proving, copying):
        add_json_option(parser)
        add_journal_option(parser)


def register_rotation(key: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add ``agentops journal key rotate``."""
    rotating = key.add_parser("rotate", help="a new signing key; the old one signs the hand-over")
    add_json_option(rotating)
    add_journal_option(rotating)
    rotating.set_defaults(run=_rotate)


def _export(arguments: argparse.Namespace) -> Status:
    settings = settings_for(arguments)
    reader = open_reader(settings)
    incident = resolve_incident(reader, arguments.incident)
    if arguments.output.exists():
        raise UsageError(f"--output {arguments.output}: something is there already")
    if is_tampered(settings, "exported"):
        return Status.NO
    record_reading(settings, "export", incident)
    if arguments.format == "audit-trail":
        return _export_trail(arguments, reader, incident)
    with open_journal(settings) as journal:
        # What is exported must be sealed: the proofs end at a seal.
        journal.seal()
        take_over(journal, journal.signing_key, journal.settings.disk)
        pinned = KeyStore(settings.places.keys).pinned(journal.journal_id)
        key_id = journal.signing_key.public.line
    bundle = export_bundle(
        reader,
        incident,
        arguments.output,
        key_id=key_id,
        anchors=[Path(place) for place in pinned.anchors if Path(place).is_file()],
    )
    if arguments.json:
        emit({"incident": incident, "bundle": str(arguments.output), "events": bundle.events})
    else:
        say(f"wrote {arguments.output}: {bundle.events} events with proofs and a verifier")
    return Status.YES


def _export_trail(arguments: argparse.Namespace, reader: Reader, incident: str) -> Status:
    records = write_trail(reader.events(incident=incident), arguments.output)
    if arguments.json:
        emit({"incident": incident, "trail": str(arguments.output), "records": records})
    else:
        say(f"wrote {arguments.output}: {records} records and the key that signed this copy")
    return Status.YES


def _redact(arguments: argparse.Namespace) -> Status:
    settings = settings_for(arguments)
    event = open_reader(settings).event(arguments.event)
    with open_journal(settings) as journal:
        said = redact(journal, event, arguments.output, arguments.reason)
    if arguments.json:
        emit({"event": event.id, "output": arguments.output, "redacted_by": said.id})
    else:
        say(f"destroyed {arguments.output} of {event.id}; said in [{said.id}]")
    return Status.YES


def _anchor(arguments: argparse.Namespace) -> Status:
    settings = settings_for(arguments)
    reader = open_reader(settings)
    place = arguments.place
    if not place:
        raise UsageError("anchor '': name a place: a path, ssh:HOST:PATH or git:FOLDER")
    if anchor_at(place).place == str(Path(place).absolute()):
        if Path(place).resolve().is_relative_to(reader.layout.root.resolve()):
            raise UsageError(f"anchor {place!r} lies inside the journal; choose a place outside it")
        place = str(Path(place).resolve())
    if arguments.drop:
        return _drop(arguments, settings, reader, place)
    anchor = anchor_at(place)
    _require_anchors(anchor)
    with open_journal(settings) as journal:
        journal.seal()
    # A place that does not take the newest seal is not remembered.
    for newest in list(read_notes(reader.layout.seals))[-1:]:
        anchor.send(newest.note)
    keys = KeyStore(settings.places.keys)
    keys.pin(reader.journal_id, key=keys.key_for(reader.journal_id).public, anchor=place)
    with open_journal(settings) as journal:
        head = journal.seal()
    if arguments.json:
        emit({"anchor": place, "size": head.size})
    else:
        say(f"seals go to {place} from now on; the first covers {head.size} events")
    return Status.YES


def _drop(arguments: argparse.Namespace, settings: Settings, reader: Reader, place: str) -> Status:
    """Say so on record first: the place's own last note then covers the event, if it can."""
    keys = KeyStore(settings.places.keys)
    anchors = keys.pinned(reader.journal_id).anchors
    named = [anchor for anchor in anchors if anchor_at(anchor).place == anchor_at(place).place]
    if not named:
        raise UsageError(f"anchor {place!r} is none of this journal's: {', '.join(anchors)}")
    if settings.anchor is not None and anchor_at(str(settings.anchor)).place in named:
        raise UsageError(
            f"anchor {place!r} is the one of {settings.origins['anchor']};"
            " change [journal] anchor there first"
        )
    if len(anchors) == 1:
        raise UsageError(f"anchor {place!r} is the only one; add another before dropping it")
    with open_journal(settings) as journal:
        journal.append(NewEvent(AnchorDropped(sink=named[0])))
    keys.drop(reader.journal_id, named[0])
    if arguments.json:
        emit({"dropped": named[0]})
    else:
        say(f"seals no longer go to {named[0]}; what it has is still compared")
    return Status.YES


def _require_anchors(anchor: Anchor) -> None:
    """Let nothing be appended to a file of somebody else's.

    Raises:
        UsageError: what lies at the place is something else than anchors.
        AnchorFailed: it cannot be read.
    """
    there = anchor.notes()
    if there and all(note.fault for note in there):
        raise UsageError(f"anchor {anchor.place!r} holds something else; choose a new file")


def _prove(arguments: argparse.Namespace) -> Status:
    settings = settings_for(arguments)
    reader = open_reader(settings)
    event = reader.event(arguments.event)
    if is_tampered(settings, "proved"):
        return Status.NO
    proof = prove(reader, event)
    record_reading(settings, "prove", event.id)
    emit({"event": event.id, "leaf": event.leaf, "proof": proof.value, "note": proof.note})
    return Status.YES


def _snapshot(arguments: argparse.Namespace) -> Status:
    settings = settings_for(arguments)
    record_reading(settings, "snapshot", str(arguments.target))
    snapshot(open_reader(settings).layout, arguments.target, parquet=arguments.parquet)
    if arguments.json:
        emit({"snapshot": str(arguments.target)})
    else:
        say(f"wrote {arguments.target}")
    return Status.YES


def _rotate(arguments: argparse.Namespace) -> Status:
    settings = settings_for(arguments)
    open_reader(settings)
    with open_journal(settings) as journal:
        line = rotate_key(journal).line
    if arguments.json:
        emit({"key": line})
    else:
        say("the new key signs from now on; pin it where the old one is pinned")
        print(line)  # noqa: T201 - the key line is the answer
    return Status.YES
