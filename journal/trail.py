"""Export to an Agent Audit Trail (draft-sharif-agent-audit-trail-04): a copy for foreign readers.

One JSON record per event, chained and signed anew with ES256, because that format has its own
chain; each record names the event's leaf, so that it can be traced back. The journal stays the
evidence.
Not here: judging such a trail (``aat-verify``).
"""

import base64
import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, utils

from journal.envelope import Event
from journal.errors import JournalExists, WriteFailed
from journal.events import JsonObject
from journal.lines import canonical, loads

_OUTCOMES: Mapping[str, str] = {
    "command_completed": "success",
    "command_failed": "failure",
    "command_denied": "denied",
    "command_not_sent": "failure",
    "command_outcome_unknown": "unknown",
}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class TrailSigner:
    """An ES256 key; its id is the RFC 7638 thumbprint of the public half."""

    private: ec.EllipticCurvePrivateKey

    @classmethod
    def new(cls) -> "TrailSigner":
        """A fresh key for one export."""
        return cls(ec.generate_private_key(ec.SECP256R1()))

    @property
    def key_id(self) -> str:
        """The thumbprint."""
        jwk = canonical({"crv": "P-256", "kty": "EC", **self._coordinates()})
        return _base64url(hashlib.sha256(jwk).digest())

    @property
    def keystore(self) -> JsonObject:
        """What a verifier needs: key id -> public key."""
        return {self.key_id: {"alg": "ES256", "jwk_x_y": {**self._coordinates()}}}

    def sign(self, digest: bytes) -> str:
        """Both numbers of the signature, 32 bytes each, in base64url."""
        der = self.private.sign(digest, ec.ECDSA(utils.Prehashed(hashes.SHA256())))
        r, s = utils.decode_dss_signature(der)
        return _base64url(r.to_bytes(32, "big") + s.to_bytes(32, "big"))

    def _coordinates(self) -> dict[str, str]:
        numbers = self.private.public_key().public_numbers()
        return {
            "x": _base64url(numbers.x.to_bytes(32, "big")),
            "y": _base64url(numbers.y.to_bytes(32, "big")),
        }


def trail(events: Iterable[Event], signer: TrailSigner) -> Iterator[bytes]:
    """The records as canonical JSON lines without line ends, in the events' order."""
    previous: str | None = None
    latest_us = 0
    for event in events:
        # The format wants time to go forward only; the true time stays in the event.
        latest_us = max(latest_us, event.ts_us)
        record = _record(event, latest_us)
        record["prev_hash"] = previous
        record["signer_kid"] = signer.key_id
        record["sig_alg"] = "ES256"
        record["signature"] = signer.sign(hashlib.sha256(canonical(record)).digest())
        line = canonical(record)
        previous = hashlib.sha256(line).hexdigest()
        yield line


def write_trail(events: Iterable[Event], folder: Path) -> int:
    """Make a folder with ``trail.jsonl`` and ``keystore.json``; gives the number of records.

    The key is drawn for this copy and forgotten: who holds the copy can see that it is whole, and
    has to ask the journal whether it is true.

    Raises:
        JournalExists: The folder exists.
        WriteFailed: The disk refused.
    """
    signer = TrailSigner.new()
    count = 0
    try:
        folder.mkdir(parents=True)
        with (folder / "trail.jsonl").open("wb") as file:
            for line in trail(events, signer):
                file.write(line + b"\n")
                count += 1
        (folder / "keystore.json").write_text(keystore_text(signer), encoding="utf-8")
    except FileExistsError as error:
        raise JournalExists(f"{folder} exists; choose another place for the trail") from error
    except OSError as error:
        raise WriteFailed(f"cannot write {folder}: {error.strerror}") from error
    return count


def _record(event: Event, time_us: int) -> JsonObject:
    actor = event.actor
    detail: JsonObject = {
        "data": loads(event.line)["data"],
        "event_leaf": event.leaf,
        "place": event.place,
    }
    if event.host is not None:
        detail["host"] = event.host.name
    record: JsonObject = {
        "record_id": event.id,
        "timestamp": (_EPOCH + timedelta(microseconds=time_us)).isoformat(timespec="microseconds"),
        "agent_id": f"{actor.kind}:{actor.id}",
        "session_id": event.stream,
        "action_type": event.kind,
        "action_detail": detail,
        "outcome": _OUTCOMES.get(event.kind, "recorded"),
    }
    if actor.model is not None:
        record["agent_version"] = actor.model
    if event.cause is not None:
        record["parent_record_id"] = event.cause
    return record


def keystore_text(signer: TrailSigner) -> str:
    """The key store file that belongs beside the trail."""
    return json.dumps(signer.keystore, indent=1, sort_keys=True) + "\n"


def _base64url(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
