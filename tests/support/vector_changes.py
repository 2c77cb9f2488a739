"""What can be done to a bundle or its anchor, for the conformance vectors.

Each takes the bundle's folder and the place that it was made from. Which of them make a vector, and
what a verifier must say of it, is ``tests.support.vectors``'s.
"""

import base64
import json
import shutil
from collections.abc import Callable
from pathlib import Path

from journal import Reader
from journal.bundle import VERIFIERS, export_bundle
from journal.lines import canonical, leaf_hash
from journal.merkle import Tree
from journal.notes import Checkpoint, parse_note, sign
from tests.support.journals import Place

Change = Callable[[Path, Place], None]


def lines(path: Path) -> list[bytes]:
    """The lines of a file without their line ends."""
    return path.read_bytes().split(b"\n")[:-1]


def put(path: Path, content: list[bytes]) -> None:
    """The opposite."""
    path.write_bytes(b"".join(line + b"\n" for line in content))


def nothing(_bundle: Path, _place: Place) -> None:
    """The good one."""


def edit_line(bundle: Path, _place: Place) -> None:
    """A digit of a duration."""
    events = lines(bundle / "events.jsonl")
    at = next(n for n, line in enumerate(events) if b'"duration_ms":12' in line)
    events[at] = events[at].replace(b'"duration_ms":12', b'"duration_ms":13')
    put(bundle / "events.jsonl", events)


def respace(bundle: Path, _place: Place) -> None:
    """The same JSON with a space in it."""
    events = lines(bundle / "events.jsonl")
    events[2] = events[2].replace(b'"kind":', b'"kind": ')
    put(bundle / "events.jsonl", events)


def double_key(bundle: Path, _place: Place) -> None:
    """A key twice; parsers disagree on which counts."""
    events = lines(bundle / "events.jsonl")
    events[2] = b'{"v":1,' + events[2][1:]
    put(bundle / "events.jsonl", events)


def swap_events(bundle: Path, _place: Place) -> None:
    """Two events change places; their proofs do not."""
    events = lines(bundle / "events.jsonl")
    events[2], events[3] = events[3], events[2]
    put(bundle / "events.jsonl", events)


def drop_event(bundle: Path, _place: Place) -> None:
    """An event goes, its proof stays."""
    put(bundle / "events.jsonl", lines(bundle / "events.jsonl")[:-1])


def double_event(bundle: Path, _place: Place) -> None:
    """An event with its proof, twice."""
    for name in ("events.jsonl", "proofs.jsonl"):
        content = lines(bundle / name)
        put(bundle / name, [*content, content[-1]])


def wrong_path(bundle: Path, _place: Place) -> None:
    """A proof whose first hash is another one."""
    proofs = lines(bundle / "proofs.jsonl")
    value = json.loads(proofs[3])
    value[max(value, key=int)][0] = "0" * 64
    proofs[3] = canonical(value)
    put(bundle / "proofs.jsonl", proofs)


def short_path(bundle: Path, _place: Place) -> None:
    """A proof that stops one hash early."""
    proofs = lines(bundle / "proofs.jsonl")
    value = json.loads(proofs[3])
    value[max(value, key=int)].pop()
    proofs[3] = canonical(value)
    put(bundle / "proofs.jsonl", proofs)


def outputs_of(bundle: Path) -> dict[str, str]:
    """Name -> commitment, over all events."""
    return {
        name: out["c"]
        for line in lines(bundle / "events.jsonl")
        for name, out in json.loads(line).get("out", {}).items()
    }


def flip_blob(bundle: Path, _place: Place) -> None:
    """One bit of an output."""
    path = bundle / "blobs" / outputs_of(bundle)["stdout"]
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)


def flip_salt(bundle: Path, _place: Place) -> None:
    """One bit of its salt."""
    path = bundle / "blobs" / outputs_of(bundle)["stdout"]
    data = bytearray(path.read_bytes())
    data[0] ^= 1
    path.write_bytes(data)


