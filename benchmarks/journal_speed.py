"""How fast the journal is, beside what else one could use, in one run on one machine.

    python benchmarks/journal.py [--quick] [--only append|writers|lag|verify]
                                 [--events N] [--folder DIR]

Stores take turns in random rounds, because the latency of a shared disk drifts more than they
differ: compare within a table, not between runs. ``docs/benchmarks.md`` holds a run's output.
"""

import argparse
import hashlib
import json
import os
import random
import shutil
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from uuid import UUID

import duckdb

from journal import Actor, HostRef, Journal, NewEvent, Reader, Settings, SystemClock, verify
from journal.events import CommandCompleted, CommandIntended, ObservationParsed
from journal.index import bring_up, rebuild
from journal.keeper import Keeper
from journal.layout import Layout
from journal.segments import ChainState, iterate, stream_lines
from journal.verification import verify_chain

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


def bench_append(folder: Path, rounds: int, each: int) -> None:
    """Latency of one durable append, stores interleaved."""
    stores = Stores(folder)
    times: dict[str, list[float]] = {name: [] for name in stores.calls}
    work: dict[str, list[float]] = {name: [] for name in stores.calls}
    chance = random.Random(1)  # noqa: S311 - the order of turns
    stores.intent()
    for _ in range(rounds):
        for name in chance.sample(list(stores.calls), len(stores.calls)):
            count = max(1, each // 10) if "100" in name else each
            for _ in range(count):
                if name == "journal, outcome with 2 KB output":
                    stores.intent()
                start, busy = time.perf_counter(), time.process_time()
                stores.calls[name]()
                times[name].append((time.perf_counter() - start) * 1e6)
                work[name].append((time.process_time() - busy) * 1e6)
    disk = times["file + fdatasync (the disk)"]
    base, best = statistics.median(disk), min(disk)
    rows = []
    for name, values in times.items():
        middle = statistics.median(values)
        p95 = statistics.quantiles(values, n=20)[-1]
        low, busy = min(values), statistics.median(work[name])
        rows.append(
            (name, f"{middle:.0f}", f"{p95:.0f}", f"{middle / base:.2f}", f"{low:.0f}",
             f"{low / best:.2f}", f"{busy:.0f}")
        )  # fmt: skip
    header = ("store", "p50 us", "p95 us", "x disk", "best us", "x disk", "CPU us")
    table("One durable append, about 1 KB", header, rows)
    stores.journal.abandon()


WRITER = """
import sys
sys.path.insert(0, {here!r})
from journal_benchmark import ACTOR, observed
from journal import Journal, SystemClock
from pathlib import Path
from uuid import UUID
path, keys, seconds = sys.argv[1:]
import time
with Journal.open(Path(path), clock=SystemClock(), actor=ACTOR, keys=Path(keys)) as journal:
    import journal_benchmark as b
    journal.append(b.intended(journal.stream))
    print("ready", flush=True)
    sys.stdin.readline()
    count, end = 0, time.monotonic() + float(seconds)
    while time.monotonic() < end:
        journal.append(observed(journal.stream))
        count += 1
    print(count, flush=True)
    journal.append(b.completed(journal.stream))
    journal.abandon()
"""


def bench_writers(folder: Path, seconds: float) -> None:
    """Durable events a second with several processes."""
    shutil.copyfile(__file__, folder / "journal_benchmark.py")
    rows = []
    for writers in (1, 4, 8):
        begin(folder, f"many{writers}").close()
        program = WRITER.format(here=str(folder))
        children = [
            subprocess.Popen(
                [sys.executable, "-c", program, str(folder / f"many{writers}.journal"),
                 str(folder / "keys"), str(seconds)],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            )
            for _ in range(writers)
        ]  # fmt: skip
        for child in children:
            assert child.stdout is not None
            child.stdout.readline()
        for child in children:
            assert child.stdin is not None
            child.stdin.write("go\n")
            child.stdin.flush()
        counts = []
        for child in children:
            assert child.stdout is not None
            counts.append(int(child.stdout.readline()))
            child.wait()
        rows.append((str(writers), f"{sum(counts) / seconds:.0f}"))
    table("Durable events a second", ("writing processes", "events/s"), rows)


LOOKER = """
import sys, time, duckdb
while True:
    time.sleep(0.02)
    try:
        with duckdb.connect(sys.argv[1], read_only=True) as index:
            (top,) = index.execute("SELECT max(seq) FROM event").fetchone()
    except duckdb.Error:
        continue  # the keeper has it open for a moment
    print(time.monotonic(), -1 if top is None else top, flush=True)
"""


def bench_lag(folder: Path, seconds: float) -> None:
    """How far the DuckDB file is behind at 100 events a second, seen by another process."""
    journal = begin(folder, "lag")
    journal.append(intended("c1"))
    written: dict[int, float] = {}
    pause = threading.Event()
    with Keeper(journal):
        program = [sys.executable, "-c", LOOKER, str(journal.layout.index)]
        looker = subprocess.Popen(program, stdout=subprocess.PIPE, text=True)
        busy, start = time.process_time(), time.monotonic()
        for number in range(int(seconds * 100)):
            # A session waits for its hosts: one that span would keep the keeper from running.
            pause.wait(start + number / 100 - time.monotonic())
            (event,) = journal.append(observed("c1"))
            written[event.seq] = time.monotonic()
        pause.wait(1)
        busy, took = time.process_time() - busy, time.monotonic() - start
        looker.kill()
        looks = [line.split() for line in looker.communicate()[0].splitlines()]
    journal.abandon()
    lags: list[float] = []
    seen = -1
    for now, top in ((float(now), int(top)) for now, top in looks):
        lags += [now - written[seq] for seq in range(seen + 1, top + 1) if seq in written]
        seen = max(seen, top)
    p50, p95 = statistics.median(lags), statistics.quantiles(lags, n=20)[-1]
    rows = [(f"{p50 * 1e3:.0f}", f"{p95 * 1e3:.0f}", str(len(lags)), f"{busy / took:.0%}")]
    header = ("p50 ms", "p95 ms", "events seen", "of a core, writer and keeper")
    table("Index lag at 100 events/s", header, rows)


class NoSync:
    """Makes a big journal quickly; nothing is measured while it is used."""

    def reserve(self, descriptor: int, start: int, end: int) -> None:
        """Lay nothing out."""

    def write(self, descriptor: int, data: bytes) -> int:
        """As the system does."""
        return os.write(descriptor, data)

    def sync(self, descriptor: int) -> None:
        """Do not wait."""


def big(folder: Path, count: int, *, outputs: bool) -> Journal:
    """A journal of *count* events like those of recoveries."""
    settings = Settings(disk=NoSync(), seal_every=1 << 40)
    journal = begin(folder, "outputs" if outputs else "big", settings)
    for number in range(count // 4):
        batch = [intended(f"c{number}")]
        text = TEXT[: 200 + number % 700].encode() + str(number).encode()
        batch.append(completed(f"c{number}", **({"stdout": text} if outputs else {})))
        batch += [observed(f"c{number}")] * 2
        journal.append(*batch)
    return journal


def timed(call: Callable[[], object]) -> float:
    """Seconds that one call takes."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def bench_verify(folder: Path, count: int) -> None:
    """Hashing, checking, rebuilding at size."""
    journal = big(folder, count, outputs=False)
    journal.seal(record=False)
    layout, stream = journal.layout, journal.stream
    lines = [stored.line for stored in stream_lines(layout, stream)]
    bare = timed(lambda: [hashlib.sha256(line).digest() for line in lines])
    size = sum(map(len, lines))
    chain = min(timed(lambda: verify_chain(layout.root)) for _ in range(2))

    def links() -> None:
        state = ChainState(stream)
        for path in layout.segments(stream):
            for stored in iterate(path):
                state.take(stored)

    opening = timed(links)
    index = timed(lambda: rebuild(layout))
    full = timed(lambda: verify(layout.root, keys=journal.keys))
    events = journal.size
    rate = [
        (name, f"{seconds:.2f}", f"{events / seconds:.0f}", f"{bare / seconds:.0%}")
        for name, seconds in (
            ("hashlib.sha256 once per line, lines in memory", bare),
            ("verify --chain, from the files", chain),
            ("opening (links and tree)", opening),
            ("full verify (form, rules, tree, index)", full),
            ("rebuild of the index, without outputs", index),
        )
    ]
    title = f"{events} events, {size / events:.0f} bytes a line"
    table(title, ("what", "s", "events/s", "of bare hashing"), rate)
    bytes_each = layout.index.stat().st_size / events
    table("Size", ("index bytes/event",), [(f"{bytes_each:.0f}",)])
    journal.abandon()
    bench_opening(folder, layout)
    bench_queries(layout, stream)
    bench_touch(layout)
    shutil.rmtree(layout.root)
    with_outputs = big(folder, count, outputs=True)
    seconds = timed(lambda: rebuild(with_outputs.layout))
    per_event = with_outputs.layout.index.stat().st_size / with_outputs.size
    table(
        "Rebuild with outputs",
        ("events", "s", "index bytes/event"),
        [(str(with_outputs.size), f"{seconds:.1f}", f"{per_event:.0f}")],
    )
    with_outputs.abandon()


def bench_opening(folder: Path, layout: Layout) -> None:
    """What a command pays before it can append: from the bookmark, and without one."""

    def opened() -> None:
        Journal.open(
            layout.root, clock=SystemClock(), actor=ACTOR, keys=folder / "keys"
        ).abandon()  # fmt: skip

    marked = timed(opened)
    layout.bookmark.unlink()
    whole = timed(opened)
    header = ("from the bookmark ms", "from the beginning ms")
    table("Opening for writing", header, [(f"{marked * 1e3:.0f}", f"{whole * 1e3:.0f}")])


QUERIES = {
    "last 50 of an incident": "SELECT * FROM event WHERE incident = 'I1' "
    "ORDER BY seq DESC LIMIT 50",
    "intents by host, count": "SELECT host, count(*) FROM event "
    "WHERE kind = 'command_intended' GROUP BY 1",
    "one command's events": "SELECT * FROM event WHERE command_id = 'c77'",
    "point by seq": "SELECT * FROM event WHERE stream = '{stream}' AND seq = 4242",
    "mean duration by command": "SELECT host, avg(duration_ms) FROM event GROUP BY 1",
    "JSON field group": "SELECT data ->> '$.duration_ms', count(*) FROM event "
    "WHERE kind = 'command_completed' GROUP BY 1",
    "tail 100": "SELECT * FROM event ORDER BY ts_us DESC, seq DESC LIMIT 100",
    "full text": "SELECT count(*) FROM event WHERE contains(line, 'shard 7 0.7 S 12:47')",
}


def _answer(connection: duckdb.DuckDBPyConnection, sql: str) -> object:
    return connection.execute(sql).fetchall()


def bench_queries(layout: Layout, stream: str) -> None:
    """The questions of an auditor, median of five, file open."""
    rows = []
    with duckdb.connect(layout.index, read_only=True) as connection:
        for name, sql in QUERIES.items():
            text = sql.format(stream=stream)
            connection.execute(text).fetchall()
            times = [timed(partial(_answer, connection, text)) for _ in range(5)]
            rows.append((name, f"{statistics.median(times) * 1e3:.1f}"))
    table("Queries", ("query", "ms"), rows)


def bench_touch(layout: Layout) -> None:
    """Open, add nothing, close: what a reader pays for a current index."""
    times = [timed(lambda: bring_up(layout)) for _ in range(5)]
    first = timed(lambda: Reader.open(layout.root).query("SELECT 1"))
    rows = [(f"{statistics.median(times) * 1e3:.0f}", f"{first * 1e3:.0f}")]
    table("A current index", ("bring up ms", "agentops query ms"), rows)


def main() -> None:
    """Run what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a hundredth of the events")
    parser.add_argument("--only", choices=["append", "writers", "lag", "verify"])
    parser.add_argument("--events", type=int, default=1_000_000, help="size of the big journal")
    parser.add_argument("--folder", type=Path, default=None)
    asked = parser.parse_args()
    load = os.getloadavg()[0]
    print(f"Python {sys.version.split()[0]}, DuckDB {duckdb.__version__}, load {load:.1f} at first")
    with tempfile.TemporaryDirectory(dir=asked.folder) as scratch:
        folder = Path(scratch)
        if asked.only in {None, "append"}:
            bench_append(folder, 3 if asked.quick else 10, 20 if asked.quick else 60)
        if asked.only in {None, "writers"}:
            bench_writers(folder, 1 if asked.quick else 5)
        if asked.only in {None, "lag"}:
            bench_lag(folder, 3 if asked.quick else 15)
        if asked.only in {None, "verify"}:
            bench_verify(folder, asked.events // 100 if asked.quick else asked.events)


if __name__ == "__main__":
    main()
