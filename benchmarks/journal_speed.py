"""How fast the journal is, beside what else one could use, in one run on one machine.

    python benchmarks/journal.py [--quick] [--only append|writers|lag|verify]
                                 [--events N] [--folder DIR]

Stores take turns in random rounds, because the latency of a shared disk drifts more than they
differ: compare within a table, not between runs. ``docs/benchmarks.md`` holds a run's output.
"""

import argparse
import hashlib
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import duckdb

from benchmarks.journal_stores import (
    ACTOR,
    TEXT,
    Stores,
    begin,
    completed,
    intended,
    observed,
    table,
)
from journal import Journal, Reader, Settings, SystemClock, verify
from journal.index import bring_up, rebuild
from journal.keeper import Keeper
from journal.layout import Layout
from journal.segments import ChainState, iterate, stream_lines
from journal.verification import verify_chain


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
