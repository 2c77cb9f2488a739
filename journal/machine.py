"""Who this machine and this process are, as far as a journal must say it, and where ids come from.

Here: boot id, machine name, ULIDs. Not here: anything about remote hosts.
"""

import hashlib
import os
import platform
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

RandomSource = Callable[[int], bytes]
"""Gives this many bytes nobody can foresee; ``os.urandom`` outside tests."""

_CROCKFORD = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_PAIRS = tuple(first + second for first in _CROCKFORD for second in _CROCKFORD)  # ten bits each
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_MACHINE_ID = Path("/etc/machine-id")


@dataclass(frozen=True, slots=True)
class Machine:
    """The controller's side of a session: where and as whom the journal's writer runs.

    name is the node name and a short digest of the machine id, so that a journal carried to
    another machine of the same name can be told apart.
    """

    name: str
    boot_id: str
    platform: str
    python: str
    software: str
    pid: int
    uid: int


def this_machine() -> Machine:
    """Read it from the running system."""
    node = os.uname()
    return Machine(
        name=f"{node.nodename}/{_machine_digest(node.nodename)}",
        boot_id=_boot_id(),
        platform=f"{node.sysname} {node.release} {node.machine}",
        python=platform.python_version(),
        software=_software_version(),
        pid=os.getpid(),
        uid=os.getuid(),
    )


def ulid(wall_us: int, random: RandomSource) -> str:
    """A 26-letter id that sorts by its millisecond. Source: github.com/ulid/spec.

    >>> ulid(1_469_918_176_385_000, lambda count: bytes(count))
    '01ARYZ6S410000000000000000'
    """
    chance, pairs = int.from_bytes(random(10), "big"), _PAIRS
    return (
        f"{_time_letters(wall_us // 1_000)}{pairs[chance >> 70]}{pairs[chance >> 60 & 1023]}"
        f"{pairs[chance >> 50 & 1023]}{pairs[chance >> 40 & 1023]}{pairs[chance >> 30 & 1023]}"
        f"{pairs[chance >> 20 & 1023]}{pairs[chance >> 10 & 1023]}{pairs[chance & 1023]}"
    )


@lru_cache(maxsize=2)
def _time_letters(time_ms: int) -> str:
    pairs = _PAIRS
    return (
        f"{pairs[time_ms >> 40 & 1023]}{pairs[time_ms >> 30 & 1023]}{pairs[time_ms >> 20 & 1023]}"
        f"{pairs[time_ms >> 10 & 1023]}{pairs[time_ms & 1023]}"
    )


def _machine_digest(fallback: str) -> str:
    try:
        identity = _MACHINE_ID.read_text().strip()
    except OSError:  # macOS, or a minimal container
        identity = fallback
    # Keyed, because machine-id(5) asks not to expose the bare value.
    return hashlib.sha256(f"agentops journal {identity}".encode()).hexdigest()[:12]


def _boot_id() -> str:
    try:
        return _BOOT_ID.read_text().strip()
    except OSError:
        answer = subprocess.run(
            ["sysctl", "-n", "kern.bootsessionuuid"], capture_output=True, text=True, check=False
        )
        return answer.stdout.strip().lower() or "unknown"


def _software_version() -> str:
    try:
        return version("agentops-journal")
    except PackageNotFoundError:
        return "uninstalled"