def swap_blobs(bundle: Path, _place: Place) -> None:
    """Two outputs with their salts change names."""
    first, second = (bundle / "blobs" / outputs_of(bundle)[name] for name in ("stdout", "stderr"))
    one, two = first.read_bytes(), second.read_bytes()
    first.write_bytes(two)
    second.write_bytes(one)


def drop_blob(bundle: Path, _place: Place) -> None:
    """An output goes, and no event says that it was redacted."""
    (bundle / "blobs" / outputs_of(bundle)["stdout"]).unlink()


def empty_blob(bundle: Path, _place: Place) -> None:
    """An output of no bytes at all, not even a salt."""
    (bundle / "blobs" / outputs_of(bundle)["stdout"]).write_bytes(b"")


def resize_note(bundle: Path, _place: Place) -> None:
    """The size in the signed text of the last one."""
    *others, line = lines(bundle / "seals.jsonl")
    value = json.loads(line)
    parts = value["note"].split("\n")
    parts[1] = str(int(parts[1]) + 1)
    value["note"] = "\n".join(parts)
    put(bundle / "seals.jsonl", [*others, canonical(value)])


def flip_signature(bundle: Path, _place: Place) -> None:
    """One bit of a signature."""
    line, *others = lines(bundle / "seals.jsonl")
    value = json.loads(line)
    head, _, signature = value["note"].rstrip("\n").rpartition(" ")
    value["note"] = f"{head} {flipped(signature)}\n"
    put(bundle / "seals.jsonl", [canonical(value), *others])


def flipped(signature: str) -> str:
    """A signature in base64 with its last bit turned."""
    blob = bytearray(base64.b64decode(signature))
    blob[-1] ^= 1
    return base64.b64encode(blob).decode()


def sign_twice(bundle: Path, _place: Place) -> None:
    """Behind the good signature a bad one by the same key: either both hold or none counts."""
    line, *others = lines(bundle / "seals.jsonl")
    value = json.loads(line)
    head, _, signature = value["note"].rstrip("\n").rpartition("\n")[2].rpartition(" ")
    value["note"] += f"{head} {flipped(signature)}\n"
    put(bundle / "seals.jsonl", [canonical(value), *others])


def foreign_seal(bundle: Path, place: Place) -> None:
    """Seals by the right key over another journal."""
    forged = []
    for line in lines(bundle / "seals.jsonl"):
        checkpoint = parse_note(json.loads(line)["note"])
        assert not isinstance(checkpoint, str)
        parts = checkpoint.origin.split("/")
        origin = "/".join([parts[0], "01AAAAAAAAAAAAAAAAAAAAAAAA", parts[2]])
        other = Checkpoint(origin, checkpoint.size, checkpoint.root, checkpoint.extensions)
        forged.append(canonical({"note": sign(other, place.keys.signing_key())}))
    put(bundle / "seals.jsonl", forged)


def forked_anchor(_bundle: Path, place: Place) -> None:
    """The anchor holds another root for the same size, by the right key."""
    forged = []
    for line in lines(place.anchor):
        checkpoint = parse_note(json.loads(line)["note"])
        assert not isinstance(checkpoint, str)
        other = Checkpoint(checkpoint.origin, checkpoint.size, b"\x05" * 32, ("ts_us 1",))
        forged.append(canonical({"note": sign(other, place.keys.signing_key())}))
    put(place.anchor, forged)


def go_on_behind(name: str) -> Change:
    """Something behind the last line end, which people and most programs read as a line."""

    def change(bundle: Path, _place: Place) -> None:
        path = bundle / name
        path.write_bytes(path.read_bytes() + lines(path)[-1])

    return change


def rename_incident(bundle: Path, _place: Place) -> None:
    """The bundle says that it is about another incident."""
    value = json.loads((bundle / "bundle.json").read_bytes())
    (bundle / "bundle.json").write_bytes(canonical(value | {"incident": "I2"}) + b"\n")


def another_format(bundle: Path, _place: Place) -> None:
    """A format that nobody has written."""
    value = json.loads((bundle / "bundle.json").read_bytes())
    (bundle / "bundle.json").write_bytes(canonical(value | {"format": 9}) + b"\n")


