"""How many small faults in a module its tests notice.

Each mutant changes one comparison, connective, negation, number or truth value of the module's
source, in memory, in a forked process that then runs the given tests. A mutant that no test notices
survives; its line is printed. Run as

    python benchmarks/mutation.py agentops/policy/guards.py tests/pure/test_policy_guards.py …
"""

import argparse
import ast
import copy
import importlib.abc
import importlib.machinery
import importlib.util
import json
import os
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType

import pydantic
import pytest

ROOT = Path(__file__).parents[1]
PRELOADED = (pydantic, pytest)
SWAPS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}


def changes(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    """Each way to change *node* itself: what was changed, and the changed copy."""
    match node:
        case ast.Compare():
            for index, op in enumerate(node.ops):
                compare = copy.deepcopy(node)
                compare.ops[index] = SWAPS[type(op)]()
                yield f"{type(op).__name__} → {SWAPS[type(op)].__name__}", compare
        case ast.BoolOp():
            logic = copy.deepcopy(node)
            logic.op = ast.Or() if isinstance(node.op, ast.And) else ast.And()
            yield f"{type(node.op).__name__} → {type(logic.op).__name__}", logic
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield "not removed", copy.deepcopy(operand)
        case ast.Constant(value=bool() as value):
            yield f"{value} → {not value}", ast.Constant(not value)
        case ast.Constant(value=int() as value):
            yield f"{value} → {value + 1}", ast.Constant(value + 1)
        case _:
            return


class _Put(ast.NodeTransformer):
    """Puts one node in another's place, found by its order in a walk."""

    def __init__(self, place: int, new: ast.AST) -> None:
        self._left = place
        self._new = new

    def visit(self, node: ast.AST) -> ast.AST:
        """Count nodes down to the place."""
        if self._left == 0:
            self._left = -1
            return ast.copy_location(self._new, node)
        self._left -= 1
        self.generic_visit(node)
        return node


def preorder(node: ast.AST) -> Iterator[ast.AST]:
    """All nodes in the order in which ``_Put`` meets them."""
    yield node
    for child in ast.iter_child_nodes(node):
        yield from preorder(child)


def mutants(source: str) -> Iterator[tuple[int, str, ast.Module]]:
    """Each mutant of *source*: line, what was changed, tree; not of annotations and decorators."""
    tree = ast.parse(source)
    skipped = {
        id(inner)
        for node in ast.walk(tree)
        for part in (
            getattr(node, "annotation", None),
            getattr(node, "returns", None),
            *getattr(node, "decorator_list", ()),
        )
        if isinstance(part, ast.AST)
        for inner in ast.walk(part)
    }
    for place, node in enumerate(preorder(tree)):
        if id(node) in skipped:
            continue
        for said, new in changes(node):
            other = ast.parse(source)
            _Put(place, new).visit(other)
            yield getattr(node, "lineno", 0), said, ast.fix_missing_locations(other)


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Gives the mutant wherever the module is imported."""

    def __init__(self, name: str, path: Path, tree: ast.Module) -> None:
        self._name = name
        self._path = path
        self._tree = tree

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """The mutant's spec for its own name."""
        del path, target
        if fullname != self._name:
            return None
        return importlib.util.spec_from_file_location(fullname, self._path, loader=self)

    def exec_module(self, module: ModuleType) -> None:
        """Run the mutant's tree."""
        exec(compile(self._tree, str(self._path), "exec"), module.__dict__)  # noqa: S102 - its job


def noticed(name: str, path: Path, tree: ast.Module, tests: Sequence[str]) -> bool:
    """Whether a test fails with the mutant in the module's place; in a process of its own."""
    child = os.fork()
    if child == 0:
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 1)
        os.dup2(null, 2)
        sys.meta_path.insert(0, Finder(name, path, tree))
        words = ["-x", "-q", "-p", "no:cacheprovider", "--timeout=60", *tests]
        os._exit(0 if pytest.main(words) == 0 else 1)
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status) != 0


def main() -> None:
    """Run all mutants of one module and print the score as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("module", type=Path)
    parser.add_argument("tests", nargs="+")
    arguments = parser.parse_args()
    os.chdir(ROOT)
    sys.path.insert(0, str(ROOT))
    name = ".".join(arguments.module.with_suffix("").parts)
    path = (ROOT / arguments.module).resolve()
    source = path.read_text(encoding="utf-8")
    if noticed(name, path, ast.parse(source), arguments.tests):
        sys.exit("the tests fail without any mutant")
    survivors: list[str] = []
    count = 0
    began = time.monotonic()
    for line, said, tree in mutants(source):
        count += 1
        if not noticed(name, path, tree, arguments.tests):
            survivors.append(f"{arguments.module}:{line}: {said}")
            print(survivors[-1], file=sys.stderr, flush=True)
    killed = count - len(survivors)
    print(
        json.dumps(
            {
                "module": str(arguments.module),
                "mutants": count,
                "noticed": killed,
                "per_cent": round(100 * killed / count, 1) if count else 100.0,
                "survivors": survivors,
                "seconds": round(time.monotonic() - began),
            },
            indent=1,
        )
    )


if __name__ == "__main__":
    main()
