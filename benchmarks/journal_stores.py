"""What the journal is timed beside: one durable append of about 1 KB in each store; its events.

Not here: the timing (``benchmarks.journal_speed``).
"""

import json
import os
import sqlite3
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from uuid import UUID

import duckdb

from journal import Actor, HostRef, Journal, NewEvent, Settings, SystemClock
from journal.events import CommandCompleted, CommandIntended, ObservationParsed

HOST = HostRef("gpu-7", "SHA256:uNiVztksCsDhcc0u9e8BgrJXVGDQXY1zUF8mR2Y7k4A")
ACTOR = Actor("engine", "recover")
TEXT = "".join(
    f"{n} python train.py --shard {n % 8} 0.{n % 10} S 12:{n % 60:02d}\n" for n in range(24)
)


def completed(command_id: str, **outputs: bytes) -> NewEvent:
    """An outcome of about 1 KB."""
    payload = CommandCompleted(command_id=command_id, exit_status=0, duration_ms=214)
    return NewEvent(payload, incident="I1", host=HOST, attachments=outputs)


def intended(command_id: str) -> NewEvent:
    """An intent of about 1 KB."""
    payload = CommandIntended(
        command_id=command_id, command="list_processes", definition="d" * 64,
        arguments={"namespace": 4026531836}, argv=("ps", "-eo", "pid,ppid,stat,args"),
        route=("ssh", "pct exec 200"), effect="observes", intrusiveness=1, retry="repeat",
        deadline_ms=30_000, victims=(), decision_id=None, authority="policy dev-observe",
        reason="look at the processes of the job before anything is signalled",
    )  # fmt: skip
    return NewEvent(payload, incident="I1", host=HOST)


def observed(command_id: str) -> NewEvent:
    """An observation of about 1 KB in the line."""
    payload = ObservationParsed(
        command_id=command_id, command="list_processes", definition="d" * 64, parser_version=1,
        observation=TEXT[:600],
    )  # fmt: skip
    return NewEvent(payload, incident="I1", host=HOST)


def begin(folder: Path, name: str, settings: Settings | None = None) -> Journal:
    """A new journal."""
    return Journal.create(
        folder / f"{name}.journal", clock=SystemClock(), actor=ACTOR, keys=folder / "keys",
        anchor=None, settings=settings,
    )  # fmt: skip


def table(title: str, header: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> None:
    """Print one Markdown table."""
    print(f"\n### {title}\n")
    print("| " + " | ".join(header) + " |")
    print("|" + "---|" * len(header))
    for row in rows:
        print("| " + " | ".join(row) + " |")
    sys.stdout.flush()


class Stores:
    """One append of one event of about 1 KB, durable, in each store."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.line = json.dumps({"kind": "x", "text": TEXT[:900]}).encode() + b"\n"
        self.plain = os.open(folder / "plain", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self.sqlite = sqlite3.connect(folder / "s.sqlite", isolation_level=None)
        self.sqlite.execute("PRAGMA journal_mode=WAL")
        self.sqlite.execute("PRAGMA synchronous=FULL")
        self.sqlite.execute("CREATE TABLE e(n INTEGER PRIMARY KEY, line BLOB)")
        self.duck = duckdb.connect(folder / "d.duckdb")
        self.duck.execute("CREATE TABLE e(n BIGINT, line VARCHAR)")
        self.journal = begin(folder, "single")
        self.number = 0
        self.output = TEXT.encode() * 2
        self.calls: dict[str, Callable[[], None]] = {
            "file + fdatasync (the disk)": self._file,
            "file, 100 KB + fdatasync": self._file_hundred,
            "SQLite WAL FULL": self._sqlite,
            "plain DuckDB": self._duckdb,
            "journal, intent": self.intent,
            "journal, observation in the line": self._observation,
            "journal, outcome with 2 KB output": self._output,
            "journal, 100 events in one append": self._hundred,
        }
        if (call := self._eventsourcing()) is not None:
            self.calls["eventsourcing on SQLite"] = call

    def _file(self) -> None:
        os.write(self.plain, self.line)
        os.fdatasync(self.plain)

    def _file_hundred(self) -> None:
        os.write(self.plain, self.line * 100)
        os.fdatasync(self.plain)

    def _sqlite(self) -> None:
        self.sqlite.execute("INSERT INTO e(line) VALUES (?)", [self.line])

    def _duckdb(self) -> None:
        self.duck.execute("INSERT INTO e VALUES (?, ?)", [1, self.line.decode()])

    def intent(self) -> None:
        """Open one more command in the journal."""
        self.number += 1
        self.journal.append(intended(f"c{self.number}"))

    def _observation(self) -> None:
        self.journal.append(observed(f"c{self.number}"))

    def _output(self) -> None:
        self.journal.append(completed(f"c{self.number}", stdout=self.output))

    def _hundred(self) -> None:
        self.journal.append(*[observed(f"c{self.number}")] * 100)

    def _eventsourcing(self) -> Callable[[], None] | None:
        try:
            from eventsourcing.application import Application  # noqa: PLC0415 - optional peer
            from eventsourcing.domain import Aggregate, event  # noqa: PLC0415
        except ImportError:
            return None

        class Command(Aggregate):
            @event("Recorded")
            def record(self, text: str) -> None:
                self.text = text

        application: Application[UUID] = Application(
            env={
                "PERSISTENCE_MODULE": "eventsourcing.sqlite",
                "SQLITE_DBNAME": str(self.folder / "es.sqlite"),
            }
        )
        command = Command()
        application.save(command)

        def call() -> None:
            command.record(TEXT[:900])
            application.save(command)

        return call
