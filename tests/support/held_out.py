"""A folder of reports by another hand, held to the linter: what is objected to, what is found.

The folder has honest reports (``*.md``), lies (``mutants.jsonl`` or ``lies.jsonl``: report,
operator, original, mutant), journals (``journals/``, kept as text or as they were written) and JSON
that says which journal a report speaks of: one object for all, or beside each report one with the
member ``journal``. Here: reading such a folder, counting, the table. Not here: what is good enough
(``tests/real/test_lint_held_out.py``).
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from journal import Reader
from reports.lint import Finding, lint
from reports.lint.document import read
from reports.lint.findings import Ground
from reports.lint.record import record
from tests.support.mutations import OPERATORS
from tests.support.retold import retell

_LIES = ("mutants.jsonl", "lies.jsonl")
_LINE_MIN = 30


@dataclass(frozen=True)
class Told:
    """One honest report with its journal, and what the linter says of it as it is."""

    name: str
    text: str
    reader: Reader
    ground: Ground
    objections: tuple[Finding, ...]

    @property
    def sentences(self) -> int:
        """How many sentences it has."""
        return len(read(self.text).sentences)

    @property
    def objected(self) -> int:
        """How many of them are objected to."""
        return len({finding.excerpt for finding in self.objections})

    def found(self, text: str) -> tuple[Finding, ...]:
        """What the linter says of another text and does not say of this one."""
        before = {(finding.rule, finding.excerpt) for finding in self.objections}
        found = lint(text, self.reader, ground=self.ground)
        return tuple(f for f in found if (f.rule, f.excerpt) not in before)


@dataclass(frozen=True)
class Lie:
    """One sentence of a report, changed; ``why`` it is false, and what the linter says of it."""

    report: str
    operator: str
    mutant: str
    why: str
    findings: tuple[Finding, ...]


@dataclass(frozen=True)
class HeldOut:
    """All reports of a folder, and all lies."""

    reports: tuple[Told, ...]
    lies: tuple[Lie, ...]

    def rate(self, *, report: str | None = None, operator: str | None = None) -> tuple[int, int]:
        """Lies found and told, of a report or of a kind."""
        chosen = [
            lie
            for lie in self.lies
            if report in {None, lie.report} and operator in {None, lie.operator}
        ]
        return sum(bool(lie.findings) for lie in chosen), len(chosen)

    @property
    def objected(self) -> tuple[int, int]:
        """Honest sentences objected to, and all of them."""
        return sum(r.objected for r in self.reports), sum(r.sentences for r in self.reports)

    @property
    def precision(self) -> float:
        """Of all sentences that are objected to, honest or not, the share of lies."""
        found, false = self.rate()[0], self.objected[0]
        return found / max(1, found + false)


def held_out(folder: Path, scratch: Path) -> HeldOut:
    """The folder's reports and lies with what the linter says; journals are told into *scratch*."""
    kept = {path.stem: path for path in sorted((folder / "journals").iterdir())}
    lies = _lies(folder)
    readers = {name: _opened(path, scratch) for name, path in kept.items()}
    grounds = {name: Ground(record(reader)) for name, reader in readers.items()}
    named = _journals(folder, set(kept))
    reports = []
    for path in sorted(folder.glob("*.md")):
        if path.name not in named:
            continue
        on, text = named[path.name], path.read_text("utf-8")
        found = lint(text, readers[on], ground=grounds[on])
        reports.append(Told(path.name, text, readers[on], grounds[on], found))
    by_name = {report.name: report for report in reports}
    return HeldOut(tuple(reports), tuple(_told(lie, by_name) for lie in lies))


def _opened(path: Path, scratch: Path) -> Reader:
    return Reader.open(path) if path.is_dir() else retell(path, scratch)


def _lies(folder: Path) -> list[dict[str, str]]:
    path = next(path for name in _LIES if (path := folder / name).exists())
    return [json.loads(line) for line in path.read_text("utf-8").splitlines() if line.strip()]


def _told(lie: Mapping[str, str], reports: Mapping[str, Told]) -> Lie:
    report = reports[_file(lie["report"])]
    assert lie["original"] in report.text, (report.name, lie["original"])
    text = report.text.replace(lie["original"], lie["mutant"], 1)
    why = lie.get("why_false", lie.get("why", ""))
    return Lie(report.name, lie["operator"], lie["mutant"], why, report.found(text))


def _file(name: str) -> str:
    return name if name.endswith(".md") else f"{name}.md"


def _journals(folder: Path, kept: set[str]) -> dict[str, str]:
    """Report file to journal name."""
    named: dict[str, str] = {}
    for path in sorted(folder.glob("*.json")):
        known = json.loads(path.read_text("utf-8"))
        if not isinstance(known, dict):
            continue
        pairs = {path.stem: known["journal"]} if "journal" in known else known
        said = {_file(name): Path(on).stem for name, on in pairs.items() if isinstance(on, str)}
        named |= {report: on for report, on in said.items() if on in kept}
    return named


def mechanical(told: HeldOut) -> dict[str, tuple[int, int]]:
    """Small changes of every line by operator: found and made. Some of them are no lies."""
    tally = dict.fromkeys(OPERATORS, (0, 0))
    for report in told.reports:
        for name, text in _changed(report.text):
            found, made = tally[name]
            tally[name] = (found + bool(report.found(text)), made + 1)
    return tally


def _changed(text: str) -> Iterator[tuple[str, str]]:
    for line in text.splitlines():
        if len(line) < _LINE_MIN or line.startswith(("#", "`", "|")):
            continue
        for name, operator in OPERATORS.items():
            changed = operator(line)
            if changed is not None and changed != line:
                yield name, text.replace(line, changed, 1)


def table(told: HeldOut) -> str:
    """What was found, by report and by kind of lie, as Markdown."""
    lines = [
        "| report | sentences | objected to | lies | found |",
        "| --- | --- | --- | --- | --- |",
    ]
    for report in told.reports:
        found, lies = told.rate(report=report.name)
        row = (report.name, report.sentences, report.objected, lies, found)
        lines.append(f"| {' | '.join(map(str, row))} |")
    lines += ["", "| operator | lies | found |", "| --- | --- | --- |"]
    for operator in sorted({lie.operator for lie in told.lies}):
        found, lies = told.rate(operator=operator)
        lines.append(f"| {operator} | {lies} | {found} |")
    found, lies = told.rate()
    objected, sentences = told.objected
    lines += [
        "",
        f"honest sentences untouched: {sentences - objected} of {sentences}",
        f"lies found: {found} of {lies} ({found / max(1, lies):.1%})",
        f"precision: {found} of {found + objected} objections deserved ({told.precision:.1%})",
    ]
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> int:
    """Print the table for a folder; with ``--show`` also each false alarm and each missed lie."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--show", action="store_true", help="print what went wrong, word for word")
    parser.add_argument("--mechanical", action="store_true", help="small changes of every line too")
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="held-out-") as scratch:
        told = held_out(given.folder, Path(scratch))
        print(table(told))  # noqa: T201
        if given.mechanical:
            for name, (found, made) in mechanical(told).items():
                print(f"mechanical {name}: {found} of {made}")  # noqa: T201
    if given.show:
        for report in told.reports:
            for finding in report.objections:
                print(report.name, "HONEST", finding.rule, finding.message, "|", finding.excerpt)  # noqa: T201
        for lie in told.lies:
            if not lie.findings:
                print(lie.report, "MISSED", lie.operator, "|", lie.mutant, "|", lie.why)  # noqa: T201
    return 0


if __name__ == "__main__":
    sys.exit(main())
