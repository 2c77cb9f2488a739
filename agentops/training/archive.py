"""The trainer as shipped: its files, and one digest over all of them.

The same source gives the same digest: names sorted, times and owners left out. Here: what is
shipped. Not here: how it reaches a host (``agentops.commands.deploy``).
"""

import hashlib
import importlib.util
import io
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from agentops.errors import ConfigError


@dataclass(frozen=True, slots=True)
class TrainerArchive:
    """Files by their path below the import root, such as ``trainer/loss.py``."""

    files: Mapping[str, bytes]

    def tar(self) -> bytes:
        """All files in one deterministic tar, for carrying by hand."""
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w", format=tarfile.USTAR_FORMAT) as tar:
            for name, content in sorted(self.files.items()):
                entry = tarfile.TarInfo(name)
                entry.size = len(content)
                entry.mode = 0o644
                tar.addfile(entry, io.BytesIO(content))
        return buffer.getvalue()

    @property
    def sha256(self) -> str:
        """Digest of the tar, in hex: the trainer's version, as journals name it."""
        return hashlib.sha256(self.tar()).hexdigest()


def trainer_archive() -> TrainerArchive:
    """The installed ``trainer`` package, read without importing it.

    Raises:
        ConfigError: no ``trainer`` package is installed beside this one.
    """
    found = importlib.util.find_spec("trainer")
    if found is None or found.origin is None:
        raise ConfigError("package trainer: not installed; install agentops-journal whole")
    folder = Path(found.origin).parent
    sources = (path for path in folder.rglob("*.py") if "__pycache__" not in path.parts)
    return TrainerArchive(
        {f"trainer/{path.relative_to(folder).as_posix()}": path.read_bytes() for path in sources}
    )