def turn_round(bundle: Path, _place: Place) -> None:
    """The last event first, each with its proof."""
    for name in ("events.jsonl", "proofs.jsonl"):
        put(bundle / name, lines(bundle / name)[::-1])


def prove_late(bundle: Path, _place: Place) -> None:
    """Each event under the newest seal alone, as one would whose first seals say otherwise."""
    proofs = [json.loads(line) for line in lines(bundle / "proofs.jsonl")]
    newest = max(proofs[-1], key=int)
    put(bundle / "proofs.jsonl", [canonical({newest: proof[newest]}) for proof in proofs])


def prove_nothing(bundle: Path, _place: Place) -> None:
    """One event without any path."""
    proofs = lines(bundle / "proofs.jsonl")
    put(bundle / "proofs.jsonl", [*proofs[:-1], b"{}"])


def launder(bundle: Path, place: Place) -> None:
    """The holder of the key writes another history, seals it alike, and exports it.

    Nothing in the bundle contradicts the rest of it; what was copied outside before does.
    """
    good: list[bytes] = []
    for line in place.lines():
        value = json.loads(line)
        if value["kind"] == "command_completed":
            value["data"]["duration_ms"] = 1
        value["prev"] = leaf_hash(good[-1]).hex() if good else value["prev"]
        good.append(canonical(value))
    place.put_lines(good)
    tree = Tree([leaf_hash(line) for line in good])
    key, forged = place.keys.signing_key(), list[bytes]()
    for line in lines(place.layout.seals):
        checkpoint = parse_note(json.loads(line)["note"])
        assert not isinstance(checkpoint, str)
        if checkpoint.origin.count("/") > 1:
            root = tree.root_over(0, checkpoint.size)
            other = Checkpoint(checkpoint.origin, checkpoint.size, root, checkpoint.extensions)
            forged.append(canonical({"note": sign(other, key)}))
    put(place.layout.seals, forged)
    place.layout.index.unlink()
    place.layout.bookmark.unlink(missing_ok=True)
    shutil.rmtree(bundle)
    export_bundle(
        Reader.open(place.path), "I1", bundle, key_id="for-information", anchors=[place.anchor]
    )
    for name in (*VERIFIERS, "README.md"):
        (bundle / name).unlink()


def launder_late(bundle: Path, place: Place) -> None:
    """The same, and only the newest seal is shown, of a size that the anchor does not have."""
    launder(bundle, place)
    prove_late(bundle, place)
    newest = lines(bundle / "seals.jsonl")[-1]
    put(bundle / "seals.jsonl", [newest])
    checkpoint = parse_note(json.loads(newest)["note"])
    assert not isinstance(checkpoint, str)
    size = f"\\n{checkpoint.size}\\n".encode()
    put(place.anchor, [line for line in lines(place.anchor) if size not in line])


def two_roots(order: int) -> Change:
    """The anchor holds two roots for one size, by the right key, in either order."""

    def change(bundle: Path, place: Place) -> None:
        kept = lines(place.anchor)
        forked_anchor(bundle, place)
        put(place.anchor, [*kept, *lines(place.anchor)][::order])

    return change


def seal_again(_bundle: Path, place: Place) -> None:
    """A later session's super-seal, over as many streams, stands in the anchor too."""
    kept = lines(place.anchor)
    checkpoints = [parse_note(json.loads(line)["note"]) for line in kept]
    (whole,) = [
        one for one in checkpoints if not isinstance(one, str) and one.origin.count("/") == 1
    ]
    later = Checkpoint(whole.origin, whole.size, b"\x06" * 32, ("ts_us 2",))
    put(place.anchor, [*kept, canonical({"note": sign(later, place.keys.signing_key())})])


def tear_anchor(_bundle: Path, place: Place) -> None:
    """The anchor's last line is being written."""
    place.anchor.write_bytes(place.anchor.read_bytes() + b'{"note":"agent')
