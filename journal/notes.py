"""Signed notes: the text form of a seal that any C2SP witness can read. Pure.

A note is some lines of text, an empty line, and signature lines. Source: c2sp.org/signed-note and
c2sp.org/tlog-checkpoint (origin, size, root, then extension lines). Parsing is strict: what does
not re-encode to the same bytes is refused, each fault with its own words. Not here: where keys live
(``journal.keys``), what a seal means (``journal.seals``).
"""

import base64
import hashlib
import re
from contextlib import suppress
from dataclasses import dataclass

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from journal.errors import KeyUnusable

_ED25519 = b"\x01"
_KEY_ID_BYTES = 4
_SIGNATURE_BYTES = 64
_SIGNATURE_LINE = re.compile("\u2014 ([^ +]+) ([A-Za-z0-9+/=]+)")
_KEY_NAME = re.compile(r"[!-*,-~]+")  # printable ASCII without space and plus


@dataclass(frozen=True, slots=True)
class PublicKey:
    """A verifying key with its name; ``line`` is how people pin it.

    Source: c2sp.org/signed-note, "Verifier keys".
    """

    name: str
    raw: bytes

    @property
    def key_id(self) -> bytes:
        """Four bytes that pick the key, not prove it."""
        digest = hashlib.sha256(self.name.encode() + b"\n" + _ED25519 + self.raw)
        return digest.digest()[:_KEY_ID_BYTES]

    @property
    def line(self) -> str:
        """``name+hash+base64``: one line to pin in ``agentops.toml``."""
        return f"{self.name}+{self.key_id.hex()}+{base64.b64encode(_ED25519 + self.raw).decode()}"

    @classmethod
    def parse(cls, line: str) -> "PublicKey":
        """Read a pinned line.

        Raises:
            KeyUnusable: It is not such a line.
        """
        parts = line.strip().split("+", 2)
        if len(parts) != 3 or not _KEY_NAME.fullmatch(parts[0]):  # noqa: PLR2004 - three fields
            raise KeyUnusable(f"{line[:80]!r} is not a key line (name+hash+base64)")
        try:
            blob = base64.b64decode(parts[2], validate=True)
        except ValueError as error:
            raise KeyUnusable(f"the key line of {parts[0]} is not base64") from error
        if len(blob) != 1 + 32 or blob[:1] != _ED25519:
            raise KeyUnusable(f"the key line of {parts[0]} holds no Ed25519 key")
        key = cls(parts[0], blob[1:])
        if key.key_id.hex() != parts[1]:
            raise KeyUnusable(f"the key line of {parts[0]} has hash {parts[1]}, not its own")
        return key


@dataclass(frozen=True, slots=True)
class SigningKey:
    """A private key with the name under which it signs."""

    name: str
    private: Ed25519PrivateKey

    @property
    def public(self) -> PublicKey:
        """The key that verifies what this one signs."""
        return PublicKey(self.name, self.private.public_key().public_bytes_raw())


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """What a note says of a tree: whose, how many leaves, which root (32 bytes), and more lines."""

    origin: str
    size: int
    root: bytes
    extensions: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The signed text, with its last line end."""
        root = base64.b64encode(self.root).decode()
        return "\n".join([self.origin, str(self.size), root, *self.extensions]) + "\n"


def sign(checkpoint: Checkpoint, *keys: SigningKey) -> str:
    """The note: text, empty line, one signature line per key."""
    text = checkpoint.text
    return text + "\n" + "".join(signature_line(text, key) for key in keys)


def signature_line(text: str, key: SigningKey) -> str:
    """One signature line over *text* with its line end."""
    blob = key.public.key_id + key.private.sign(text.encode())
    return f"\u2014 {key.name} {base64.b64encode(blob).decode()}\n"


def parse_note(note: str) -> Checkpoint | str:
    """The checkpoint that a note claims, or what is malformed. No signature is checked."""
    text, gap, _ = note.partition("\n\n")
    if not gap:
        return "the note has no empty line before its signatures"
    lines = text.split("\n")
    if len(lines) < 3:  # noqa: PLR2004 - origin, size, root
        return f"the note has {len(lines)} lines before its signatures, expected 3 or more"
    if not re.fullmatch(r"0|[1-9][0-9]{0,15}", lines[1]):
        return f"the note's size {lines[1][:20]!r} is not a number"
    try:
        root = base64.b64decode(lines[2], validate=True)
    except ValueError:
        return "the note's root is not base64"
    checkpoint = Checkpoint(lines[0], int(lines[1]), root, tuple(lines[3:]))
    if len(root) != hashlib.sha256().digest_size or checkpoint.text != text + "\n":
        return "the note's root is not 32 bytes in canonical base64"
    return checkpoint


def open_note(note: str, *trusted: PublicKey) -> Checkpoint | str:
    """The checkpoint, if one of the trusted keys signed this very text; else what is wrong."""
    checkpoint = parse_note(note)
    if isinstance(checkpoint, str):
        return checkpoint
    by = signers(note, *trusted)
    if isinstance(by, str):
        return by
    return checkpoint


def signers(note: str, *trusted: PublicKey) -> frozenset[str] | str:
    """Names of the trusted keys whose signature over the note's text is right; or what is wrong."""
    text, gap, signatures = note.partition("\n\n")
    if not gap or not signatures.endswith("\n"):
        return "the note has no signature line"
    by: set[str] = set()
    named: list[str] = []
    for line in signatures[:-1].split("\n"):
        match = _SIGNATURE_LINE.fullmatch(line)
        if match is None:
            return f"malformed signature line {line[:40]!r}"
        try:
            blob = base64.b64decode(match[2], validate=True)
        except ValueError:
            return f"the signature by {match[1]} is not base64"
        named.append(f"{match[1]}+{blob[:_KEY_ID_BYTES].hex()}")
        for key in trusted:
            if key.name == match[1] and key.key_id == blob[:_KEY_ID_BYTES]:
                if not _is_signature(key, blob[_KEY_ID_BYTES:], f"{text}\n".encode()):
                    return f"the signature by {key.name} does not fit the text"
                by.add(key.line)
    if not by:
        known = ", ".join(f"{key.name}+{key.key_id.hex()}" for key in trusted)
        return f"no trusted key signed it; it names {', '.join(named)[:200]}, trusted: {known}"
    return frozenset(by)


def signature_ids(note: str) -> frozenset[str]:
    """Who claims to have signed: name and key id (hex), joined by a plus. Nothing is checked."""
    found: set[str] = set()
    for line in note.partition("\n\n")[2].splitlines():
        match = _SIGNATURE_LINE.fullmatch(line)
        with suppress(ValueError):
            if match is not None:
                blob = base64.b64decode(match[2], validate=True)
                found.add(f"{match[1]}+{blob[:_KEY_ID_BYTES].hex()}")
    return frozenset(found)


def _is_signature(key: PublicKey, signature: bytes, text: bytes) -> bool:
    if len(signature) != _SIGNATURE_BYTES:
        return False
    try:
        Ed25519PublicKey.from_public_bytes(key.raw).verify(signature, text)
    except InvalidSignature:
        return False
    return True
