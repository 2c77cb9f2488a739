"""Reports state only what the journal says: claims, references, isolation, honesty about gaps."""

import json
import re
import string
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from journal import Reader
from journal.events import IncidentClosed, IncidentNoted, IncidentOpened, VerdictReached
from journal.upkeep import redact
from reports.build import SECTIONS, build_report
from reports.claims import ClaimError
from reports.evidence import NoIncidentError, gather
from reports.lint import lint
from reports.model import Row
from reports.predicates import registry
from reports.predicates.progress import heartbeats
from reports.render.html import render_html
from reports.render.markdown import code, escape, fence, render_markdown
from reports.render.plain import render_claims, render_json, render_line
from reports.sections.author import Author
from reports.wording.catalogue import WordingError, load, run
from tests.support import stories
from tests.support import teller as told_by

LABEL = re.compile(r"\[(e\d{4,}·[0-9a-f]{8})\]")


@pytest.fixture(scope="module")
def recovered(tmp_path_factory: pytest.TempPathFactory) -> Reader:
    folder = tmp_path_factory.mktemp("recovered")
    return Reader.open(stories.second_interrupt(folder / "j.journal", folder / "keys"))


@pytest.fixture(scope="module")
def lost(tmp_path_factory: pytest.TempPathFactory) -> Reader:
    folder = tmp_path_factory.mktemp("lost")
    return Reader.open(stories.lost_answer(folder / "j.journal", folder / "keys"))


@pytest.mark.parametrize("depth", ["line", "summary", "incident", "command"])
def test_every_claim_of_a_report_holds_when_evaluated_again(recovered: Reader, depth: str) -> None:
    report = build_report(recovered, depth=depth)  # type: ignore[arg-type]  # parametrised literal
    evidence = gather(recovered, "inc-0001")
    assert [c for c in report.claims() if not registry.holds(evidence, c)] == []
    assert len(report.claims()) >= {"line": 2, "summary": 5}.get(depth, 80)


def test_a_claim_with_another_value_or_another_reference_does_not_hold(recovered: Reader) -> None:
    evidence = gather(recovered, "inc-0001")
    claim = registry.draw(evidence, "signal.tally")
    assert registry.holds(evidence, claim)
    assert isinstance(claim.value, dict)
    wrong = claim.model_copy(update={"value": {**claim.value, "total": 3}})
    assert not registry.holds(evidence, wrong)
    foreign = claim.refs[0].model_copy(update={"hash": "0" * 64})
    assert not registry.holds(evidence, claim.model_copy(update={"refs": (foreign,)}))


def test_every_sentence_and_row_names_events_that_the_journal_holds(recovered: Reader) -> None:
    held = {event.id: event.leaf for event in recovered.events()}
    report = build_report(recovered, depth="command")
    for said in report.sentences():
        assert said.refs
        for ref in said.refs:
            assert held[ref.event] == ref.hash
    for line in render_markdown(report).splitlines():
        if line.startswith(("- ", "1. ")) or (line.endswith("]") and not line.startswith("#")):
            assert LABEL.search(line), line


def test_all_sections_stand_in_order_and_empty_ones_say_so(lost: Reader) -> None:
    report = build_report(lost)
    text = render_markdown(report)
    titles = re.findall(r"^## (.*)$", text, re.MULTILINE)
    words = load()
    keys = [section(Author(gather(lost, "inc-0002"), words)).key for section in SECTIONS]
    keys.append("appendix")
    assert len(keys) == 20
    assert titles == [words.titles[key] for key in keys]
    assert "## How it was decided\n\nNot recorded.\n" in text


def test_the_same_journal_gives_the_same_bytes(recovered: Reader) -> None:
    first, second = (build_report(Reader.open(recovered.layout.root)) for _ in range(2))
    assert render_markdown(first) == render_markdown(second)
    assert render_html(first) == render_html(second)
    assert render_json(first) == render_json(second)


