"""Print who logged in, when the machine started, and which processes ended. Runs on hosts."""

from __future__ import annotations

import os
import platform
import re
import struct
import subprocess
import sys
import time

from agentops.commands.remote.identity import answer, boot_id, read_bytes, text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

ROWS_MAX = 1000
FILE_LIMIT = 8 << 20
WTMP = ("/var/log/wtmp",)
SSH_LOGS = ("/var/log/auth.log", "/var/log/secure")
ACCOUNTS = ("/var/log/account/pacct", "/var/account/pacct")
# Source: utmp(5). Where long has 64 bits and no 32-bit compatibility, times are longer.
SHORT_RECORD, LONG_RECORD = "=h2xi32s4s32s256shhiii16s20s", "=h2xi32s4s32s256shhqqq16s20s4x"
BOOT, LOGIN, ENDED, SHUTDOWN = 2, 7, 8, "shutdown"
# Source: acct(5), struct acct_v3; elapsed time counts hundredths of a second.
ACCOUNT = "=BBHIIIIIIf16x16s"
ACCOUNT_VERSION, ACCOUNT_HZ = 3, 100
ACCEPTED = re.compile(
    rb"sshd(?:-session)?\[(\d+)\]: Accepted (\S+) for (\S+) from (\S+) port (\d+)"
)
ISO = re.compile(
    rb"^(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)(?:\.(\d+))?(?:Z|([+-])(\d\d):?(\d\d))"
)
CLASSIC = re.compile(rb"^([A-Z][a-z]{2} +\d+ \d\d:\d\d:\d\d) ")
UNIX = re.compile(rb"^(\d{9,11})\.(\d{3})")
JOURNAL = ("journalctl", "--no-pager", "--quiet", "-o", "short-unix", "_COMM=sshd", "+",
           "_COMM=sshd-session")  # fmt: skip


def word(raw: bytes) -> str:
    """A field padded with zero bytes."""
    return text(raw.split(b"\0", 1)[0])


def row(kind: str, at_ms: int, more: dict[str, Any]) -> dict[str, Any]:
    """One thing that happened; what is not known of it is null."""
    made: dict[str, Any] = {
        "kind": kind, "at_unix_ms": at_ms, "ended_unix_ms": None, "pid": None, "uid": None,
        "user": None, "origin": None, "port": None, "name": None, "status": None,
    }  # fmt: skip
    made.update(more)
    return made


def wtmp_rows(raw: bytes, machine: str) -> Iterator[dict[str, Any]]:
    """Boots, shutdowns, log-ins and log-outs of a wtmp file."""
    form = LONG_RECORD if machine == "aarch64" else SHORT_RECORD
    for fields in struct.iter_unpack(form, raw[: len(raw) - len(raw) % struct.calcsize(form)]):
        kind, pid, line, _, user, origin = fields[0], fields[1], *map(word, fields[2:6])
        at_ms = fields[9] * 1000 + fields[10] // 1000
        if kind == BOOT:
            yield row("boot", at_ms, {"name": origin})
        elif user == SHUTDOWN:
            yield row("shutdown", at_ms, {"name": origin})
        elif kind == LOGIN:
            more = {"pid": pid, "user": user, "origin": origin, "name": line}
            yield row("login", at_ms, more)
        elif kind == ENDED and line:
            yield row("logout", at_ms, {"pid": pid, "name": line})


def account_rows(raw: bytes) -> Iterator[dict[str, Any]]:
    """Ended processes of a process accounting file."""
    size = struct.calcsize(ACCOUNT)
    for fields in struct.iter_unpack(ACCOUNT, raw[: len(raw) - len(raw) % size]):
        _, version, _, status, uid, _, pid, _, began, lasted, name = fields
        if version & 0x0F != ACCOUNT_VERSION:
            continue
        end_ms = began * 1000 + int(lasted * 1000 / ACCOUNT_HZ)
        more = {"ended_unix_ms": end_ms, "pid": pid, "uid": uid, "name": word(name)}
        yield row("process", began * 1000, {**more, "status": status})


