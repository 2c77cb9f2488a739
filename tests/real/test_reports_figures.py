"""Figures: what is drawn, from which events, and where a line breaks."""

from pathlib import Path

from journal import Reader
from journal.events import IncidentOpened, JsonObject
from reports.evidence import gather
from reports.model import Figure
from reports.plots import figures
from reports.render.svg import draw
from tests.support.teller import beat, begin

MIB = 2**20


def told(folder: Path) -> dict[str, Figure]:
    """Three readings of shared memory and three heartbeats; the middle one of each is missing."""
    teller = begin(folder / "j.journal", folder / "keys", "inc-f")
    teller.tell(IncidentOpened(title="figures", job=None))

    def shared(free: int) -> JsonObject:
        return {"total_bytes": 64 * MIB, "free_bytes": free, "files": 0, "segments": []}

    teller.run("shared_memory", shared(60 * MIB))
    teller.run("read_heartbeat", beat(10))
    teller.run("shared_memory", None, answer=False)
    silent = beat(11)
    assert isinstance(silent["heartbeat"], dict)
    silent["heartbeat"]["tokens_per_s"] = None
    teller.run("read_heartbeat", silent)
    teller.run("shared_memory", shared(50 * MIB))
    teller.run("read_heartbeat", beat(12))
    teller.run("read_heartbeat", beat(13))
    teller.journal.close()
    evidence = gather(Reader.open(folder / "j.journal"), "inc-f")
    return {figure.title: figure for figure in figures(evidence)}


def test_shared_memory_and_throughput_are_drawn_from_their_readings(tmp_path: Path) -> None:
    made = told(tmp_path)
    shared, rate = made["Shared memory in use"], made["Throughput"]
    assert [m.value for m in shared.marks] == [4, None, 14]
    assert shared.rows == ("shm box-200",)
    assert [m.value for m in rate.marks] == [1234, None, 1234, 1234]
    assert {m.style for m in rate.marks} == {"point", "gap"}


def test_a_missing_reading_breaks_the_line(tmp_path: Path) -> None:
    made = told(tmp_path)
    rate = str(draw(made["Throughput"], 1))
    assert rate.count("<polyline") == 1  # the two readings behind the gap
    assert rate.count('class="gap"') == 1
    assert rate.count("<circle") == 3
    shared = str(draw(made["Shared memory in use"], 1))
    assert shared.count("<polyline") == 0
    assert shared.count('class="gap"') == 1


def test_every_mark_leads_to_the_event_behind_it(tmp_path: Path) -> None:
    for number, figure in enumerate(told(tmp_path).values()):
        drawn = str(draw(figure, number))
        assert drawn.count('<a href="#ev-') == len(figure.marks)