def test_two_interleaved_incidents_never_mix(tmp_path: Path) -> None:
    one = told_by.begin(tmp_path / "j.journal", tmp_path / "keys", "inc-a")
    two = told_by.Teller(one.journal, one.clock, "inc-b")
    for teller in (one, two):
        teller.tell(IncidentOpened(title=f"trouble {teller.incident}", job=None))
    for step in range(4):
        for teller in (one, two):
            teller.run("read_heartbeat", told_by.beat(10 * step + len(teller.events)))
            teller.tell(IncidentNoted(text=f"only in {teller.incident}"))
    one.journal.close()
    reader = Reader.open(tmp_path / "j.journal")
    theirs = {e.leaf for e in reader.events(incident="inc-b")}
    report = build_report(reader, "inc-a", "command")
    text = render_markdown(report) + render_html(report)
    assert "only in inc-a" in text
    assert "only in inc-b" not in text
    cited = {ref.hash for said in report.sentences() for ref in said.refs}
    assert not cited & theirs


def test_a_signal_to_an_unlisted_process_counts_as_an_innocent(tmp_path: Path) -> None:
    teller = told_by.begin(tmp_path / "j.journal", tmp_path / "keys", "inc-x")
    teller.tell(IncidentOpened(title="stop", job=None))
    teller.run("list_processes", told_by.table((412, 5_000, "S", "python3")))
    for pid, start in ((412, 5_000), (97, 800)):
        victim = told_by.identity(pid, start)
        teller.run(
            "signal_process",
            {"delivered": True, "quality": "pidfd", "refusal": None},
            effect="destroys",
            arguments={"victim": victim.model_dump(mode="json"), "signal": "INT"},
            victims=(victim,),
        )
    teller.journal.close()
    evidence = gather(Reader.open(tmp_path / "j.journal"), "inc-x")
    claim = registry.draw(evidence, "signal.innocents")
    assert claim.value == {"touched": 1, "pids": [97], "signals": 2}


def test_silence_and_incomplete_listings_are_said_to_show_nothing(lost: Reader) -> None:
    report = build_report(lost, depth="command")
    text = render_markdown(report)
    assert "What became of `signal_process`, whose outcome is unknown?" in text
    assert "No end marker arrived, so silence shows nothing." in text
    assert "Whether the other processes went on is not recorded" in text
    assert "No settled verdict" in text


def test_what_was_removed_afterwards_is_said_to_be_removed(tmp_path: Path) -> None:
    teller = told_by.begin(tmp_path / "j.journal", tmp_path / "keys", "inc-s")
    teller.tell(IncidentOpened(title="t", job=None))
    teller.run("list_processes", told_by.table((5, 50, "S", "python3")), stdout=b"secret bytes")
    outcome, observed = teller.events[-2:]
    redact(teller.journal, outcome, "stdout", "it held a name")
    redact(teller.journal, observed, "observation", "it held a name")
    teller.journal.close()
    reader = Reader.open(tmp_path / "j.journal")
    report = build_report(reader, depth="command")
    text = render_markdown(report)
    assert "12 bytes of `stdout`, removed afterwards" in text
    assert "secret bytes" not in text + render_html(report)
    assert "python3" not in text.split("## Evidence appendix")[0].replace("python3 -c", "")
    assert lint(text, reader) == ()


def test_an_unknown_incident_is_named_in_the_error(recovered: Reader) -> None:
    with pytest.raises(NoIncidentError, match="'inc-9999' has no event"):
        build_report(recovered, "inc-9999")


def test_an_inference_names_its_alternatives(recovered: Reader) -> None:
    inferred = [c for c in build_report(recovered).claims() if c.kind == "INFERRED"]
    assert len(inferred) == 2
    assert {c.strength for c in inferred} == {"possible", "likely"}
    assert all(c.alternatives for c in inferred)


