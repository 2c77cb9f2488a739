"""How many small faults in a module its tests notice, by mutmut.

A copy of the last commit is made, mutmut changes one thing at a time in the given modules and runs
the given tests, and what survived is sorted: words for people alone, or anything else. It needs
``pip install mutmut`` in the interpreter that runs it. Run in the repository's root as

    python benchmarks/mutation.py OUT.json agentops/policy/guards.py -- tests/pure/…

With --read FOLDER an earlier run's folder is only counted.
"""

import argparse
import ast
import difflib
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

NOT_TESTED, SURVIVED = 33, 0
_TABLE = """
[tool.mutmut]
source_paths = ["agentops"]
also_copy = ["tests", "journal", "reports", "trainer", "docs", "benchmarks"]
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
    subprocess.run([sys.executable, "-m", "mutmut", "run"], cwd=folder, check=False)


def counted(folder: Path, module: str) -> dict[str, object]:
    """What became of one module's mutants."""
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
        old = functions[name.partition("__mutmut_")[0] + "__mutmut_orig"]
        if _text(old, wordless=True) == _text(functions[name], wordless=True):
            words += 1
        else:
            changed = " ".join(_changes(old, functions[name]))
            survivors.append(f"{name.partition('__mutmut_')[0].removeprefix('x_')}: {changed}")
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


def _changes(old: ast.FunctionDef, new: ast.FunctionDef) -> Iterator[str]:
    before, after = (_text(each, wordless=False).splitlines() for each in (old, new))
    for line in difflib.unified_diff(before, after, n=0, lineterm=""):
        if line[:1] in "+-" and line[:3] not in {"+++", "---"}:
            yield line[:1] + line[1:].strip()[:160]


def main() -> None:
    """Run or read, count, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("modules", nargs="+")
    parser.add_argument("--read", type=Path, metavar="FOLDER")
    words = sys.argv[1:]
    cut = words.index("--") if "--" in words else len(words)
    arguments = parser.parse_args(words[:cut])
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=True
    ).stdout.strip()
    with tempfile.TemporaryDirectory(prefix="mutation-") as made:
        folder = arguments.read or Path(made)
        if arguments.read is None:
            run(folder, arguments.modules, words[cut + 1 :])
        found = {module: counted(folder, module) for module in arguments.modules}
    body = {"commit": commit, "tests": words[cut + 1 :], "modules": found}
    arguments.out.write_text(json.dumps(body, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
