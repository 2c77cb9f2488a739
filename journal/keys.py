"""The key store in the user's configuration folder: signing keys, and which journal trusts which.

    keys/
    ├── <name>.key       32-byte Ed25519 seed in hex, mode 0600
    ├── current          name of the key that signs
    └── journals.json    journal id -> pinned public lines, places of anchors, and of dropped ones

Nothing in here is ever written into a journal but the key's id, and no key found inside a journal
or bundle is trusted. Not here: signing (``journal.notes``).
"""

import json
import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from journal.disk import make_folder, write_whole
from journal.errors import KeyUnusable, WriteFailed
from journal.locks import locked
from journal.machine import RandomSource
from journal.notes import PublicKey, SigningKey

_SEED_BYTES = 32


@dataclass(frozen=True, slots=True)
class Pinned:
    """What the user's configuration says of one journal: whom to trust, where anchors lie.

    dropped are the places that seals are no longer sent to; what they hold is still evidence.
    """

    keys: tuple[PublicKey, ...] = ()
    anchors: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()

    @property
    def places(self) -> tuple[str, ...]:
        """All that may hold evidence."""
        return (*self.anchors, *self.dropped)


@dataclass(frozen=True, slots=True)
class KeyStore:
    """A folder of keys. random is only asked when a key is made."""

    folder: Path
    random: RandomSource = os.urandom

    def signing_key(self) -> SigningKey:
        """The key that signs now; made on first use.

        Raises:
            KeyUnusable: The file is unreadable, malformed or readable by others.
        """
        current = self.folder / "current"
        if not current.exists():
            # Two first uses at once must end with one key: what one pins, the other signs with.
            self._make_folder()
            with locked(self.folder / "journals.lock"):
                if not current.exists():
                    return self.make_key()
        return self.read_key(current.read_text().strip())

    def key_for(self, journal_id: str) -> SigningKey:
        """The newest of the journal's own keys that is here; the current one where none is.

        A key that was rotated in one journal signs no other.

        Raises:
            KeyUnusable: The file is unreadable, malformed or readable by others.
        """
        for public in reversed(self.pinned(journal_id).keys):
            if (self.folder / f"{public.name}.key").exists():
                own = self.read_key(public.name)
                if own.public == public:
                    return own
        return self.signing_key()

    def make_key(self) -> SigningKey:
        """Draw a new key and let it sign from now on.

        Raises:
            KeyUnusable: The folder cannot be written.
        """
        seed = self.random(_SEED_BYTES)
        name = f"agentops-{self.random(4).hex()}"
        self._make_folder()
        try:
            write_whole(self.folder / f"{name}.key", seed.hex().encode() + b"\n")
            write_whole(self.folder / "current", name.encode() + b"\n")
        except (OSError, WriteFailed) as error:
            raise KeyUnusable(f"cannot make a key in {self.folder}: {error}") from error
        return SigningKey(name, Ed25519PrivateKey.from_private_bytes(seed))

    def read_key(self, name: str) -> SigningKey:
        """A key by its name.

        Raises:
            KeyUnusable: The file is missing, malformed or readable by others.
        """
        path = self.folder / f"{name}.key"
        try:
            if stat.S_IMODE(path.stat().st_mode) & 0o077:
                raise KeyUnusable(f"{path} can be read by others; run: chmod 600 {path}")
            seed = bytes.fromhex(path.read_text().strip())
            return SigningKey(name, Ed25519PrivateKey.from_private_bytes(seed))
        except OSError as error:
            raise KeyUnusable(f"cannot read the signing key {path}: {error.strerror}") from error
        except ValueError as error:
            raise KeyUnusable(f"{path} holds no 32-byte seed in hex") from error

    def pinned(self, journal_id: str) -> Pinned:
        """What is recorded for a journal; empty when it is unknown here.

        Raises:
            KeyUnusable: The file is unreadable or malformed.
        """
        entry = self._journals().get(journal_id)
        if entry is None:
            return Pinned()
        lines, places = _texts(entry, "keys"), _texts(entry, "anchors")
        dropped = _texts(entry, "dropped")
        if lines is None or places is None or dropped is None:
            raise KeyUnusable(
                f"{self.folder / 'journals.json'}: the entry of journal {journal_id} is malformed;"
                ' it is {"keys": [LINE, ...], "anchors": [PLACE, ...]}'
            )
        return Pinned(tuple(PublicKey.parse(line) for line in lines), places, dropped)

    def pin(self, journal_id: str, *, key: PublicKey, anchor: str | None) -> None:
        """Remember that this journal is signed with the key and anchored at the place.

        Raises:
            KeyUnusable: The folder cannot be written.
        """
        self._make_folder()
        with locked(self.folder / "journals.lock"):
            old = self.pinned(journal_id)
            keys = tuple(dict.fromkeys([*old.keys, key]))
            anchors = tuple(dict.fromkeys([*old.anchors, *([] if anchor is None else [anchor])]))
            dropped = tuple(place for place in old.dropped if place != anchor)
            self._remember(journal_id, old, Pinned(keys, anchors, dropped))

    def drop(self, journal_id: str, anchor: str) -> None:
        """Remember that this journal's seals are no longer sent to the place.

        Raises:
            KeyUnusable: The folder cannot be written.
        """
        with locked(self.folder / "journals.lock"):
            old = self.pinned(journal_id)
            anchors = tuple(place for place in old.anchors if place != anchor)
            dropped = tuple(dict.fromkeys([*old.dropped, anchor]))
            self._remember(journal_id, old, Pinned(old.keys, anchors, dropped))

    def _remember(self, journal_id: str, old: Pinned, new: Pinned) -> None:
        if new == old:
            return
        entry = {"keys": [key.line for key in new.keys], "anchors": list(new.anchors)}
        if new.dropped:
            entry["dropped"] = list(new.dropped)
        text = json.dumps(self._journals() | {journal_id: entry}, indent=1, sort_keys=True)
        write_whole(self.folder / "journals.json", text.encode() + b"\n")

    def _make_folder(self) -> None:
        try:
            make_folder(self.folder)
        except OSError as error:
            raise KeyUnusable(f"cannot make {self.folder}: {error.strerror}") from error

    def _journals(self) -> dict[str, dict[str, list[str]]]:
        path = self.folder / "journals.json"
        if not path.exists():
            return {}
        try:
            value = json.loads(path.read_bytes())
        except (OSError, ValueError) as error:
            raise KeyUnusable(f"cannot read {path}: {error}") from error
        if not isinstance(value, dict):
            raise KeyUnusable(f"{path} is not a table of journals")
        return value


def _texts(entry: object, name: str) -> tuple[str, ...] | None:
    """The list of texts under a name, empty where it is absent; None if it is something else."""
    given = entry.get(name, []) if isinstance(entry, Mapping) else None
    if not isinstance(given, list) or not all(isinstance(each, str) for each in given):
        return None
    return tuple(given)
