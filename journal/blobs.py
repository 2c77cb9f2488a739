"""Output bytes beside the log: packs of compressed blobs, each with the salt of its commitment.

The line holds only the commitment, HMAC-SHA256(salt, bytes): an output can be destroyed later
(``shred``) and the chain still holds, and a short output such as "0, 0 MiB" cannot be guessed
back. Blobs above 1 MiB get a file of their own. Not here: what an output is
(``journal.capture``), who may destroy it (``journal.writer``).

Layout of a blob: ``AOB1``, 4 bytes length of the zstd frame (big-endian), 32 bytes salt, the frame.
"""

import hmac
import os
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self, TypeVar

import zstandard

from journal.capture import Capture
from journal.disk import AppendFile, Disk, make_folder
from journal.envelope import OutputRef
from journal.errors import WriteFailed
from journal.machine import RandomSource

MAGIC = b"AOB1"
SALT_BYTES = 32
HEADER_BYTES = len(MAGIC) + 4 + SALT_BYTES
OWN_FILE_BYTES = 1 << 20
PACK_BYTES = 64 << 20
_FILE_BYTES_MAX = 1 << 60
OUTPUT_BYTES_MAX = 1 << 30  # no frame may ask a reader for more memory than this
_LEVEL = 3
Key = TypeVar("Key")


@dataclass(frozen=True, slots=True)
class Output:
    """One output's kept bytes on their way to the pack; length_bytes is what the command wrote."""

    kept: bytes
    length_bytes: int
    truncated: bool

    @classmethod
    def of(cls, given: bytes | Capture) -> "Output":
        """From plain bytes or a capture."""
        if isinstance(given, Capture):
            return cls(given.content(), given.length_bytes, given.truncated)
        return cls(bytes(given), len(given), truncated=False)


class BlobFault(Exception):  # noqa: N818 - a value for the verifier, raised and caught inside
    """A blob cannot be read; reason is MISSING, SHREDDED or CORRUPT with what is wrong."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason = reason


class BlobWriter:
    """The packs of one stream, appended to by its writer."""

    def __init__(self, folder: Path, disk: Disk, random: RandomSource) -> None:
        self._folder = folder
        self._disk = disk
        self._random = random
        self._lock = threading.Lock()
        self._compressor = zstandard.ZstdCompressor(level=_LEVEL)
        self._pack: AppendFile | None = None

    def store(self, outputs: Mapping[Key, Output]) -> dict[Key, OutputRef]:
        """Put the outputs on stable storage; gives what the line must say about each.

        Raises:
            WriteFailed: The disk refused; what was written is unreferenced and harmless.
        """
        if not outputs:
            return {}
        references: dict[Key, OutputRef] = {}
        with self._lock:
            for name, output in outputs.items():
                salt = self._random(SALT_BYTES)
                frame = self._compressor.compress(output.kept)
                record = MAGIC + len(frame).to_bytes(4, "big") + salt + frame
                file, offset = self._put(record)
                references[name] = OutputRef(
                    commitment=commitment(salt, output.kept),
                    length_bytes=output.length_bytes,
                    stored_bytes=len(output.kept),
                    truncated=output.truncated,
                    file=file,
                    offset=offset,
                    size_bytes=len(record),
                )
            pack = self._pack
            upto = 0 if pack is None else pack.size
        if pack is not None:
            pack.wait_durable(upto)
        return references

    def close(self) -> None:
        """Let go of the pack."""
        with self._lock:
            if self._pack is not None:
                self._pack.close()
                self._pack = None

    def _put(self, record: bytes) -> tuple[str, int]:
        if len(record) > OWN_FILE_BYTES:
            name = f"{self._random(8).hex()}.blob"
            make_folder(self._folder)
            own = AppendFile(self._folder / name, self._disk, room=0)
            try:
                own.write(record)
                own.wait_durable(own.size)
            finally:
                own.close()
            return name, 0
        pack = self._open_pack(len(record))
        return pack.path.name, pack.write(record)

    def _open_pack(self, room: int) -> AppendFile:
        pack = self._pack
        if pack is not None and (pack.failed is not None or pack.size + room > PACK_BYTES):
            pack.close()
            self._pack = pack = None
        if pack is None:
            make_folder(self._folder)
            pack = AppendFile(self._folder / self._next_name(room), self._disk)
            self._pack = pack
        return pack

    def _next_name(self, room: int) -> str:
        packs = sorted(self._folder.glob("*.pack"))
        if not packs:
            return "000000.pack"
        # A torn blob at the end of the last pack is unreferenced; going on after it is safe.
        if packs[-1].stat().st_size + room <= PACK_BYTES:
            return packs[-1].name
        return f"{int(packs[-1].stem) + 1:06d}.pack"


def commitment(salt: bytes, kept: bytes) -> str:
    """What a line says about an output, in hex."""
    return hmac.digest(salt, kept, "sha256").hex()


class BlobReader:
    """One stream's blob folder, for reading many: a pack is opened once and kept open."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._packs: dict[str, int] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        while self._packs:
            os.close(self._packs.popitem()[1])

    def read(self, reference: OutputRef) -> bytes:
        """The kept bytes, checked against the commitment.

        Raises:
            BlobFault: MISSING, SHREDDED (only zeros are left) or CORRUPT.
        """
        record = self.record(reference)
        if not record.strip(b"\x00"):
            raise BlobFault("SHREDDED", f"{reference.file}@{reference.offset} holds only zeros")
        return open_record(record, reference)

    def record(self, reference: OutputRef) -> bytes:
        """The blob as stored: header, salt and frame.

        Raises:
            BlobFault: MISSING.
        """
        name, size = reference.file, max(reference.size_bytes, 0)
        if "/" in name or name.startswith(".") or not 0 <= reference.offset < _FILE_BYTES_MAX:
            raise BlobFault("CORRUPT", f"{name!r} is not a name of a blob file")
        try:
            descriptor = self._packs.get(name, -1)
            if descriptor < 0:
                descriptor = os.open(self._folder / name, os.O_RDONLY | os.O_CLOEXEC)
                self._packs[name] = descriptor
            # Never more than there is: a line may claim any size.
            size = min(size, os.fstat(descriptor).st_size)
            record = os.pread(descriptor, size, reference.offset)
        except OSError as error:
            raise BlobFault("MISSING", f"{self._folder / name}: {error.strerror}") from error
        finally:
            if not name.endswith(".pack") and name in self._packs:
                os.close(self._packs.pop(name))
        if len(record) < reference.size_bytes or len(record) < HEADER_BYTES:
            raise BlobFault("MISSING", f"{self._folder / name} ends before the blob does")
        return record


