"""Files that are whole or absent: write beside, flush to disk, rename.

After any crash a reader sees the old content or the new, never a part. Source: rename(2), fsync(2);
the directory is flushed as well, or the rename itself could be lost.
"""

import hashlib
import json
import os
from pathlib import Path

from trainer.reading import Json

_READ_BYTES = 1 << 20


def write_whole(path: Path, content: bytes) -> None:
    """Replace ``path`` by ``content`` at once; the old file stays when this raises.

    Raises:
        OSError: the disk is full, the directory is missing, and so on. Nothing is left behind.
    """
    beside = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with beside.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    except OSError:
        beside.unlink(missing_ok=True)
        raise
    flush_directory(path.parent)


def flush_directory(path: Path) -> None:
    """Make renames and new names in ``path`` durable."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def flush_file(path: Path) -> None:
    """Make what another writer put into ``path`` durable."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sha256_of(path: Path) -> str:
    """The file's SHA-256, in lower-case hex, read in bounded memory."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(_READ_BYTES):
            digest.update(block)
    return digest.hexdigest()


def canonical(value: Json) -> bytes:
    """The one JSON form whose digest is compared: sorted keys, no spaces, ASCII.

    >>> canonical({"b": 1, "a": [None, "x"]})
    b'{"a":[null,"x"],"b":1}'
    """
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()
