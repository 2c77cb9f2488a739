"""Quantified, compared, denied and dated clauses, held to recorded incidents one by one.

Each line of ``bound.txt`` is a sentence on the incident above it: true, or a lie of the kind that
stands before it. No true one is objected to, every lie is.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from journal import Reader
from reports.lint import lint
from reports.lint.findings import Ground
from reports.lint.record import record
from tests.support.retold import retell

REPORTS = Path(__file__).parents[1] / "golden" / "reports"
KINDS = {"true", "value", "unit", "tense", "quantifier", "negation", "comparison", "cause"}


def sentences() -> Iterator[tuple[str, str, str]]:
    """(journal, kind, sentence) of every line."""
    journal = ""
    for line in (REPORTS / "bound.txt").read_text("utf-8").splitlines():
        if line.startswith("# "):
            journal = line[2:]
        elif line:
            kind, _, said = line.partition(": ")
            yield journal, kind, said


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Reader, Ground]]:
    folder = tmp_path_factory.mktemp("retold")
    kept = sorted((REPORTS / "held_out" / "journals").iterdir())
    readers = {path.stem: retell(path, folder) for path in kept}
    return {name: (reader, Ground(record(reader))) for name, reader in readers.items()}


@pytest.mark.parametrize(
    ("lie", "open_to_doubt"),
    [
        ("Every command failed.", "Every rehearsed command failed."),
        ("SIGKILL was needed.", "SIGKILL was needed by convention."),
        ("All five listings were partial.", "All five listings that matter were partial."),
    ],
)
def test_a_clause_with_a_word_that_nobody_knows_is_left_alone(
    lie: str, open_to_doubt: str, told: dict[str, tuple[Reader, Ground]]
) -> None:
    reader, ground = told["hang"]
    assert lint(f"{lie}\n", reader, ground=ground)
    assert lint(f"{open_to_doubt}\n", reader, ground=ground) == ()


def test_what_is_longer_than_any_sentence_is_left_alone(
    told: dict[str, tuple[Reader, Ground]],
) -> None:
    """Weighing it would take minutes: each word looks back at all before it."""
    reader, ground = told["hang"]
    assert lint("seven of 16 signals used, " * 2, reader, ground=ground)
    assert lint("seven of 16 signals used, " * 2_000, reader, ground=ground) == ()


def test_true_sentences_are_left_alone_and_lies_of_every_kind_are_found(
    told: dict[str, tuple[Reader, Ground]],
) -> None:
    wrong = []
    for journal, kind, said in sentences():
        found = lint(f"{said}\n", told[journal][0], ground=told[journal][1])
        if bool(found) == (kind == "true"):
            wrong.append((journal, kind, said, found))
    assert wrong == []
    assert {kind for _, kind, _ in sentences()} == KINDS
