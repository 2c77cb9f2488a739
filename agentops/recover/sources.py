"""The files that repairs deploy: read once, at the start, and held to their digests.

Here: reading them and completing the configuration with what was read, so that the journal's copy
of the configuration says which bytes were meant. Not here: putting them anywhere.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from agentops.errors import ConfigError
from agentops.policy import PolicyConfig
from agentops.policy.config import File, Job, Repair


@dataclass(frozen=True, slots=True)
class Sources:
    """Contents by SHA-256, in hex."""

    contents: Mapping[str, bytes]

    def of(self, sha256: str) -> bytes | None:
        """The bytes with this digest, or None where they were not read."""
        return self.contents.get(sha256)


def read_sources(config: PolicyConfig, folder: Path) -> tuple[PolicyConfig, Sources]:
    """The configuration with every file's digest, and the bytes; sources are relative to *folder*.

    Raises:
        ConfigError: a source cannot be read, or is not what the policy file says it is.
    """
    contents: dict[str, bytes] = {}
    jobs: dict[str, Job] = {}
    for name, job in config.job.items():
        repairs: list[Repair] = []
        for repair in job.repair:
            files = tuple(
                _read(file, folder, f"job.{name}.repair", contents) for file in repair.files
            )
            repairs.append(repair.model_copy(update={"files": files}))
        jobs[name] = job.model_copy(update={"repair": tuple(repairs)})
    return config.model_copy(update={"job": jobs}), Sources(contents)


def _read(file: File, folder: Path, key: str, contents: dict[str, bytes]) -> File:
    place = folder / file.source
    try:
        content = place.read_bytes()
    except OSError as error:
        raise ConfigError(
            f"{key}: source {str(place)!r} cannot be read ({error.strerror}); correct the path"
        ) from error
    found = hashlib.sha256(content).hexdigest()
    if file.sha256 not in {"", found}:
        raise ConfigError(
            f"{key}: source {str(place)!r} has SHA-256 {found}, the policy file says "
            f"{file.sha256}; correct one of them"
        )
    contents[found] = content
    return file.model_copy(update={"sha256": found})
