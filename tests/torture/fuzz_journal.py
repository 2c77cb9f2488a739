"""Coverage-guided fuzzing of the segment reader and the verifiers (atheris).

    python tests/torture/fuzz_journal.py [-max_total_time=600] [CORPUS]

Every input is tried as a line, as a note, as a whole segment of a journal and as a bundle's events
file. Whatever the bytes are, the answer must be a value or one of the journal's own errors. Without
atheris the same targets are driven by mutations of the seeds, for as many seconds.
"""

import hashlib
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from journal import Reader, verify
from journal.bookmark import read_bookmark
from journal.bundle_check import verify_bundle
from journal.envelope import outputs_of, read_line
from journal.errors import JournalError
from journal.lines import loads, parse
from journal.notes import PublicKey, open_note, parse_note
from journal.segments import link_of
from journal.tailing import Tail
from journal.verification import verify_chain
from tests.support.journals import Place, twenty_events
from tests.support.vectors import good_bundle

SEEDS = Path(__file__).parent / "seeds"


class Targets:
    """The things that read bytes from disk, each with a journal or bundle to put them into."""

    def __init__(self, root: Path) -> None:
        self.place = Place(root / "journal")
        self.place.root.mkdir()
        twenty_events(self.place)
        self.place.layout.index.unlink()
        self.segment = self.place.segment()
        self.key = self.place.keys.signing_key().public
        self.bundle = root / "made" / "bundle"
        self.bundle_key = good_bundle(root / "made").keys.signing_key().public.line
        self.all: tuple[Callable[[bytes], None], ...] = (
            self.line, self.note, self.whole_segment, self.seals, self.bookmark,
            self.bundle_events, self.bundle_proofs,
        )  # fmt: skip

    def line(self, data: bytes) -> None:
        """One line."""
        link_of(data)
        for read in (loads, parse, read_line):
            try:
                read(data)
            except JournalError:
                continue

    def note(self, data: bytes) -> None:
        """A note and a key line."""
        text = data.decode("utf-8", "replace")
        parse_note(text)
        open_note(text, self.key)
        try:
            PublicKey.parse(text)
        except JournalError:
            return

    def whole_segment(self, data: bytes) -> None:
        """A segment: verified, followed, read, and searched."""
        self.segment.write_bytes(data)
        verify(self.place.path, keys=self.place.keys, outputs=False)
        verify_chain(self.place.path)
        try:
            outputs_of(data.partition(b"\n")[0])
            Tail(self.place.layout).new()
            for _ in Reader.open(self.place.path).events():
                continue
        except JournalError:
            return

    def seals(self, data: bytes) -> None:
        """``seals.jsonl`` under an intact log."""
        path = self.place.layout.seals
        whole = path.read_bytes()
        path.write_bytes(data)
        verify(self.place.path, keys=self.place.keys, outputs=False)
        path.write_bytes(whole)

    def bookmark(self, data: bytes) -> None:
        """A bookmark whose digest fits."""
        digest = hashlib.sha256(data.rstrip(b"\n")).hexdigest().encode()
        self.place.layout.bookmark.write_bytes(digest + b"\n" + data)
        read_bookmark(self.place.layout)

    def bundle_events(self, data: bytes) -> None:
        """A bundle's events."""
        self._bundle_file("events.jsonl", data)

    def bundle_proofs(self, data: bytes) -> None:
        """A bundle's proofs."""
        self._bundle_file("proofs.jsonl", data)

    def _bundle_file(self, name: str, data: bytes) -> None:
        path = self.bundle / name
        whole = path.read_bytes()
        path.write_bytes(data)
        answer = verify_bundle(self.bundle, key=self.bundle_key)
        assert answer.status == "tampered" or data == whole
        path.write_bytes(whole)


def seeds() -> list[bytes]:
    """The committed seeds, and what a good journal holds."""
    found = [path.read_bytes() for path in sorted(SEEDS.glob("*"))]
    with tempfile.TemporaryDirectory() as scratch:
        place = Place(Path(scratch))
        place.settings = replace(place.settings, bookmark_every=1)
        twenty_events(place)
        found += [place.segment().read_bytes(), place.layout.seals.read_bytes(), *place.lines()]
        found.append(place.layout.bookmark.read_bytes().partition(b"\n")[2])
    return found


def mutated(data: bytes, chance: random.Random) -> bytes:
    """A few cuts, flips, repeats and splices."""
    out = bytearray(data)
    for _ in range(chance.randrange(1, 6)):
        at = chance.randrange(len(out) + 1)
        kind = chance.randrange(5)
        if kind == 0 and out:
            out[at % len(out)] ^= 1 << chance.randrange(8)
        elif kind == 1:
            del out[at : at + chance.randrange(1, 40)]
        elif kind == 2:
            out[at:at] = out[max(0, at - chance.randrange(1, 60)) : at]
        elif kind == 3:
            out[at:at] = chance.choice(
                [b'"prev":"', b"\n", b"\x00", b'{"v":1}', b"1e999", b"[" * 70, b'"\\ud800"']
            )
        else:
            out[at:at] = chance.randbytes(chance.randrange(1, 9))
    return bytes(out)


def without_atheris(targets: Targets, seconds: float) -> int:
    """Mutate the seeds for so long; gives the number of inputs."""
    chance = random.Random()  # noqa: S311 - fuzzing
    pool = seeds()
    end = time.monotonic() + seconds
    count = 0
    while time.monotonic() < end:
        data = mutated(chance.choice(pool), chance)
        target = targets.all[count % len(targets.all)]
        try:
            target(data)
        except Exception:
            (SEEDS / f"crash-{count}").write_bytes(data)
            print(f"{target.__name__} failed; the input is kept in {SEEDS}")  # noqa: T201
            raise
        count += 1
    return count


def main() -> None:
    """Fuzz with atheris if it is there."""
    root = Path(tempfile.mkdtemp())
    targets = Targets(root)
    try:
        import atheris  # type: ignore[import-untyped]  # noqa: PLC0415 - optional, untyped
    except ImportError:
        asked = [one for one in sys.argv if one.startswith("-max_total_time=")]
        seconds = float(asked[0].partition("=")[2]) if asked else 600.0
        count = without_atheris(targets, seconds)
        print(f"{count} inputs in {seconds:.0f} s, no crash (without atheris)")  # noqa: T201
        shutil.rmtree(root)
        return

    def one(data: bytes) -> None:
        for target in targets.all:
            target(data)

    atheris.instrument_all()
    atheris.Setup(sys.argv, one)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
