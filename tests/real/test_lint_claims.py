"""The linter on sentences of ours: at every depth, in both forms, with and without their head."""

from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import pytest

from journal import Reader
from reports import build_report, render_html, render_line, render_markdown
from reports.lint import Finding, lint
from reports.lint.findings import Ground
from reports.lint.record import record
from reports.model import Depth
from tests.support.mutations import OPERATORS
from tests.support.retold import retell

KEPT = Path(__file__).parents[1] / "golden" / "reports" / "held_out" / "journals"
CAUGHT_MIN = 0.95
EDITS = (
    ("Signals sent: 2", "Signals sent: 3"),
    ("`TERM` 1 time", "`KILL` 1 time"),
    ("from step 15", "from no step"),
    ("Human `root@vm`", "Agent `root@vm`"),
    ("After the last acting", "Before the last acting"),
)
_AS_HTML = {
    "Signals sent: 2": ("Signals sent: <b>2</b>", "Signals sent: <b>3</b>"),
    "`TERM` 1 time": (
        "<code>TERM</code> <b>1\u00a0time</b>",
        "<code>KILL</code> <b>1\u00a0time</b>",
    ),
    "from step 15": ("from step <b>15</b>", "from no step"),
    "Human `root@vm`": ("<b>Human</b> <code>root@vm", "<b>Agent</b> <code>root@vm"),
}


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Reader, Ground]]:
    folder = tmp_path_factory.mktemp("retold")
    readers = {path.stem: retell(path, folder) for path in sorted(KEPT.iterdir())}
    return {name: (reader, Ground(record(reader))) for name, reader in readers.items()}


@pytest.fixture(scope="module")
def wrapper(told: dict[str, tuple[Reader, Ground]]) -> tuple[Reader, Ground]:
    return told["respawning-wrapper"]


def headless(text: str) -> str:
    """A report of ours that no longer says that it is one."""
    return text.replace("Report of incident", "On")


def objections(text: str, on: tuple[Reader, Ground]) -> list[Finding]:
    return [finding for finding in lint(text, on[0], ground=on[1]) if finding.rule == "C24"]


@pytest.mark.parametrize("page_of", [str, headless])
@pytest.mark.parametrize(("right", "wrong"), EDITS)
def test_an_edited_sentence_of_a_summary_is_objected_to_and_the_true_one_named(
    right: str, wrong: str, page_of: Callable[[str], str], wrapper: tuple[Reader, Ground]
) -> None:
    report = build_report(wrapper[0], depth="summary")
    in_html = (render_html(report), *_AS_HTML.get(right, (right, wrong)))
    for page, before, after in ((render_markdown(report), right, wrong), in_html):
        text = page_of(page)
        assert text.count(before) == 1
        (finding,) = objections(text.replace(before, after), wrapper)
        assert right.replace("`", "") in finding.message.replace("`", "")


def test_an_edited_sentence_alone_is_objected_to(wrapper: tuple[Reader, Ground]) -> None:
    page = render_markdown(build_report(wrapper[0], depth="summary"))
    for right, wrong in EDITS:
        (sentence,) = (line for line in page.splitlines() if right in line)
        assert lint(sentence, wrapper[0], ground=wrapper[1]) == ()
        assert objections(sentence.replace(right, wrong), wrapper)


def test_a_sentence_of_ours_on_other_events_is_objected_to(wrapper: tuple[Reader, Ground]) -> None:
    page = render_markdown(build_report(wrapper[0], depth="summary"))
    (sentence,) = (line for line in page.splitlines() if "Signals sent" in line)
    assert objections(sentence[: sentence.rindex("[")], wrapper)


def test_an_incident_is_resolved_when_it_ended_as_recovered(
    told: dict[str, tuple[Reader, Ground]],
) -> None:
    for name in ("respawning-wrapper", "hang"):
        reader, ground = told[name]
        for words in ("was not resolved", "remains unresolved", "has never been resolved"):
            rules = {f.rule for f in lint(f"The incident {words}.\n", reader, ground=ground)}
            assert "C13" in rules, words
        (ending,) = reader.events(kinds={"incident_closed"})
        right = f"The incident was resolved. [e{ending.seq:04d}·{ending.leaf[:8]}]\n"
        assert lint(right, reader, ground=ground) == ()


@pytest.mark.parametrize("depth", ["line", "summary"])
def test_our_short_reports_have_no_finding_with_or_without_their_head(
    depth: str, told: dict[str, tuple[Reader, Ground]]
) -> None:
    for reader, ground in told.values():
        report = build_report(reader, depth="line" if depth == "line" else "summary")
        for page in (render_markdown(report), render_html(report), render_line(report)):
            assert lint(page, reader, ground=ground) == ()
            assert objections(headless(page), (reader, ground)) == []


@pytest.mark.parametrize("depth", ["incident", "command"])
@pytest.mark.parametrize("name", ["none", "ignores-interrupt"])
def test_our_whole_reports_on_recorded_incidents_have_no_finding(
    name: str, depth: Depth, told: dict[str, tuple[Reader, Ground]]
) -> None:
    reader, ground = told[name]
    report = build_report(reader, depth=depth)
    for page in (render_markdown(report), render_html(report)):
        assert lint(page, reader, ground=ground) == ()


def test_no_sentence_of_a_whole_report_is_objected_to_without_its_head(
    told: dict[str, tuple[Reader, Ground]],
) -> None:
    for on in (told["respawning-wrapper"], told["none"]):
        report = build_report(on[0], depth="command")
        for page in (render_markdown(report), render_html(report)):
            assert objections(headless(page).replace("agentops verify JOURNAL", "see"), on) == []


@pytest.mark.parametrize("page_of", [str, headless])
def test_small_lies_in_our_summaries_are_caught_by_every_operator(
    page_of: Callable[[str], str], told: dict[str, tuple[Reader, Ground]]
) -> None:
    caught: dict[str, list[bool]] = defaultdict(list)
    for on in (told["respawning-wrapper"], told["threads-survive-interrupt"]):
        page = render_markdown(build_report(on[0], depth="summary"))
        page = page_of(page)
        for line in page.splitlines():
            if len(line) < 30 or line.startswith(("#", "On ")):
                continue
            for name, operator in OPERATORS.items():
                changed = operator(line)
                if changed is not None and changed != line:
                    lie = page.replace(line, changed, 1)
                    caught[name].append(bool(lint(lie, on[0], ground=on[1])))
    rates = {name: (sum(each), len(each)) for name, each in caught.items()}
    assert len(caught) >= 5, rates
    assert all(hit / tried >= CAUGHT_MIN for hit, tried in rates.values()), rates


def test_the_length_of_a_recorded_list_is_a_recorded_number(
    told: dict[str, tuple[Reader, Ground]],
) -> None:
    on = told["threads-survive-interrupt"]
    page = render_markdown(build_report(on[0], depth="command"))
    sentence = next(line for line in page.splitlines() if "`lines` = `364 entries`" in line)
    assert lint(sentence, on[0], ground=on[1]) == ()
    found = lint(sentence.replace("364 entries", "7919 entries"), on[0], ground=on[1])
    assert {finding.rule for finding in found} == {"C23", "C24"}
