"""Writers killed at any moment: nothing acknowledged is lost, nothing is done twice."""

import random
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from journal import Reader
from journal.disk import SystemDisk
from journal.errors import Corrupt
from journal.events import CommandOutcomeUnknown, JournalRecovered
from tests.support import journal_child
from tests.support.journals import Place, intended, note, reconciled, twenty_events
from tests.support.torture import rounds

DEADLINE_S = 60


def start(place: Place, mode: str, *arguments: str) -> subprocess.Popen[bytes]:
    script = str(Path(journal_child.__file__))
    return subprocess.Popen(
        [sys.executable, "-P", script, mode, str(place.path), str(place.keys.folder), *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )


def acknowledged(child: subprocess.Popen[bytes]) -> list[str]:
    """What the child printed until it was gone; a torn last line counts for nothing."""
    assert child.stdout is not None
    assert child.stdin is not None
    text = child.stdout.read()
    child.stdin.close()
    child.stdout.close()
    child.wait(DEADLINE_S)
    return text.decode().split("\n")[:-1]


def test_kill_9_loses_no_acknowledged_event(tmp_path: Path) -> None:
    chance = random.Random(4)  # noqa: S311 - repeatable on purpose
    place = Place(tmp_path)
    place.create().close()
    known: list[str] = []
    for _ in range(rounds(15, 100)):
        child = start(place, "append")
        assert child.stdout is not None
        early = [child.stdout.readline().decode().strip() for _ in range(chance.randrange(1, 40))]
        child.kill()
        known += [line for line in early + acknowledged(child) if not line.startswith("open")]
        journal = place.open()
        present = {event.id for event in journal.reader().events()}
        journal.abandon()
        assert present.issuperset(known)
    place.open().close()
    verification = place.verify()
    assert verification.status == "intact", str(verification.finding)
    assert len(place.layout.streams()) == 1


@pytest.mark.parametrize(
    "stage", ["before_intent", "after_intent", "after_effect", "after_outcome"]
)
def test_kill_around_an_effect_leaves_a_truth_to_reconcile(tmp_path: Path, stage: str) -> None:
    """The counter never reaches 2: in doubt is settled by looking, never by doing it again."""
    for turn in range(rounds(1, 25)):
        place = Place(tmp_path / str(turn))
        place.root.mkdir(exist_ok=True)
        place.create().close()
        child = start(place, "act", stage)
        acknowledged(child)
        assert child.returncode == -9
        counter = place.root / "counter"
        with place.open() as journal:
            in_doubt = journal.unreconciled()
            expected = 1 if stage in {"after_intent", "after_effect"} else 0
            assert len(in_doubt) == expected
            for intent in in_doubt:
                done = counter.exists() and intent.command_id in counter.read_text()
                assert done == (stage == "after_effect")
                journal.append(reconciled(intent.command_id, "done" if done else "not_done"))
                if not done:
                    counter.write_text(f"{intent.command_id}\n")
            assert not journal.unreconciled()
        if stage != "before_intent":
            assert counter.read_text() == "act-1\n"
        assert place.verify().status == "intact"


def test_the_next_opener_names_what_is_in_doubt(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.create().close()
    acknowledged(start(place, "act", "after_intent"))
    assert [intent.command_id for intent in Reader.open(place.path).in_doubt()] == ["act-1"]
    with place.open() as journal:
        events = list(journal.reader().events(kinds={"command_outcome_unknown"}))
        (recovered,) = journal.reader().events(kinds={"journal_recovered"})
    assert [
        (event.payload.command_id, event.payload.reason)
        for event in events
        if isinstance(event.payload, CommandOutcomeUnknown)
    ] == [("act-1", "controller_died")]
    assert isinstance(recovered.payload, JournalRecovered)
    assert recovered.payload.in_doubt == ("act-1",)
    assert Reader.open(place.path).in_doubt() == []


def test_a_dead_writers_other_stream_is_settled_too(tmp_path: Path) -> None:
    place = Place(tmp_path)
    with place.create():
        acknowledged(start(place, "act", "after_intent"))
    assert len(place.layout.streams()) == 2
    with place.open() as journal:
        assert [intent.command_id for intent in journal.unreconciled()] == ["act-1"]
        (event,) = journal.reader().events(kinds={"command_outcome_unknown"})
        assert event.stream == place.layout.streams()[1]
    assert place.verify().status == "intact"


class OpensBeside(SystemDisk):
    """A disk on whose first sync another process's whole session happens."""

    def __init__(self, session: Callable[[], None]) -> None:
        self.session: Callable[[], None] | None = session

    def sync(self, descriptor: int) -> None:
        """Sync, after that session."""
        session, self.session = self.session, None
        if session is not None:
            session()
        super().sync(descriptor)


def test_what_two_openers_find_in_doubt_is_settled_by_one_of_them(tmp_path: Path) -> None:
    """The other had looked before it was settled, and comes to that stream after."""
    place = Place(tmp_path)
    place.create().close()
    dying = place.open(), place.open()
    dying[1].append(intended("c1"))
    for one in dying:
        one.abandon()

    def session() -> None:
        with beside.open():
            pass

    beside = Place(tmp_path, seed=8)
    place.settings = replace(place.settings, disk=OpensBeside(session))
    with place.open() as journal:
        unknown = list(journal.reader().events(kinds={"command_outcome_unknown"}))
    assert [one.payload.model_dump()["command_id"] for one in unknown] == ["c1"]
    verification = place.verify()
    assert verification.status == "intact", str(verification.finding)


@pytest.mark.parametrize("torn", [b"{", b'{"actor":{"id":"x', b"\x00" * 500 + b"}", b"\xff\xfe"])
def test_a_torn_end_is_set_aside_and_recorded(tmp_path: Path, torn: bytes) -> None:
    place = Place(tmp_path)
    twenty_events(place)
    with place.segment().open("ab") as file:
        file.write(torn)
    assert place.verify().finding is None
    with place.open() as journal:
        (event,) = journal.reader().events(kinds={"journal_recovered"})
    assert isinstance(event.payload, JournalRecovered)
    assert event.payload.quarantined is not None
    assert (place.path / event.payload.quarantined).read_bytes() == torn
    assert place.verify().status == "intact"


@pytest.mark.parametrize("torn", [b"{", b'{"note":"agentops', b"\x00" * 500])
def test_a_seal_that_a_crash_tore_does_not_look_like_a_forgery(tmp_path: Path, torn: bytes) -> None:
    """It was never acknowledged: the next seal takes its place."""
    place = Place(tmp_path)
    twenty_events(place)
    whole = place.layout.seals.read_bytes()
    with place.layout.seals.open("ab") as file:
        file.write(torn)
    assert place.verify().finding is None
    with place.open() as journal:
        journal.append(note("goes on"))
    assert place.layout.seals.read_bytes().startswith(whole + b'{"')
    assert place.verify().status == "intact"


def test_a_hole_of_zeros_before_whole_lines_is_set_aside(tmp_path: Path) -> None:
    """After a power cut the blocks of one unacknowledged write can arrive out of order."""
    place = Place(tmp_path)
    twenty_events(place)
    whole = place.segment().read_bytes()
    hole = bytes(300) + b'"}\n' + place.lines()[3] + b"\n"
    place.segment().write_bytes(whole + hole)
    with place.open() as journal:
        journal.append(note("goes on"))
    assert place.verify().status == "intact"
    (kept,) = place.layout.quarantine.iterdir()
    assert kept.read_bytes() == hole


def test_lines_that_the_next_opener_sets_aside_never_reach_the_index(tmp_path: Path) -> None:
    """Else their rows would stand where the opener's own events come to be."""
    place = Place(tmp_path)
    twenty_events(place)
    journal = place.open()
    begun = len(place.lines())
    journal.append(note("whole in the middle"), note("and at its end"))
    journal.abandon()
    whole = place.segment().read_bytes()
    place.segment().write_bytes(whole.replace(b"in the mid", bytes(10)))
    with pytest.raises(Corrupt):
        Reader.open(place.path).query("SELECT 1")
    with place.open() as journal:
        rows = journal.reader().query("SELECT seq, encode(line) FROM event ORDER BY seq").rows
        assert rows == list(enumerate(place.lines()))
        assert len(rows) > begun
    assert place.verify().status == "intact"


def test_room_that_a_dead_writer_had_laid_out_is_written_into(tmp_path: Path) -> None:
    """Zeros behind the last line are no torn end: nothing is set aside, nothing said."""
    place = Place(tmp_path)
    place.create().close()
    child = start(place, "append")
    assert child.stdout is not None
    child.stdout.readline()
    child.kill()
    acknowledged(child)
    whole = place.segment().read_bytes()
    lines = whole.rstrip(b"\x00")
    assert lines.endswith(b"}\n")
    assert len(whole) > len(lines) + 100_000
    verification = place.verify()
    assert verification.finding is None
    assert "TORN" not in {remark.code for remark in verification.remarks}
    assert len(list(Reader.open(place.path).events())) == lines.count(b"\n")
    with place.open() as journal:
        journal.append(note("goes on"))
        assert list(journal.reader().events(kinds={"journal_recovered"})) == []
    after = place.segment().read_bytes()
    assert after.startswith(lines)
    assert b"\x00" not in after
    assert place.verify().status == "intact"


def test_pages_of_an_unacknowledged_write_that_never_arrived_cost_nothing_else(
    tmp_path: Path,
) -> None:
    """The disk may write a file's blocks in any order: where one is missing there are zeros."""
    chance = random.Random(6)  # noqa: S311 - repeatable on purpose
    place = Place(tmp_path)
    twenty_events(place)
    journal = place.open()
    before = place.segment().read_bytes().rstrip(b"\x00")
    journal.append(*[note("x" * chance.randrange(3000)) for _ in range(12)])
    journal.abandon()
    place.layout.index.unlink(missing_ok=True)
    after = place.segment().read_bytes()
    for _ in range(rounds(40, 400)):
        pages = bytearray(after + bytes(9000))
        for at in range(len(before) - len(before) % 512, len(pages), 512):
            if chance.random() < 0.2:
                pages[max(at, len(before)) : at + 512] = bytes(at + 512 - max(at, len(before)))
        place.segment().write_bytes(pages)
        place.open().abandon()
        assert place.segment().read_bytes().startswith(before)
        assert b"\x00" not in place.segment().read_bytes()
        assert place.verify().finding is None


def test_zeros_before_a_line_accuse_only_where_nobody_can_have_torn_it(tmp_path: Path) -> None:
    """Below a seal a hole is damage; ``verify`` says so before and after the next opening."""
    place = Place(tmp_path)
    twenty_events(place)
    whole = place.segment().read_bytes()
    for gap in (whole.replace(b"quoted", bytes(6)), whole[:-1] + bytes(40) + b"\n"):
        place.segment().write_bytes(gap)
        assert place.verify().status == "tampered"


def test_every_way_to_tear_the_last_line_recovers(tmp_path: Path) -> None:
    place = Place(tmp_path)
    twenty_events(place)
    journal = place.open()
    journal.append(note("the last one"))
    journal.abandon()
    place.layout.index.unlink(missing_ok=True)
    whole = place.segment().read_bytes()
    last = whole[:-1].rfind(b"\n") + 1
    for end in range(last + 1, len(whole), 23):
        place.segment().write_bytes(whole[:end])
        opened = place.open()
        opened.abandon()
        lines = place.lines()
        assert whole[:last] == b"".join(line + b"\n" for line in lines)[:last]
        assert b"journal_recovered" in lines[-1]
        assert place.verify().finding is None


def test_eight_writers_at_a_barrier_claim_a_key_once(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.create().close()
    for turn in range(rounds(1, 10)):
        children = [start(place, "race", f"contested-{turn}") for _ in range(8)]
        streams = set()
        for child in children:
            assert child.stdout is not None
            streams.add(child.stdout.readline())
        assert len(streams) == 8
        for child in children:
            assert child.stdin is not None
            child.stdin.write(b"go\n")
            child.stdin.flush()
        answers = [acknowledged(child) for child in children]
        assert sorted(answers) == [["lost"]] * 7 + [["won"]]
    place.open().close()
    assert place.verify().status == "intact"


def test_eight_writers_lose_nothing_and_keep_eight_chains(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.create().close()
    each = rounds(20, 400)
    children = [start(place, "crowd", str(each)) for _ in range(8)]
    for child in children:
        assert child.stdin is not None
        child.stdin.write(b"go\n")
        child.stdin.flush()
    for child in children:
        acknowledged(child)
        assert child.returncode == 0
    counts = Reader.open(place.path).query(
        "SELECT kind, count(*) FROM event WHERE kind IN "
        "('incident_noted', 'command_intended', 'command_completed') GROUP BY 1"
    )
    assert {count for _, count in counts.rows} == {8 * each}
    verification = place.verify()
    assert verification.status == "intact", str(verification.finding)
