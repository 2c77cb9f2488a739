"""What many chunks of simulated seeds add up to, and that the page says what the counts say."""

import json
from pathlib import Path

import pytest

from benchmarks import simulation
from benchmarks.simulation import (
    BEGIN,
    BEGIN_BREAKS,
    BEGIN_ROW,
    BREAKS,
    COUNTS,
    NUMBERS,
    PAGE,
    added,
    made,
    run_chunks,
    with_tables,
)

ROOT = Path(__file__).parents[2]


def chunk(folder: Path, first: int, commit: str, **counts: object) -> None:
    """One chunk's counts, as a run leaves them."""
    told = {"first": first, "commit": commit, "red": [], "seeds": 2} | counts
    (folder / f"{first}.json").write_text(json.dumps(told), encoding="utf-8")


def test_chunks_add_up_key_by_key(tmp_path: Path) -> None:
    """Numbers at any depth, lists one after the other, and a key that only one of them has."""
    chunk(tmp_path, 0, "aa", faults={"x": 1}, faults_by_step={"s": {"x": 1}})
    chunk(tmp_path, 2, "bb", faults={"x": 2, "y": 3}, red=[{"seed": 3, "findings": ["f"]}])
    chunk(tmp_path, 10, "bb", faults_by_step={"s": {"x": 4}, "t": {"y": 1}})
    assert added(tmp_path) == {
        "ranges": [[0, 3], [10, 11]],
        "commits": {"aa": 2, "bb": 4},
        "faults": {"x": 3, "y": 3},
        "faults_by_step": {"s": {"x": 5}, "t": {"y": 1}},
        "red": [{"seed": 3, "findings": ["f"]}],
        "seeds": 6,
    }


def test_a_chunk_that_somebody_has_claimed_is_left_to_them(tmp_path: Path) -> None:
    """Processes share a folder; what is not claimed is run, up to the last seed and no further."""
    (tmp_path / "0.claimed").mkdir()
    run_chunks(tmp_path, 0, simulation.CHUNK + 2)
    assert [path.name for path in tmp_path.glob("*.json")] == [f"{simulation.CHUNK}.json"]
    whole = added(tmp_path)
    assert (whole["seeds"], whole["red"]) == (2, [])
    assert whole["ranges"] == [[simulation.CHUNK, simulation.CHUNK + 1]]


@pytest.mark.parametrize(
    ("page", "marks"), [(PAGE, (BEGIN, BEGIN_BREAKS)), (NUMBERS, (BEGIN_ROW,))]
)
def test_the_pages_say_what_the_counts_say(page: Path, marks: tuple[str, ...]) -> None:
    """``python benchmarks/simulation.py sum FOLDER`` writes them and the counts."""
    text = (ROOT / page).read_text(encoding="utf-8")
    assert all(mark in text for mark in marks)
    counts, breaks = (
        json.loads((ROOT / path).read_text(encoding="utf-8")) for path in (COUNTS, BREAKS)
    )
    assert with_tables(text, made(counts, breaks)) == text
    assert all(told["first_red_seed"] is not None for told in breaks.values())
