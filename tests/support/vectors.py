"""Makes the conformance vectors: one good bundle and what can be done to it.

Run as ``python -m tests.support.vectors FOLDER`` to write them anew after a change of format; the
committed ones are what the three verifiers are tested against. ``docs/conformance.md`` describes
them. Everything is drawn from seeds, so the same source gives the same bytes.
"""

import json
import shutil
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from journal import Journal
from journal.bundle import VERIFIERS, export_bundle
from journal.upkeep import redact
from tests.support.journals import ACTOR, Place, completed, intended, note, observed
from tests.support.vector_changes import (
    Change,
    another_format,
    double_event,
    double_key,
    drop_blob,
    drop_event,
    edit_line,
    empty_blob,
    flip_blob,
    flip_salt,
    flip_signature,
    foreign_seal,
    forked_anchor,
    go_on_behind,
    launder,
    launder_late,
    nothing,
    prove_late,
    prove_nothing,
    rename_incident,
    resize_note,
    respace,
    seal_again,
    short_path,
    sign_twice,
    swap_blobs,
    swap_events,
    tear_anchor,
    turn_round,
    two_roots,
    wrong_path,
)  # fmt: skip


@dataclass(frozen=True)
class Case:
    """One vector: how the good bundle is changed, and what every verifier must say."""

    name: str
    why: str
    change: Change
    exit_status: int
    says: str
    anchored: bool = True
    own_key: bool = True


def good_bundle(root: Path, *, seed: int = 7, late_redaction: bool = False) -> Place:
    """A journal with an incident, and its bundle in ``root/bundle``."""
    place = Place(root, seed=seed)
    # No anchor while writing: its place would stand in the log, and differ from run to run.
    with Journal.create(
        place.path, clock=place.clock, actor=ACTOR, keys=place.keys, anchor=None,
        settings=place.settings,
    ) as journal:  # fmt: skip
        journal.append(note("before: belongs to the incident"))
        journal.append(intended("c1"))
        (event, _) = journal.append(
            completed("c1", stdout=b"PID ARGS\n1 init\n", stderr=b"caf\xc3\xa9\n"),
            observed("c1", b'{"processes":1}'),
        )
        journal.append(intended("k1", "destroys"))
        journal.append(completed("k1"))
        journal.append(note("\u2028 line separators, \U0001f680 and \x7f are kept as they are"))
        if late_redaction:
            redact(journal, event, "stdout", "personal data")
        journal.append(note("after"))
    place.anchor.parent.mkdir()
    shutil.copyfile(place.layout.seals, place.anchor)
    export_bundle(
        journal.reader(), "I1", root / "bundle", key_id="for-information", anchors=[place.anchor]
    )
    for name in (*VERIFIERS, "README.md"):
        (root / "bundle" / name).unlink()
    return place


CASES = (
    Case("good", "untouched, with its anchor", nothing, 0, "INTACT"),
    Case("unanchored", "untouched, no anchor given", nothing, 3, "UNANCHORED", anchored=False),
    Case("redacted", "an output was destroyed on purpose, an event says so", nothing, 0, "INTACT"),
    Case("edited", "one digit of an event", edit_line, 1, "ROOT_MISMATCH"),
    Case("respaced", "the same JSON, another form", respace, 1, "LINE_MALFORMED"),
    Case("doubled-key", "a JSON key twice", double_key, 1, "LINE_MALFORMED"),
    Case("swapped-events", "two events in each other's place", swap_events, 1, "ROOT_MISMATCH"),
    Case("dropped-event", "fewer events than proofs", drop_event, 1, "TRUNCATED"),
    Case("doubled-event", "one event and its proof twice", double_event, 1, "SEQ_WRONG"),
    Case("wrong-path", "a hash of a proof", wrong_path, 1, "ROOT_MISMATCH"),
    Case("short-path", "a proof one hash too short", short_path, 1, "ROOT_MISMATCH"),
    Case("flipped-blob", "one bit of an output", flip_blob, 1, "BLOB_CORRUPT"),
    Case("flipped-salt", "one bit of a salt", flip_salt, 1, "BLOB_CORRUPT"),
    Case("swapped-blobs", "two outputs in each other's place", swap_blobs, 1, "BLOB_CORRUPT"),
    Case("missing-blob", "an output without a tombstone", drop_blob, 1, "BLOB_MISSING"),
    Case("empty-blob", "an output of no bytes", empty_blob, 1, "BLOB_CORRUPT"),
    Case("resized-seal", "the size in a seal's text", resize_note, 1, "BAD_SIGNATURE"),
    Case("flipped-signature", "one bit of a signature", flip_signature, 1, "BAD_SIGNATURE"),
    Case("stranger", "checked with another key", nothing, 1, "BAD_SIGNATURE", own_key=False),
    Case("foreign-seal", "the right key, another journal", foreign_seal, 1, "FOREIGN"),
    Case("fork", "the anchor knows another root", forked_anchor, 1, "FORK"),
    Case("two-roots", "the anchor knows two roots for one size", two_roots(1), 1, "FORK"),
    Case("two-roots-turned", "the same, the other one first", two_roots(-1), 1, "FORK"),
    Case("two-sessions", "a later super-seal in the anchor", seal_again, 0, "INTACT"),
    Case("torn-anchor", "an anchor that is being written", tear_anchor, 0, "INTACT"),
    Case("laundered", "another history, sealed alike by the key's holder", launder, 1, "FORK"),
    Case("laundered-late", "the same, its first seals not shown", launder_late, 3, "UNANCHORED"),
    Case("late-proofs", "proved under the newest seal alone", prove_late, 3, "UNANCHORED"),
    Case("no-proof", "an event without a path", prove_nothing, 1, "ROOT_MISMATCH"),
    Case("signed-twice", "a bad signature beside the good one", sign_twice, 1, "BAD_SIGNATURE"),
    Case("other-incident", "said to be of another incident", rename_incident, 1, "FOREIGN"),
    Case("other-format", "said to be of another format", another_format, 1, "FOREIGN"),
    Case("turned-round", "the events in the opposite order", turn_round, 1, "SEQ_WRONG"),
    Case(
        "event-behind",
        "an event behind the last line end",
        go_on_behind("events.jsonl"),
        1,
        "MALFORMED",
    ),
    Case("proof-behind", "a proof there", go_on_behind("proofs.jsonl"), 1, "MALFORMED"),
    Case("seal-behind", "a seal there", go_on_behind("seals.jsonl"), 1, "MALFORMED"),
)


def write_case(case: Case, target: Path) -> None:
    """Write one vector: bundle, key, anchor, and what must be said."""
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(scratch)
        place = good_bundle(root, late_redaction=case.name == "redacted")
        case.change(root / "bundle", place)
        key = place.keys.signing_key().public
        if not case.own_key:
            key = Place(root / "other", seed=8).keys.make_key().public
        shutil.copytree(root / "bundle", target / "bundle")
        (target / "key").write_text(key.line + "\n")
        if case.anchored:
            shutil.copyfile(place.anchor, target / "anchor.jsonl")
        expected = {"exit": case.exit_status, "says": case.says, "why": case.why}
        (target / "expected.json").write_text(json.dumps(expected, indent=1) + "\n")


def main() -> None:
    """Write all vectors into the folder that is named."""
    folder = Path(sys.argv[1])
    for case in CASES:
        if (folder / case.name).exists():
            shutil.rmtree(folder / case.name)
        (folder / case.name).mkdir(parents=True)
        write_case(case, folder / case.name)


if __name__ == "__main__":
    main()
