"""The page about the command line, as far as the parser knows it: docs/cli.md below its marker.

``python -m tests.support.cli_page`` writes that part anew; a test compares it. What a person wrote
above the marker is left alone.
"""

import argparse
from collections.abc import Iterator
from pathlib import Path

from agentops.cli.main import build_parser

PAGE = Path(__file__).parents[2] / "docs" / "cli.md"
MARKER = "<!-- From here on: python -m tests.support.cli_page -->\n"


def section() -> str:
    """All commands in the order of ``agentops --help``, each with every argument."""
    return "\n".join(_commands(build_parser(), ()))


def _commands(parser: argparse.ArgumentParser, path: tuple[str, ...]) -> Iterator[str]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            helps = {choice.dest: choice.help or "" for choice in action._choices_actions}
            for name, child in action.choices.items():
                words = (*path, name)
                yield f"\n{'#' * (len(words) + 2)} `agentops {' '.join(words)}`\n"
                yield _sentence(helps.get(name, ""))
                yield from _arguments(child)
                yield from _commands(child, words)


def _arguments(parser: argparse.ArgumentParser) -> Iterator[str]:
    shown = [
        action
        for action in parser._actions
        if not isinstance(action, argparse._SubParsersAction | argparse._HelpAction)
    ]
    if shown:
        yield "\n| argument | meaning |\n| --- | --- |"
    for action in shown:
        yield f"| {_name(action)} | {_meaning(action)} |"


def _name(action: argparse.Action) -> str:
    value = action.metavar or (action.dest.upper() if action.option_strings else action.dest)
    if action.option_strings:
        takes = "" if action.nargs == 0 else f" {value}"
        return " or ".join(f"`{flag}{takes}`" for flag in action.option_strings)
    return f"`{value}`"


def _meaning(action: argparse.Action) -> str:
    words = [(action.help or "").replace("%%", "%").replace("|", "\\|")]
    if action.choices is not None:
        words.append("one of " + ", ".join(f"`{choice}`" for choice in action.choices))
    if action.required and action.option_strings:
        words.append("required")
    if action.nargs in {"?", "*"}:
        words.append("may be left out")
    if action.default not in (None, False, argparse.SUPPRESS, [], "") and action.nargs != 0:
        words.append(f"default `{action.default}`")
    return "; ".join(word for word in words if word)


def _sentence(text: str) -> str:
    whole = text if text.endswith((".", "?")) else text + "."
    return whole[:1].upper() + whole[1:]


def main() -> None:
    """Write the part below the marker anew."""
    above, found, _ = PAGE.read_text("utf-8").partition(MARKER)
    if not found:
        raise SystemExit(f"{PAGE} has no marker line {MARKER!r}")
    PAGE.write_text(above + MARKER + section() + "\n", "utf-8")


if __name__ == "__main__":
    main()
