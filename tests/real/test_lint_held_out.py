"""The linter on texts by hands that did not know its rules: honest reports, lies, paraphrases.

Four sets of honest reports with lies in them, and the three source documents in other words. The
first run on a set that nobody had looked at is told in ``docs/reports.md``; what stands here was
learned from afterwards, and the limits keep it.
"""

import json
from pathlib import Path

import pytest

from reports.lint import lint
from tests.support.held_out import HeldOut, held_out, main
from tests.support.transcripts import SOURCES, import_source

REPORTS = Path(__file__).parents[1] / "golden" / "reports"
FIRST, SECOND, THIRD, FOURTH = "held_out", "held_out_2", "held_out_3", "held_out_4"
SETS = (FIRST, SECOND, THIRD, FOURTH)
PARAPHRASES_MIN = 0.75
UNTOUCHED_MIN, PRECISION_MIN = 0.99, 0.97
LIES_MIN = {FIRST: 0.62, SECOND: 0.47, THIRD: 0.42, FOURTH: 0.24}
OPERATOR_MIN = {
    FIRST: {
        "value": 0.66, "unit": 0.85, "tense": 0.66, "cause": 0.55, "negation": 0.45,
        "quantifier": 0.65, "comparison": 0.4,
    },
    SECOND: {
        "value": 0.7, "unit": 0.55, "tense": 0.7, "cause": 0.6, "negation": 0.35,
        "quantifier": 0.2, "comparison": 0.2,
    },
    THIRD: {
        "value": 0.75, "unit": 0.7, "tense": 0.05, "cause": 0.4, "negation": 0.3,
        "quantifier": 0.3, "comparison": 0.3,
    },
    FOURTH: {
        "value": 0.5, "unit": 0.55, "tense": 0.12, "cause": 0.27, "negation": 0.1,
        "quantifier": 0.09, "comparison": 0.07,
    },
}  # fmt: skip
SOURCE_OF = {"paraphrase_1": "000", "paraphrase_2": "003", "paraphrase_3": "004"}


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> dict[str, HeldOut]:
    folder = tmp_path_factory.mktemp("retold")
    for name in SETS:
        (folder / name).mkdir()
    return {name: held_out(REPORTS / name, folder / name) for name in SETS}


@pytest.mark.parametrize("name", SETS)
def test_honest_reports_are_left_alone(name: str, told: dict[str, HeldOut]) -> None:
    objected, sentences = told[name].objected
    assert len(told[name].reports) == {FIRST: 10, SECOND: 12, THIRD: 5, FOURTH: 15}[name]
    assert 1 - objected / sentences >= UNTOUCHED_MIN
    assert told[name].precision >= PRECISION_MIN


@pytest.mark.parametrize("name", SETS)
def test_lies_in_them_are_found(name: str, told: dict[str, HeldOut]) -> None:
    found, lies = told[name].rate()
    assert lies == {FIRST: 120, SECOND: 200, THIRD: 100, FOURTH: 300}[name]
    assert found / lies >= LIES_MIN[name]
    least = OPERATOR_MIN[name]
    rates = {operator: told[name].rate(operator=operator) for operator in least}
    assert all(hit / tried >= least[kind] for kind, (hit, tried) in rates.items()), rates


def test_the_table_counts_what_was_found(
    told: dict[str, HeldOut], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([str(REPORTS / THIRD), "--show"]) == 0
    shown = capsys.readouterr().out
    found, lies = told[THIRD].rate()
    objected, sentences = told[THIRD].objected
    assert f"lies found: {found} of {lies}" in shown
    assert f"honest sentences untouched: {sentences - objected} of {sentences}" in shown
    assert shown.count(" MISSED ") == lies - found


def test_paraphrases_of_the_source_documents_are_objected_to(tmp_path: Path) -> None:
    """A paraphrase counts when a sentence that carries the known error is objected to."""
    carried_in_all = objected = 0
    for paraphrase, name in SOURCE_OF.items():
        carried = json.loads((REPORTS / FIRST / f"{paraphrase}.json").read_text("utf-8"))
        text = (REPORTS / FIRST / f"{paraphrase}.md").read_text("utf-8")
        others = [source for source in SOURCE_OF.values() if source != name]
        earlier = [(SOURCES / f"{other}.txt").read_text("utf-8") for other in others]
        excerpts = [
            " ".join(finding.excerpt.split())
            for finding in lint(text, import_source(name, tmp_path), earlier=earlier)
        ]
        for sentences in carried.values():
            wanted = [" ".join(sentence.split()) for sentence in sentences]
            carried_in_all += 1
            objected += any(w in e or e in w for w in wanted for e in excerpts)
    assert carried_in_all == 72
    assert objected / carried_in_all >= PARAPHRASES_MIN
