"""A host's own logs, byte by byte: wtmp, process accounting, sshd's lines."""

import struct
import time

import pytest

from agentops.commands.remote import host_history as script


def wtmp(kind: int, pid: int, line: str, user: str, origin: str, at: int) -> bytes:
    """One record as glibc writes it on x86-64."""
    names = (line.encode(), b"", user.encode(), origin.encode())
    return struct.pack(script.SHORT_RECORD, kind, pid, *names, 0, 0, 0, at, 250_000, b"", b"")


def test_starts_logins_and_logouts_are_told_apart() -> None:
    raw = b"".join(
        (
            wtmp(2, 0, "~", "reboot", "6.1.0-18", 100),
            wtmp(7, 551, "pts/1", "root", "10.0.0.7", 200),
            wtmp(8, 551, "pts/1", "", "", 300),
            wtmp(1, 53, "~", "shutdown", "6.1.0-18", 400),
            wtmp(6, 9, "tty1", "LOGIN", "", 500),
        )
    )
    rows = list(script.wtmp_rows(raw + b"torn", "x86_64"))
    assert [(r["kind"], r["at_unix_ms"]) for r in rows] == [
        ("boot", 100_250),
        ("login", 200_250),
        ("logout", 300_250),
        ("shutdown", 400_250),
    ]
    assert (rows[1]["user"], rows[1]["origin"], rows[1]["pid"]) == ("root", "10.0.0.7", 551)


def test_records_of_machines_with_longer_times_are_read() -> None:
    assert struct.calcsize(script.SHORT_RECORD) == 384
    assert struct.calcsize(script.LONG_RECORD) == 400
    names = (b"pts/0", b"", b"ops", b"h")
    raw = struct.pack(script.LONG_RECORD, 7, 1, *names, 0, 0, 0, 70, 0, b"", b"")
    (row,) = script.wtmp_rows(raw, "aarch64")
    assert (row["kind"], row["user"], row["at_unix_ms"]) == ("login", "ops", 70_000)


def test_an_ended_process_has_its_begin_its_end_and_its_status() -> None:
    raw = struct.pack(script.ACCOUNT, 0, 3, 0, 9, 1000, 1000, 412, 1, 1_000, 250.0, b"python3")
    older = struct.pack(script.ACCOUNT, 0, 2, 0, 0, 0, 0, 1, 0, 0, 0.0, b"old form")
    (row,) = script.account_rows(raw + older)
    assert struct.calcsize(script.ACCOUNT) == 64
    assert (row["pid"], row["uid"], row["name"], row["status"]) == (412, 1000, "python3", 9)
    assert (row["at_unix_ms"], row["ended_unix_ms"]) == (1_000_000, 1_002_500)


@pytest.mark.parametrize(
    ("stamp", "expected_ms"),
    [
        ("2026-11-30T13:10:23.505000+00:00", 1_796_044_223_505),
        ("2026-11-30T15:10:23.505+02:00", 1_796_044_223_505),
        ("2026-11-30T13:10:23Z", 1_796_044_223_000),
        ("1796044223.505123", 1_796_044_223_505),
    ],
)
def test_an_accepted_connection_is_read_in_every_form_of_stamp(
    stamp: str, expected_ms: int
) -> None:
    line = f"{stamp} box sshd[77]: Accepted publickey for root from 10.0.0.9 port 50022 ssh2: ED"
    noise = f"{stamp} box sshd[78]: Failed password for root from 10.0.0.9 port 1 ssh2"
    (row,) = script.ssh_rows(f"{noise}\n{line}\n".encode(), 1_796_050_000.0)
    assert row["at_unix_ms"] == expected_ms
    assert (row["user"], row["origin"], row["port"]) == ("root", "10.0.0.9", 50022)
    assert row["name"] == "publickey"


def test_a_stamp_without_a_year_is_the_latest_that_is_past() -> None:
    now = time.mktime((2026, 1, 2, 0, 0, 0, 0, 0, -1))
    line = b"Dec 31 23:59:00 box sshd[7]: Accepted password for a from b port 2 ssh2"
    (row,) = script.ssh_rows(line, now)
    assert time.localtime(row["at_unix_ms"] / 1000).tm_year == 2025