def test_a_template_cannot_print_what_no_claim_holds(recovered: Reader) -> None:
    claim = registry.draw(gather(recovered, "inc-0001"), "signal.tally")
    for source in ("{{ 42 }}", "{{ 'free' }}", "{{ value.total ~ 'x' }}", "{{ range(3) }}"):
        with pytest.raises((WordingError, ClaimError)):
            run(source, claim)
    with pytest.raises(WordingError):
        run("{{ value.absent }}", claim)


@pytest.mark.parametrize(
    ("source", "fault"),
    [
        ("There were 3 signals.", "a digit"),
        ('It said \\"done\\".', "a quotation mark"),
        ("This ensures a clean end.", "strong word: ensures"),
        ("{{ value.total|counted('1 signal', 'signals') }}", "a digit"),
        ("{% for %}", "Expected"),
    ],
)
def test_an_override_that_says_more_than_claims_is_refused(source: str, fault: str) -> None:
    with pytest.raises(WordingError, match=fault):
        load(f'[sentence]\n"signal.tally" = "{source}"\n')


def test_an_override_replaces_one_sentence_and_no_other(recovered: Reader) -> None:
    words = load('[sentence]\n"signal.tally" = "Signals: {{ value.total }}."\n')
    changed = render_markdown(build_report(recovered, words=words), words=words).splitlines()
    plain = render_markdown(build_report(recovered)).splitlines()
    different = [a for a, b in zip(plain, changed, strict=True) if a != b]
    assert len(different) == 1
    assert different[0].startswith("Signals sent: 2")


def test_recorded_words_cannot_become_markup(tmp_path: Path) -> None:
    hostile = (
        "</script><script>alert(1)</script> # head\n[l](http://x) `a` | b <img src=x onerror=y>"
    )
    teller = told_by.begin(tmp_path / "j.journal", tmp_path / "keys", "inc-h")
    teller.tell(IncidentOpened(title=hostile, job="*job*"))
    teller.tell(IncidentNoted(text=hostile))
    teller.tell(
        VerdictReached(
            condition={"kind": hostile}, verdict="confirmed", reason=hostile, evidence=()
        )
    )
    teller.journal.close()
    report = build_report(Reader.open(tmp_path / "j.journal"), depth="command")
    page = render_html(report)
    assert page.count("<script") == 1
    assert "<img" not in page
    assert "onerror=y>" not in page.replace("&gt;", "")
    seen = MarkdownIt("commonmark").render(render_markdown(report))
    assert re.findall("<(?:script|img|a )", seen) == []
    assert seen.count("<h1>") == 1


def test_the_page_asks_for_nothing_from_outside(recovered: Reader) -> None:
    page = render_html(build_report(recovered, depth="command"))
    assert "default-src 'none'" in page
    assert re.findall(r"(?:src|href)=\"(?!#)[^\"]*\"", page) == []
    assert "@import" not in page
    assert "url(" not in page
    anchors = set(re.findall(r'id="([^"]+)"', page))
    assert set(re.findall(r'href="#([^"]+)"', page)) <= anchors


def test_five_hundred_events_stay_below_a_megabyte(tmp_path: Path) -> None:
    teller = told_by.begin(tmp_path / "j.journal", tmp_path / "keys", "inc-l")
    teller.tell(IncidentOpened(title="long", job=None))
    rows = tuple((pid, pid, "S", "python3") for pid in range(1, 60))
    while len(teller.events) < 500:
        teller.run("list_processes", told_by.table(*rows), stdout=b"x" * 4_000)
    teller.journal.close()
    page = render_html(build_report(Reader.open(tmp_path / "j.journal"), "inc-l"))
    assert len(page.encode()) < 1_000_000


def test_one_line_says_theme_incident_and_end(recovered: Reader) -> None:
    line = render_line(build_report(recovered, depth="line"))
    assert line.startswith("The Second Interrupt: inc-0001. It ended as RECOVERED after ")
    assert "\n" not in line


