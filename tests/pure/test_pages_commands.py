"""What the pages tell people to type, and where they send them: each is there.

Here: commands, targets and paths as the parser, the Makefile and the tree know them. Not here:
running what the pages show (``tests/real/test_pages_sessions.py``).
"""

import argparse
import re
import shlex
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from agentops.cli.main import build_parser
from trainer.cli import parser as trainer_parser

ROOT = Path(__file__).parents[2]
PAGES = sorted({*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")})
BLOCK = re.compile(r"^( *)```(\w*)\n(.*?)^\1```", re.MULTILINE | re.DOTALL)
FOLDERS = ("agentops", "journal", "reports", "trainer", "tests", "benchmarks", "docs", "notebooks")
# Placeholders, and what a run makes.
_NAMED_ONLY = re.compile(r"docs/runs/|/NAME\b|\.jsonl$|\.duckdb$")

pytestmark = pytest.mark.skipif(
    not (ROOT / "Makefile").is_file(), reason="what the pages name is in the source tree only"
)


def _name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def shown(text: str) -> Iterator[str]:
    """Lines of a page's blocks that are typed into a shell."""
    for _, language, body in BLOCK.findall(text):
        for line in body.replace("\\\n", " ").splitlines():
            typed = line.strip()
            if language in {"console", ""} and typed.startswith("$ "):
                yield typed[2:]
            elif language == "sh" or (language == "" and typed.startswith("agentops ")):
                yield typed


def leaf(words: list[str]) -> tuple[argparse.ArgumentParser, list[str]]:
    """The parser of the command that the words begin with, and what is left of them."""
    parser = build_parser()
    while True:
        below = next(
            (a for a in parser._actions if isinstance(a, argparse._SubParsersAction)), None
        )
        if below is None or not words or words[0] not in below.choices:
            return parser, words
        parser, words = below.choices[words[0]], words[1:]


def words_of(line: str) -> list[str]:
    """The words of one command; what comes behind it in the shell is left out."""
    words = shlex.split(line, comments=True)
    ends = [place for place, word in enumerate(words) if word in {"&&", "|", ";", ">"}]
    return words[: ends[0]] if ends else words


@pytest.mark.parametrize("path", PAGES, ids=_name)
def test_every_command_that_a_page_shows_is_accepted(path: Path) -> None:
    for line in shown(path.read_text(encoding="utf-8")):
        for part in line.split("&&"):
            words = words_of(part)
            if words[:1] == ["agentops"]:
                build_parser(words[1]).parse_args(words[1:])
            if words[:3] == ["python", "-m", "trainer"]:
                trainer_parser().parse_args(words[3:])


@pytest.mark.parametrize("path", PAGES, ids=_name)
def test_every_command_that_a_page_names_has_its_flags(path: Path) -> None:
    text = BLOCK.sub("", path.read_text(encoding="utf-8"))
    for line in re.findall(r"`agentops ([a-z][^`]*)`", text):
        spoken = re.sub(r"[\[\]]", "", line).split()
        first = spoken[0].split("|")
        for command in first:
            parser, rest = leaf([command, *spoken[1:]])
            assert parser.prog.split()[1:2] == [command], line
            for word in rest:
                if word.startswith("-"):
                    flag = word.partition("=")[0]
                    assert flag in parser._option_string_actions, f"{line}: {flag}"


@pytest.mark.parametrize("path", PAGES, ids=_name)
def test_every_target_module_and_path_that_a_page_names_is_there(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    targets = re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    typed = [*re.findall(r"`(make [a-z]+)", text), *(s for s in shown(text) if s[:5] == "make ")]
    assert [line for line in typed if line.split()[1] not in targets] == []
    modules = re.findall(r"python3? (?:-P )?-m ((?:trainer|tests|benchmarks)[\w.]*)", text)
    assert [name for name in modules if find_spec(name) is None] == []
    paths = re.findall(rf"(?<![\w./~-])((?:{'|'.join(FOLDERS)})/[\w./-]*[\w/])(?![\w*{{<-])", text)
    missing = [
        named
        for named in paths
        if not _NAMED_ONLY.search(named) and not (ROOT / named.rstrip("./")).exists()
    ]
    assert missing == []
