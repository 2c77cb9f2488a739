"""The journals that this user made: their public keys and where their anchors are.

It lets ``verify PATH`` work on a journal, and on a copy of it elsewhere, without ``--key``, while
no key found inside a journal is ever trusted.
"""

import contextlib
import fcntl
import json
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from agentops.errors import ConfigError


@dataclass(frozen=True, slots=True)
class KnownJournal:
    """One journal by its origin: the line of its public key, and its anchor file."""

    origin: str
    key: str
    anchor: str | None


@dataclass(frozen=True, slots=True)
class KnownJournals:
    """The file that lists them, one JSON object by origin; writers take turns."""

    path: Path

    def find(self, origin: str) -> KnownJournal | None:
        """The journal of that origin, if this user made it."""
        return self._read().get(origin)

    def remember(self, journal: KnownJournal) -> None:
        """Add or replace one journal."""
        self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with self._turn():
            known = self._read() | {journal.origin: journal}
            text = json.dumps(
                {origin: asdict(each) for origin, each in sorted(known.items())}, indent=1
            )
            fresh = self.path.with_suffix(f".{os.getpid()}.new")
            fresh.write_text(text + "\n", encoding="utf-8")
            fresh.replace(self.path)

    def _read(self) -> dict[str, KnownJournal]:
        try:
            loaded = json.loads(self.path.read_text(encoding="utf-8"))
            return {origin: KnownJournal(**fields) for origin, fields in loaded.items()}
        except FileNotFoundError:
            return {}
        except (ValueError, TypeError, AttributeError) as error:
            raise ConfigError(
                f"{self.path}: not a list of known journals ({error}); move the file aside"
            ) from error

    @contextlib.contextmanager
    def _turn(self) -> Iterator[None]:
        with self.path.with_suffix(".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
