"""The file that the inventory is written to.

Here: which one, and appending to it. Not here: reading it (``agentops.config``).
"""

from collections.abc import Sequence
from pathlib import Path

from agentops.config import Settings
from agentops.config.settings import FILE_NAME
from agentops.hosts import Host, toml_entry


def place_of(settings: Settings) -> Path:
    """The project's file; without a project the user's own."""
    return settings.project or settings.places.config / FILE_NAME


def append(settings: Settings, hosts: Sequence[Host]) -> Path:
    """Write the hosts below what is there; gives the file."""
    path = place_of(settings)
    path.parent.mkdir(parents=True, exist_ok=True)
    before = [path.read_text(encoding="utf-8")] if path.exists() else []
    path.write_text("\n".join([*before, *map(toml_entry, hosts)]), encoding="utf-8")
    return path