def stamp_ms(line: bytes, now: float) -> int | None:
    """When a log line was written, by the three forms of stamp that there are."""
    unix = UNIX.match(line)
    if unix:
        return int(unix[1]) * 1000 + int(unix[2])
    iso = ISO.match(line)
    if iso:
        import calendar  # noqa: PLC0415  (a start-up cost that most answers need not pay)

        seconds = calendar.timegm((*(int(part) for part in iso.groups()[:6]), 0, 0, 0))
        if iso[8]:
            away = int(iso[9]) * 3600 + int(iso[10]) * 60
            seconds -= away if iso[8] == b"+" else -away
        return seconds * 1000 + int((iso[7] or b"0").ljust(3, b"0")[:3])
    classic = CLASSIC.match(line)
    if classic is None:
        return None
    year = time.localtime(now).tm_year
    for guess in (year, year - 1):  # the stamp names no year: the latest that is past
        try:
            parsed = time.strptime("%d %s" % (guess, text(classic[1])), "%Y %b %d %H:%M:%S")
        except ValueError:
            continue
        at = time.mktime(parsed)
        if at <= now + 86400:
            return int(at * 1000)
    return None


def ssh_rows(raw: bytes, now: float) -> Iterator[dict[str, Any]]:
    """Accepted log-ins of an sshd log."""
    for line in raw.split(b"\n"):
        found = ACCEPTED.search(line)
        at_ms = None if found is None else stamp_ms(line, now)
        if found is not None and at_ms is not None:
            pid, how, user, origin, port = found.groups()
            more = {"pid": int(pid), "user": text(user), "origin": text(origin)}
            yield row("ssh", at_ms, {**more, "port": int(port), "name": text(how)})


def first_readable(paths: tuple[str, ...]) -> tuple[bytes | None, str]:
    """The end of the first file that can be read, and whether one was read, denied or absent."""
    state = "absent"
    for path in paths:
        if not os.path.exists(path):
            continue
        try:
            with open(path, "rb") as stream:
                size = os.fstat(stream.fileno()).st_size
                stream.seek(max(0, size - FILE_LIMIT))
                return stream.read(FILE_LIMIT), "read"
        except OSError:
            state = "denied"
    return None, state


def ssh_log(since: float) -> tuple[bytes | None, str]:
    """The sshd log from a file, else from the system's journal."""
    raw, state = first_readable(SSH_LOGS)
    if raw is not None:
        return raw, state
    try:
        asked = subprocess.run(
            [*JOURNAL, "--since", "@%d" % since], stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=10, check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return None, state
    if asked.returncode != 0 or not asked.stdout:
        return None, state
    return asked.stdout, "read"


def own_connection() -> list[Any]:
    """Address and port that this command's own connection comes from; nulls inside a container."""
    parts = os.environ.get("SSH_CONNECTION", "").split()
    return [parts[0], int(parts[1])] if len(parts) == 4 and parts[1].isdigit() else [None, None]  # noqa: PLR2004


def main() -> None:
    """What was read, then the rows since the moment asked for, the latest ones."""
    since_ms, now = int(sys.argv[1]), time.time()
    wtmp, wtmp_state = first_readable(WTMP)
    log, log_state = ssh_log(since_ms / 1000)
    account, account_state = first_readable(ACCOUNTS)
    rows = list(wtmp_rows(wtmp or b"", platform.machine()))
    oldest = min((found["at_unix_ms"] for found in rows), default=None)
    rows += ssh_rows(log or b"", now)
    rows += account_rows(account or b"")
    fresh = [r for r in rows if max(r["at_unix_ms"], r["ended_unix_ms"] or 0) >= since_ms]
    fresh.sort(key=lambda found: found["at_unix_ms"])
    uptime = (read_bytes("/proc/uptime") or b"0").split()[0]
    address, port = own_connection()
    head: dict[str, Any] = {
        "boot_id": boot_id(),
        "now_unix_ms": int(now * 1000),
        "booted_unix_ms": int((now - float(uptime)) * 1000),
        "wtmp": wtmp_state,
        "wtmp_first_unix_ms": oldest,
        "ssh_log": log_state,
        "accounting": account_state,
        "own_address": address,
        "own_port": port,
        "rows": len(fresh),
    }
    answer(head, *fresh[-ROWS_MAX:])


if __name__ == "__main__":
    main()
