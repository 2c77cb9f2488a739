"""The trainer as shipped: one deterministic tar whose digest is journalled.

The same source gives the same bytes: names sorted, times zero, modes and owners fixed. Here: how
the archive is made. Not here: how it reaches a host (``agentops.commands.deploy``).
"""

import hashlib
import importlib.util
import io
import tarfile
from dataclasses import dataclass
from pathlib import Path

from agentops.errors import ConfigError


@dataclass(frozen=True, slots=True)
class TrainerArchive:
    """The tar's bytes, its SHA-256 in hex, and how many files are in it."""

    content: bytes
    sha256: str
    files: int


def trainer_archive() -> TrainerArchive:
    """Pack the installed ``trainer`` package, without importing it.

    Raises:
        ConfigError: no ``trainer`` package is installed beside this one.
    """
    found = importlib.util.find_spec("trainer")
    if found is None or found.origin is None:
        raise ConfigError("package trainer: not installed; install agentops-journal whole")
    folder = Path(found.origin).parent
    sources = sorted(path for path in folder.rglob("*.py") if "__pycache__" not in path.parts)
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for path in sources:
            content = path.read_bytes()
            entry = tarfile.TarInfo(f"trainer/{path.relative_to(folder).as_posix()}")
            entry.size = len(content)
            entry.mode = 0o644
            tar.addfile(entry, io.BytesIO(content))
    packed = buffer.getvalue()
    return TrainerArchive(packed, hashlib.sha256(packed).hexdigest(), len(sources))
