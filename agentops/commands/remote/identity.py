"""What makes a process that process, read from /proc. Runs on hosts: standard library, 3.9."""

from __future__ import annotations

import os
import sys

try:
    # The json module itself costs more start-up time than most answers take.
    from _json import encode_basestring_ascii as quoted
except ImportError:
    from json.encoder import py_encode_basestring_ascii as quoted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

PF_KTHREAD = 0x00200000


def encoded(value: object) -> str:
    """A value of plain types as JSON."""
    if isinstance(value, str):
        return quoted(value)
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, int):
        return str(value)
    if isinstance(value, dict):
        return "{" + ",".join(quoted(k) + ":" + encoded(v) for k, v in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ",".join(encoded(item) for item in value) + "]"
    raise TypeError(type(value))


def answer(*rows: dict[str, Any]) -> None:
    """Print the rows and the line that proves that all of them are there."""
    for row in rows:
        sys.stdout.write(encoded(row) + "\n")
    sys.stdout.write(encoded({"done": len(rows)}) + "\n")
    sys.stdout.flush()


def read_bytes(path: str, limit: int = 1 << 20) -> bytes | None:
    """At most *limit* bytes of a file; None if it cannot be read."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        parts = []
        while limit > 0:
            part = os.read(descriptor, min(limit, 1 << 16))
            if not part:
                break
            parts.append(part)
            limit -= len(part)
        return b"".join(parts)
    except OSError:
        return None
    finally:
        os.close(descriptor)


def text(raw: bytes | None) -> str:
    """Bytes as text; what is no UTF-8 goes through as lone surrogates, byte for byte."""
    return (raw or b"").decode("utf-8", "surrogateescape")


def stat_fields(pid: int | str) -> list[bytes] | None:
    """Fields of /proc/PID/stat from the state on (field 3 is index 0); None if it is gone."""
    raw = read_bytes("/proc/%s/stat" % pid)
    return None if not raw else raw[raw.rindex(b")") + 2 :].split()


def start_ticks(pid: int | str) -> int:
    """Start of a process in clock ticks since boot; 0 if it is gone or hidden."""
    fields = stat_fields(pid)
    return 0 if fields is None else int(fields[19])


def boot_id() -> str:
    """This boot's id. Source: random(4)."""
    return (read_bytes("/proc/sys/kernel/random/boot_id") or b"").decode().strip()


def pid_namespace() -> int:
    """Inode of the PID namespace that this script runs in."""
    return os.stat("/proc/self/ns/pid").st_ino


def here() -> dict[str, object]:
    """Boot and namespace, the part that all identities of this place share."""
    return {
        "boot_id": boot_id(),
        "pid_namespace": pid_namespace(),
        "namespace_init_start_ticks": start_ticks(1),
    }


def own_chain() -> list[int]:
    """This process and its ancestors, as far as they can be seen from here."""
    chain = []
    pid = os.getpid()
    while pid > 0 and pid not in chain:
        chain.append(pid)
        fields = stat_fields(pid)
        if fields is None:
            break
        pid = int(fields[1])
    return chain
