"""Properties of the code itself: sizes, names, and nothing left behind."""

import ast
import re
from pathlib import Path

import pytest

from tests.conftest import LONGEST_FIRST

ROOT = Path(__file__).parents[2]
PACKAGES = ("agentops", "journal", "reports", "trainer")
SOURCES = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))
SUPPORT = sorted((ROOT / "tests" / "support").rglob("*.py"))
OTHERS = [
    path
    for folder in ("tests", "benchmarks")
    for path in sorted((ROOT / folder).rglob("*.py"))
    if path not in SUPPORT
]
TEXTS = sorted(
    path
    for pattern in ("*.md", "*.toml", "Makefile", ".ci/*", "docs/**/*.md")
    for path in ROOT.glob(pattern)
)

LINES_MAX = 400
FUNCTION_LINES_MAX = 60
BANNED_NAME = re.compile(r"(^|_)(utils?|helpers?|managers?|misc|common)($|_)", re.IGNORECASE)
BANNED_CLASS = re.compile(r"(Manager|Helper|Util|Utils)$")


def _name(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("path", [*SOURCES, *SUPPORT], ids=_name)
def test_module_is_tidy(path: Path) -> None:
    """A module opens with a docstring and fits in the reader's head; so does each function."""
    module = _of_fitting_size(path)
    assert ast.get_docstring(module), "no module docstring"
    assert not BANNED_NAME.search(path.stem)
    for node in ast.walk(module):
        if isinstance(node, ast.ClassDef):
            assert not BANNED_CLASS.search(node.name)


def test_tests_and_benchmarks_are_of_the_same_size() -> None:
    for path in OTHERS:
        _of_fitting_size(path)


@pytest.mark.parametrize("path", SOURCES, ids=_name)
def test_no_handler_takes_every_error(path: Path) -> None:
    """A bug ends the program with its traceback, unless the handler raises it again."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ExceptHandler):
            assert not _is_broad(node), f"broad except at line {node.lineno}"


@pytest.mark.parametrize("path", SOURCES, ids=_name)
def test_nothing_is_left_unfinished(path: Path) -> None:
    source = path.read_text(encoding="utf-8")
    for mark in ("TODO", "FIXME", "XXX", "NotImplementedError"):
        assert mark not in source
    assert "unittest.mock" not in source


@pytest.mark.parametrize("path", TEXTS, ids=_name)
def test_links_between_pages_lead_somewhere(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    for target in re.findall(r"\]\((?!https?:|#|mailto:)([^)#\s]+)", text):
        assert (path.parent / target).exists(), target


def test_the_files_that_run_first_are_there() -> None:
    names = [path.name for path in OTHERS]
    assert [name for name in LONGEST_FIRST if name not in names] == []


def test_packages_name_what_they_hold() -> None:
    """Every package and folder of the tree opens with a docstring that says what it is."""
    for package in {path.parent for path in SOURCES}:
        opening = package / "__init__.py"
        if any(package.glob("*.py")):
            assert opening.exists() or package.name == "files", _name(package)


def _of_fitting_size(path: Path) -> ast.Module:
    source = path.read_text(encoding="utf-8")
    assert source.count("\n") <= LINES_MAX, path
    module = ast.parse(source)
    for node in ast.walk(module):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert node.end_lineno is not None
            assert node.end_lineno - node.lineno < FUNCTION_LINES_MAX, node.name
    return module


def _is_broad(handler: ast.ExceptHandler) -> bool:
    if handler.type is None:
        return True
    reraises = any(isinstance(node, ast.Raise) and node.exc is None for node in ast.walk(handler))
    names = {node.id for node in ast.walk(handler.type) if isinstance(node, ast.Name)}
    return bool(names & {"Exception", "BaseException"}) and not reraises
