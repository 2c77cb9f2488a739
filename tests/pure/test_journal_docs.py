"""What the journal can say is written down for people."""

import re
from pathlib import Path
from typing import get_args

import pytest

import journal
from journal import errors
from journal.findings import Code
from journal.index_schema import TABLES, VIEWS
from journal.kinds import PAYLOADS
from tests.support.vectors import CASES

DOCS = Path(__file__).parent.parent.parent / "docs"
SOURCE = Path(journal.__file__).parent

pytestmark = pytest.mark.skipif(not DOCS.is_dir(), reason="the pages are in the source tree only")


@pytest.fixture(scope="module")
def page() -> str:
    return (DOCS / "journal.md").read_text()


def test_every_kind_of_event_is_documented(page: str) -> None:
    assert [kind for kind in PAYLOADS if f"`{kind}`" not in page] == []


def test_every_finding_is_documented(page: str) -> None:
    assert [code for code in get_args(Code) if f"`{code}`" not in page] == []


def test_every_remark_that_the_verifier_makes_is_documented(page: str) -> None:
    source = "".join(
        path.read_text() for path in sorted(SOURCE.glob("*_check.py"))
    ) + (SOURCE / "verification.py").read_text()  # fmt: skip
    made = set(re.findall(r'Remark\(\s*"([A-Z_]+)"', source))
    assert made
    assert [code for code in sorted(made) if f"`{code}`" not in page] == []


def test_every_table_and_view_is_documented(page: str) -> None:
    names = re.findall(r"CREATE (?:TABLE|VIEW) (\w+)", TABLES + VIEWS)
    assert len(names) == 13
    assert [name for name in names if f"`{name}`" not in page] == []


def test_every_refusal_is_documented(page: str) -> None:
    refusals = [one.__name__ for one in errors.Refused.__subclasses__()]
    assert [name for name in refusals if f"`{name}`" not in page] == []


def test_every_vector_is_documented() -> None:
    text = (DOCS / "conformance.md").read_text()
    assert [case.name for case in CASES if f"`{case.name}`" not in text] == []
    assert [case.says for case in CASES if f"`{case.says}`" not in text] == []


def test_the_tree_of_errors_in_the_docstring_is_the_tree() -> None:
    drawn = re.findall(r"(\w+)  +\S", (errors.__doc__ or "").replace("\u2500", " "))
    real = {
        name
        for name, value in vars(errors).items()
        if isinstance(value, type) and issubclass(value, errors.JournalError)
    }
    assert real - {"JournalError"} <= set(drawn)
