"""The page about the command line says what the parser knows: every command and every argument."""

import re

from tests.support.cli_page import MARKER, PAGE, section


def test_the_page_tells_every_command_and_argument_as_the_parser_knows_them() -> None:
    _, found, written = PAGE.read_text("utf-8").partition(MARKER)
    assert found
    assert written == section() + "\n", "run: python -m tests.support.cli_page"


def test_every_argument_has_its_meaning() -> None:
    assert re.findall(r"(?m)^\| (`[^|]*`) \| +\|$", section()) == []
