"""Where things lie in a journal's folder, and its one unhashed file, ``format.json``.

    NAME.journal/
    ├── format.json        format number and the journal's id
    ├── log/<stream>/000000.jsonl   the evidence: canonical lines; full ones become .jsonl.zst
    ├── blob/<stream>/000000.pack   outputs
    ├── journal.duckdb     the index that people query; derived, may be deleted
    ├── seals.jsonl        signed heads
    ├── anchors.jsonl      where copies of seals were sent
    ├── bookmark.json      from where opening reads on; derived, may be deleted
    ├── index.lock, claims.lock     held for a batch, never for a process's life
    └── quarantine/        torn tails and damaged indexes, never deleted

Nothing is believed because ``format.json`` says so: the id is repeated in the signed origin of
every seal. Not here: any of the contents.
"""

import json
import os
import re
import stat
from dataclasses import dataclass
from pathlib import Path

from journal.disk import make_folder, write_whole
from journal.errors import NotAJournal
from journal.lines import canonical

FORMAT = 1
STREAM_NAME = re.compile(r"s[1-9][0-9]{0,8}-[0-9a-f]{8}")
SEGMENT_NAME = re.compile(r"([0-9]{6})\.jsonl(\.zst)?")


@dataclass(frozen=True, slots=True)
class Layout:
    """The paths of one journal."""

    root: Path

    @property
    def format_file(self) -> Path:
        """``format.json``."""
        return self.root / "format.json"

    @property
    def log(self) -> Path:
        """The folder of streams."""
        return self.root / "log"

    @property
    def index(self) -> Path:
        """The DuckDB file."""
        return self.root / "journal.duckdb"

    @property
    def index_lock(self) -> Path:
        """Held exclusively to bring the index up, shared to read it."""
        return self.root / "index.lock"

    @property
    def claims_lock(self) -> Path:
        """Held while an idempotency key is checked and written."""
        return self.root / "claims.lock"

    @property
    def seals(self) -> Path:
        """Signed heads, one canonical JSON object a line."""
        return self.root / "seals.jsonl"

    @property
    def anchors(self) -> Path:
        """What was sent where."""
        return self.root / "anchors.jsonl"

    @property
    def bookmark(self) -> Path:
        """Where the streams stood when a session sealed."""
        return self.root / "bookmark.json"

    @property
    def quarantine(self) -> Path:
        """What recovery set aside."""
        return self.root / "quarantine"

    def stream(self, name: str) -> Path:
        """A stream's folder of segments."""
        return self.log / name

    def blobs(self, stream: str) -> Path:
        """A stream's folder of packs."""
        return self.root / "blob" / stream

    def streams(self) -> list[str]:
        """Names of all streams, in the order in which they were begun."""
        if not self.log.is_dir():
            return []
        names = [entry.name for entry in self.log.iterdir() if STREAM_NAME.fullmatch(entry.name)]
        return sorted(names, key=stream_order)

    def segments(self, stream: str) -> list[Path]:
        """A stream's segments in order; where both forms exist, the plain one counts."""
        found: dict[str, Path] = {}
        folder = self.stream(stream)
        for path in sorted(folder.iterdir(), reverse=True) if folder.is_dir() else []:
            if match := SEGMENT_NAME.fullmatch(path.name):
                found[match[1]] = path  # reversed order: .jsonl comes after .jsonl.zst and wins
        return [found[number] for number in sorted(found)]


def stream_order(name: str) -> tuple[int, str]:
    """Sorts streams by the number in their name.

    >>> sorted(["s10-00000000", "s9-00000000"], key=stream_order)
    ['s9-00000000', 's10-00000000']
    """
    return int(name[1:].partition("-")[0]), name


def write_format(layout: Layout, journal_id: str) -> None:
    """Begin a journal: its folders and ``format.json``."""
    for folder in (layout.root, layout.log, layout.quarantine):
        make_folder(folder)
    line = canonical({"format": FORMAT, "journal": journal_id})
    write_whole(layout.format_file, line + b"\n")


def read_format(layout: Layout) -> str:
    """The journal's id.

    Raises:
        NotAJournal: No journal here, or one of another format.
    """
    path = layout.format_file
    if (odd := odd_file(layout.root)) is not None:
        raise NotAJournal(
            f"{odd}: is neither a file nor a folder, and a journal holds nothing else"
        )
    try:
        value = json.loads(path.read_bytes())
    except FileNotFoundError as error:
        if not layout.root.exists():
            raise NotAJournal(f"no journal is at {layout.root}: nothing is there") from error
        raise NotAJournal(f"{layout.root} is not a journal: it has no format.json") from error
    except NotADirectoryError as error:
        raise NotAJournal(f"{layout.root} is not a journal: it is a file") from error
    except (OSError, ValueError, RecursionError) as error:
        raise NotAJournal(f"cannot read {path}: {error}") from error
    if not isinstance(value, dict) or not isinstance(value.get("journal"), str):
        raise NotAJournal(f"{path} does not name a journal")
    if value.get("format") != FORMAT:
        raise NotAJournal(
            f"{path} says format {value.get('format')!r}; this software reads format {FORMAT}"
        )
    journal_id: str = value["journal"]
    return journal_id


def odd_file(root: Path) -> Path | None:
    """What lies in a journal's folder and is no regular file: a pipe, a device, a loose link.

    Whoever reads from a pipe or a device may wait for ever, so it is looked for before.
    """
    for folder, _, names in os.walk(root):
        for name in names:
            path = Path(folder, name)
            try:
                mode = path.stat().st_mode
            except OSError:
                # Compressed or taken away by its writer meanwhile, unless it is a loose link.
                if path.is_symlink():
                    return path
                continue
            if not stat.S_ISREG(mode):
                return path
    return None
