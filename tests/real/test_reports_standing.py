"""A report says how far its events were verified, in every form, and lint holds it to that."""

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from journal import KeyStore, Reader, verify
from journal.events import IncidentNoted, IncidentOpened
from reports.build import build_report
from reports.evidence import gather
from reports.lint import lint
from reports.model import Depth, Report
from reports.predicates import registry
from reports.render.html import render_html
from reports.render.markdown import render_markdown
from reports.render.overrides import faults
from reports.render.plain import render_json, render_line
from reports.standing import Standing, covering_event, possible, seals_of, standing_of
from tests.support import stories
from tests.support import teller as told_by

CHANGED = Standing(finding="LINE_CHANGED at s1:4 (segment, 0.jsonl): it was changed")


@pytest.fixture(scope="module")
def recovered(tmp_path_factory: pytest.TempPathFactory) -> Reader:
    folder = tmp_path_factory.mktemp("standing")
    return Reader.open(stories.second_interrupt(folder / "j.journal", folder / "keys"))


@pytest.fixture(scope="module")
def stands(recovered: Reader) -> Standing:
    keys = KeyStore(recovered.layout.root.parent / "keys")
    return standing_of(verify(recovered.layout.root, keys=keys))


def said(reader: Reader, standing: Standing | None) -> str:
    return build_report(reader, depth="line", standing=standing).standing.text


def test_a_sealed_report_names_the_first_seal_over_its_last_event(
    recovered: Reader, stands: Standing
) -> None:
    last = gather(recovered, "inc-0001").last
    seal = next(each for each in seals_of(recovered) if each.size > last.seq)
    words = said(recovered, stands)
    assert words.startswith(
        f"This is what was written, up to seal {seal.number} of stream {seal.stream} at "
    )
    assert words.endswith("; no event of this report is after it.")
    assert "anchors" not in words
    known = replace(stands, anchored=stands.sealed)
    assert "as anchors outside the journal know it" in said(recovered, known)
    claim = registry.draw(gather(recovered, "inc-0001", standing=stands), "journal.verified")
    assert registry.holds(gather(recovered, "inc-0001", standing=stands), claim)
    assert not registry.holds(gather(recovered, "inc-0001", standing=known), claim)


def test_events_behind_the_last_seal_are_counted_until_one_covers_them(tmp_path: Path) -> None:
    keys = KeyStore(tmp_path / "keys")
    teller = told_by.begin(tmp_path / "j.journal", tmp_path / "keys", "inc-u")
    teller.tell(IncidentOpened(title="t", job=None))
    reader = teller.journal.reader()
    assert "no trusted seal covers them" in said(
        reader, standing_of(verify(reader.layout.root, keys=keys))
    )
    teller.journal.seal()
    for number in range(3):
        teller.tell(IncidentNoted(text=f"note {number}"))
    found = standing_of(verify(reader.layout.root, keys=keys))
    assert said(reader, found).endswith("; 3 events of this report after it unsealed.")
    early = render_markdown(build_report(reader, depth="summary", standing=found))
    teller.journal.close()
    whole = standing_of(verify(reader.layout.root, keys=keys))
    assert said(reader, whole).endswith("; no event of this report is after it.")
    assert lint(early, reader) == ()  # it was so when it was made


def test_without_a_trusted_key_or_a_question_it_is_not_verified(recovered: Reader) -> None:
    assert said(recovered, None).startswith("Not verified: whether these are the events")
    nobody = standing_of(verify(recovered.layout.root))
    assert said(recovered, nobody).startswith("Not verified: no key that is trusted here")


@pytest.mark.parametrize("depth", ["line", "summary", "incident", "command"])
def test_a_changed_journal_is_told_of_at_the_top_of_every_form(
    recovered: Reader, depth: Depth
) -> None:
    report = build_report(recovered, depth=depth, standing=CHANGED)
    assert report.is_of_a_changed_journal
    assert render_line(report).startswith("Not what was written: LINE")
    text = render_markdown(report)
    assert text.split("\n\n")[1].startswith("> Not what was written: LINE")
    page = render_html(report)
    assert 'class="standing changed"' in page.split("<h1>")[0]
    assert '"finding": "LINE_CHANGED' in render_json(report)


@pytest.mark.parametrize("form", [render_markdown, render_html, render_line])
def test_lint_objects_to_a_seal_that_is_not_there(
    recovered: Reader, stands: Standing, form: Callable[[Report], str]
) -> None:
    depth: Depth = "line" if form is render_line else "summary"
    text = form(build_report(recovered, depth=depth, standing=stands))
    assert lint(text, recovered) == ()
    wrong = re.sub(r"(up to seal (?:<b>)?)\d+", r"\g<1>99", text)
    assert wrong != text
    assert {"C23", "C24"} & {finding.rule for finding in lint(wrong, recovered)}


def test_what_can_have_been_said_grows_with_the_seals(recovered: Reader) -> None:
    seals = seals_of(recovered)
    found = list(possible(seals))
    assert found[0] is None
    assert len(found) == 4 + 2 * len(seals)
    last = found[-1]
    assert last is not None
    assert last.sealed == {seal.stream: seal.size for seal in seals}


def test_an_event_s_own_seal_is_the_first_one_over_it(recovered: Reader) -> None:
    seals = seals_of(recovered)
    whole = {event.seq: covering_event(seals, event) for event in recovered.events()}
    assert whole[0] == seals[0]
    assert whole[seals[0].size - 1] == seals[0]
    assert whole[seals[0].size] == next(each for each in seals if each.size > seals[0].size)
    assert whole[max(whole)] is not None  # a session that ends in order seals its last event


def test_a_page_of_one_s_own_has_to_print_it(tmp_path: Path) -> None:
    (tmp_path / "report.md.j2").write_text("# {{ report.theme.text }}\n")
    (fault,) = faults([tmp_path])
    assert "report.standing" in fault
    (tmp_path / "report.md.j2").write_text("{{ report.standing|line }}\n")
    assert faults([tmp_path]) == []
