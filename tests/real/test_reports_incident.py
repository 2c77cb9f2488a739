"""Reports on an incident that really happened: a stub trainer, a real sshd, real signals.

One recovery is run for all of these; the notebooks are executed on its journal.
"""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentops.box.box import Box
from agentops.box.waiting import wait_for
from agentops.cli.playing import parse
from journal import Reader
from reports.build import build_report
from reports.compliance import Surroundings, comply, unexplained
from reports.evidence import gather
from reports.lint import lint
from reports.predicates import registry
from reports.render.html import render_html
from reports.render.markdown import render_markdown
from reports.replay import cast, reparse
from tests.support.recovering import stage

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"

pytestmark = [
    pytest.mark.needs("sshd"),
    pytest.mark.needs("root-namespaces"),
]


@pytest.fixture(scope="module")
def incident(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reader]:
    """A journal of one recovery from threads that survive an interrupt."""
    folder = tmp_path_factory.mktemp("incident")
    with Box() as box:
        place = stage(box, folder)
        place.start("threads")
        beat = place.folder / "heartbeat.json"
        wait_for(lambda: beat.exists() or None, 20, "a heartbeat")
        asyncio.run(place.recover())
        yield Reader.open(place.journal)


def test_all_claims_hold_and_the_linter_finds_nothing(incident: Reader) -> None:
    report = build_report(incident, depth="command")
    evidence = gather(incident, report.incident)
    assert [c.predicate for c in report.claims() if not registry.holds(evidence, c)] == []
    assert lint(render_markdown(report), incident) == ()
    assert lint(render_html(report), incident) == ()


def test_the_report_tells_the_incident(incident: Reader) -> None:
    report = build_report(incident)
    assert report.theme.text == "The Second Interrupt"
    text = render_markdown(report)
    assert "It ended as RECOVERED after" in text
    assert "Innocents touched: 0" in text
    assert "`INT` did not suffice" in text
    assert "worker threads go on after the interrupt" in text


def test_today_s_parsers_read_the_recorded_bytes_as_they_were_read(incident: Reader) -> None:
    found = reparse(incident, parse)
    assert found.drifts == ()
    assert found.not_rebuilt == ("deploy_files",)
    assert found.compared > 8


def test_the_auditor_s_items_fail_only_for_what_is_missing(incident: Reader) -> None:
    answers = comply(incident, Surroundings("unanchored", mode=0o700, findings=0))
    failing = {item.id for item, answer in answers if answer.status == "fail"}
    assert failing <= {"L12", "L13", "L17"}
    assert unexplained(incident) == ()


def test_the_session_plays_back(incident: Reader) -> None:
    header, *lines = cast(incident).splitlines()
    assert json.loads(header)["version"] == 3
    assert len(lines) > 30


@pytest.mark.parametrize("path", sorted(NOTEBOOKS.glob("0[123]_*.ipynb")), ids=lambda p: p.stem)
def test_a_notebook_runs_and_is_kept_without_outputs(
    path: Path, incident: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    cells = [cell for cell in json.loads(path.read_text())["cells"] if cell["cell_type"] == "code"]
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in cells)
    monkeypatch.setenv("AGENTOPS_JOURNAL", str(incident.layout.root))
    monkeypatch.setenv("MPLBACKEND", "agg")
    names: dict[str, object] = {"__name__": "__main__"}
    for number, cell in enumerate(cells):
        code = compile("".join(cell["source"]), f"{path.name}:{number}", "exec")
        exec(code, names)  # noqa: S102  (our own notebook, run as a reader would)
