"""How many small faults in a module its tests notice, by mutmut.

A copy of the last commit is made, mutmut changes one thing at a time in the given modules and runs
the given tests, and what survived is told with its place: words for people alone are counted,
anything else is listed. A reason that OUT.json gives already for a survivor is kept, and so are
other modules. It needs ``pip install mutmut`` in the interpreter that runs it. Run in the
repository's root as

    python benchmarks/mutation.py OUT.json agentops/policy/guards.py -- tests/pure/…

With --read FOLDER an earlier run's folder is only counted. One process; a module takes minutes.
"""

import argparse
import ast
import difflib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

NOT_TESTED, SURVIVED = 33, 0
SHOWN_AROUND = 40
# Plugins that the tests of pure modules do not need cost more than most of these tests.
_TABLE = """
[tool.mutmut]
source_paths = ["agentops"]
also_copy = ["tests", "journal", "reports", "trainer", "docs", "benchmarks"]
timeout_multiplier = 4.0
track_dependencies = false
use_setproctitle = false
pytest_add_cli_args = [
  "-p", "pytest_timeout", "-p", "pytest_asyncio.plugin",
  "-p", "no:unraisableexception", "-p", "no:cacheprovider",
]
only_mutate = {modules}
pytest_add_cli_args_test_selection = {tests}
"""


class _Wordless(ast.NodeTransformer):
    """Makes all texts the same, so that two trees differ by more than words."""

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        """Any text becomes one text."""
        return ast.Constant("") if isinstance(node.value, str) else node

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.AST:
        """And so does a text with holes."""
        del node
        return ast.Constant("")


def run(folder: Path, modules: list[str], tests: list[str]) -> None:
    """Copy the last commit into *folder* and let mutmut work there."""
    archive = subprocess.run(["git", "archive", "HEAD"], capture_output=True, check=True)
    subprocess.run(["tar", "x", "-C", str(folder)], input=archive.stdout, check=True)
    with (folder / "pyproject.toml").open("a", encoding="utf-8") as file:
        file.write(_TABLE.format(modules=json.dumps(modules), tests=json.dumps(tests)))
    subprocess.run(
        [sys.executable, "-m", "mutmut", "run", "--max-children", "1"],
        cwd=folder,
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        check=False,
    )


def counted(folder: Path, module: str, reasons: dict[str, str]) -> dict[str, object]:
    """What became of one module's mutants; *reasons* by change are kept."""
    place = folder / "mutants" / module
    known = json.loads(place.with_name(place.name + ".meta").read_text("utf-8"))
    statuses: dict[str, int | None] = known["exit_code_by_key"]
    done = {key: status for key, status in statuses.items() if status is not None}
    functions = {
        node.name: node
        for node in ast.walk(ast.parse(place.read_text("utf-8")))
        if isinstance(node, ast.FunctionDef)
    }
    survivors, words = [], 0
    for key in sorted(key for key, status in done.items() if status in {SURVIVED, NOT_TESTED}):
        name = key.rpartition(".")[2]
        base = name.partition("__mutmut_")[0]
        old = functions[base + "__mutmut_orig"]
        if _text(old, wordless=True) == _text(functions[name], wordless=True):
            words += 1
        else:
            change = f"{base.removeprefix('x_')}: {_change(old, functions[name])}"
            survivors.append({"change": change, "why": reasons.get(change, "")})
    noticed = len(done) - words - len(survivors)
    return {
        "mutants": len(done),
        "not_run": len(statuses) - len(done),
        "noticed": noticed,
        "per_cent": round(100 * noticed / len(done), 1) if done else None,
        "survivors_in_words_only": words,
        "survivors": survivors,
    }


def _text(function: ast.FunctionDef, *, wordless: bool) -> str:
    again = ast.parse(ast.unparse(function)).body[0]
    assert isinstance(again, ast.FunctionDef)
    again.name = "f"
    again.decorator_list = []
    return ast.unparse(_Wordless().visit(again) if wordless else again)


def _change(old: ast.FunctionDef, new: ast.FunctionDef) -> str:
    """The changed part of the changed lines, with a little around it."""
    before, after = (_text(each, wordless=False).splitlines() for each in (old, new))
    lines = list(difflib.unified_diff(before, after, n=0, lineterm=""))
    gone, come = (
        " ".join(line[1:].strip() for line in lines if line[:1] == sign and line[:3] != sign * 3)
        for sign in "-+"
    )
    return " => ".join(_narrowed(gone, come))


def _narrowed(gone: str, come: str) -> Iterator[str]:
    start = _common(gone, come)
    end = _common(gone[start:][::-1], come[start:][::-1])
    for line in (gone, come):
        yield line[max(0, start - SHOWN_AROUND) : len(line) - max(0, end - SHOWN_AROUND)]


def _common(first: str, second: str) -> int:
    """How many characters both begin with."""
    pairs = enumerate(zip(first, second, strict=False))
    return next((at for at, (one, other) in pairs if one != other), min(len(first), len(second)))


def main() -> None:
    """Run or read, count, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("modules", nargs="+")
    parser.add_argument("--read", type=Path, metavar="FOLDER")
    words = sys.argv[1:]
    cut = words.index("--") if "--" in words else len(words)
    arguments = parser.parse_args(words[:cut])
    head = subprocess.run(
        ["git", "show", "-s", "--format=%h %cs"], capture_output=True, text=True, check=True
    )
    commit, date = head.stdout.split()
    body = json.loads(arguments.out.read_text("utf-8")) if arguments.out.exists() else {}
    modules = body.setdefault("modules", {})
    with tempfile.TemporaryDirectory(prefix="mutation-") as made:
        folder = arguments.read or Path(made)
        if arguments.read is None:
            run(folder, arguments.modules, words[cut + 1 :])
        for module in arguments.modules:
            listed = modules.get(module, {}).get("survivors", [])
            reasons = {each["change"]: each["why"] for each in listed}
            modules[module] = {
                "date": date,
                "commit": commit,
                "tests": words[cut + 1 :],
                **counted(folder, module, reasons),
            }
    body["tool"] = "mutmut 3"
    arguments.out.write_text(json.dumps(body, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