def test_hostile_words_stay_words_in_the_line_too(tmp_path: Path) -> None:
    """It is what one pastes into an issue or a chat."""
    teller = told_by.begin(tmp_path / "j.journal", tmp_path / "keys", "inc-h")
    teller.tell(IncidentOpened(title="x", job=None))
    reason = "<script>x</script>\n# H\n[l](http://x) [e0001·00000000] `a"
    teller.tell(IncidentClosed(resolution="STOPPED", reason=reason, evidence=()))
    teller.journal.close()
    line = render_line(build_report(Reader.open(tmp_path / "j.journal"), "inc-h", "line"))
    assert "script" in line
    assert "\n" not in line
    seen = MarkdownIt("commonmark", {"html": True}).render(line)
    assert re.findall("<(?!/?p>)[^>]*>", seen) == []
    assert len(LABEL.findall(line)) == 2  # of the end, and of how far it was verified


def test_what_cannot_be_seen_is_shown_in_every_form(tmp_path: Path) -> None:
    """Nothing turns the words beside it, and the JSON forms still hold what was recorded."""
    unseen = "gnp.\u202eexe \u200b\ufeff\u2028\u2029\u0085\u2066\U000e0041 end"
    teller = told_by.begin(tmp_path / "j.journal", tmp_path / "keys", "inc-h")
    teller.tell(IncidentOpened(title=unseen, job=None))
    teller.run("list_processes", told_by.table((9, 9, "S", unseen)), stdout=unseen.encode())
    teller.tell(IncidentClosed(resolution="STOPPED", reason=unseen, evidence=()))
    teller.journal.close()
    report = build_report(Reader.open(tmp_path / "j.journal"), "inc-h", "command")
    page, body = render_html(report), render_json(report)
    for text in (page, body, render_markdown(report), render_line(report), render_claims(report)):
        assert not (set(unseen) - set(string.printable)) & set(text)
    assert "gnp.\\u202eexe" in page
    assert json.loads(body) == {
        **report.model_dump(mode="json"),
        "claims": [claim.model_dump(mode="json") for claim in report.claims()],
    }


def test_rows_and_sentences_of_one_table_come_from_one_predicate(recovered: Reader) -> None:
    report = build_report(recovered)
    rows = [said for said in report.sentences() if isinstance(said, Row)]
    assert {row.claim.predicate for row in rows} >= {"command.account", "incident.timeline"}


@given(st.text(max_size=60))
@settings(max_examples=80)
def test_no_text_ends_its_own_code_span_or_fence(text: str) -> None:
    spanned, fenced = code(text), fence(text)
    ticks = re.match(r"`+", spanned)
    assert ticks is not None
    assert f"{ticks[0]}`" not in spanned
    opening = fenced.split("text\n", 1)[0]
    assert fenced.count(opening) == 2
    assert not re.search(r"(?<!\\)[<\[]", escape(text).replace("\\\\", ""))


def test_an_alarm_is_no_success_and_a_dead_trainer_s_file_no_sign_of_life(tmp_path: Path) -> None:
    teller = told_by.begin(tmp_path / "j.journal", tmp_path / "keys", "inc-w")
    teller.tell(IncidentOpened(title="t", job=None))
    beat = told_by.beat(7)
    key = (412, 5_000, "S", "python3")
    teller.run("list_processes", told_by.table(key))
    teller.run("read_heartbeat", beat)
    teller.run("list_processes", told_by.table())
    teller.run("read_heartbeat", beat)
    for kind in ("intervention_needed", "job_stopped"):
        verdict = VerdictReached(
            condition={"kind": kind}, verdict="confirmed", reason=kind, evidence=()
        )
        teller.tell(verdict)
    teller.journal.close()
    evidence = gather(Reader.open(tmp_path / "j.journal"), "inc-w")
    assert registry.draw(evidence, "strength.verified").value == {"confirmed": 1}
    alive, left = (
        said.text
        for said in Author(evidence, load()).all_of(
            ("progress.heartbeat", {"event": event.id}) for event in heartbeats(evidence)
        )
    )
    assert alive.startswith("The trainer's heartbeat of pid 412 says state")
    assert left.startswith("After pid 412 had left the listings, its last heartbeat was read again")