def read_blob(folder: Path, reference: OutputRef) -> bytes:
    """One blob's kept bytes; see ``BlobReader.read``."""
    with BlobReader(folder) as reader:
        return reader.read(reference)


def read_record(folder: Path, reference: OutputRef) -> bytes:
    """One blob as stored; see ``BlobReader.record``."""
    with BlobReader(folder) as reader:
        return reader.record(reference)


def open_record(record: bytes, reference: OutputRef) -> bytes:
    """Unpack a stored blob and check it against the commitment.

    Raises:
        BlobFault: CORRUPT.
    """
    place = f"{reference.file}@{reference.offset}"
    if record[:4] != MAGIC or int.from_bytes(record[4:8], "big") != len(record) - HEADER_BYTES:
        raise BlobFault("CORRUPT", f"{place} has no blob header")
    salt, frame = record[8:HEADER_BYTES], record[HEADER_BYTES:]
    if not 0 <= reference.stored_bytes <= OUTPUT_BYTES_MAX:
        raise BlobFault("CORRUPT", f"{place} claims {reference.stored_bytes} bytes")
    try:
        claimed = zstandard.frame_content_size(frame)
        if claimed != reference.stored_bytes:
            raise BlobFault("CORRUPT", f"{place} unpacks to {claimed} bytes")
        kept = zstandard.ZstdDecompressor().decompress(
            frame, max_output_size=max(reference.stored_bytes, 1), allow_extra_data=False
        )
    except zstandard.ZstdError as error:
        raise BlobFault("CORRUPT", f"{place}: {error}") from error
    if not hmac.compare_digest(commitment(salt, kept), reference.commitment):
        raise BlobFault("CORRUPT", f"{place} does not match its commitment")
    return kept


def shred(folder: Path, reference: OutputRef) -> None:
    """Overwrite blob and salt with zeros, durably. The chain holds; the bytes are gone.

    Copies elsewhere (backups, a file system's old blocks) are beyond its reach.

    Raises:
        WriteFailed: The disk refused.
        BlobFault: MISSING.
    """
    record = read_record(folder, reference)
    try:
        descriptor = os.open(folder / reference.file, os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.pwrite(descriptor, bytes(len(record)), reference.offset)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise WriteFailed(f"cannot overwrite {reference.file}: {error.strerror}") from error
