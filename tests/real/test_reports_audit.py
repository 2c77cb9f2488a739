"""The digest over many incidents, and the answers to an auditor's items."""

from pathlib import Path

import pytest
from pydantic import JsonValue

from journal import Journal, KeyStore, NewEvent, Reader, Settings, verify
from journal.errors import Corrupt
from journal.events import (
    IncidentClosed,
    IncidentNoted,
    IncidentOpened,
    JournalRead,
    JsonObject,
)
from reports.build import build_report
from reports.compliance import Surroundings, comply, render_compliance, unexplained
from reports.compliance.history import unread
from reports.digest import digest, render_digest
from reports.evidence import gather
from reports.predicates import registry
from tests.support import stories
from tests.support import teller as told_by

INTACT = Surroundings("intact", mode=0o700, findings=0)


@pytest.fixture
def recovered(tmp_path: Path) -> Reader:
    return Reader.open(stories.second_interrupt(tmp_path / "j.journal", tmp_path / "keys"))


@pytest.fixture
def lost(tmp_path: Path) -> Reader:
    return Reader.open(stories.lost_answer(tmp_path / "l.journal", tmp_path / "lkeys"))


def statuses(reader: Reader, surroundings: Surroundings = INTACT) -> dict[str, str]:
    return {item.id: answer.status for item, answer in comply(reader, surroundings)}


def test_every_item_of_the_checklist_is_answered_once(recovered: Reader) -> None:
    found = statuses(recovered)
    assert list(found) == [f"L{number:02d}" for number in range(1, 27)]


def test_what_a_whole_incident_shows_passes(recovered: Reader) -> None:
    found = statuses(recovered)
    passing = ("L01", "L02", "L03", "L05", "L06", "L07", "L10", "L11", "L12", "L14", "L18", "L21")
    assert {item: found[item] for item in passing} == dict.fromkeys(passing, "pass")
    assert found["L13"] == "fail"
    assert found["L17"] == "not applicable"


def test_an_event_that_no_digest_was_read_of_within_a_day_fails_the_item(tmp_path: Path) -> None:
    teller = told_by.begin(tmp_path / "j.journal", tmp_path / "keys", "inc-d")
    day_ms = 86_400_000
    teller.tell(IncidentOpened(title="t", job=None))
    teller.clock.pass_ms(day_ms // 2)
    teller.journal.append(NewEvent(JournalRead(purpose="digest", query="")))
    teller.clock.pass_ms(day_ms)
    teller.tell(IncidentNoted(text="late at night"))
    assert statuses(teller.journal.reader())["L17"] == "pass"
    noted = teller.events[-1]
    teller.clock.pass_ms(day_ms + 1_000)
    teller.journal.append(NewEvent(JournalRead(purpose="digest", query="")))
    answer = {item.id: told for item, told in comply(teller.journal.reader(), INTACT)}["L17"]
    teller.journal.close()
    assert (answer.status, answer.refs) == ("fail", (f"e{noted.seq:04d}·{noted.leaf[:8]}",))
    assert "1 of 2; digests read: 2" in answer.words


def test_a_wide_folder_a_broken_chain_and_findings_fail(recovered: Reader) -> None:
    found = statuses(recovered, Surroundings("tampered", mode=0o755, findings=2))
    assert {found[item] for item in ("L12", "L14", "L24")} == {"fail"}


def test_changed_outputs_fail_their_items_and_no_other_is_left_unanswered(tmp_path: Path) -> None:
    """An auditor of a journal that was tampered with needs the table most of all."""
    place = stories.second_interrupt(tmp_path / "j.journal", tmp_path / "keys")
    whole = statuses(Reader.open(place))
    for pack in place.glob("blob/*/*.pack"):
        changed = bytearray(pack.read_bytes())
        changed[40::50] = bytes(byte ^ 0x55 for byte in changed[40::50])
        pack.write_bytes(changed)
    reader = Reader.open(place)
    with pytest.raises(Corrupt):
        [reader.observation(event) for event in reader.events(kinds={"observation_parsed"})]
    found = verify(place, keys=KeyStore(tmp_path / "keys"))
    spoilt = Surroundings(found.status, 0o700, finding=str(found.finding), unmade="CORRUPT")
    answers = {item.id: answer for item, answer in comply(reader, spoilt)}
    assert list(answers) == list(whole)
    assert {"L12", "L24"} <= {item for item, answer in answers.items() if answer.status == "fail"}
    assert "tampered: BLOB_CORRUPT" in answers["L12"].words
    assert "no report can be made" in answers["L24"].words
    assert unexplained(reader) == ()


def test_an_open_incident_and_a_denial_are_told(lost: Reader) -> None:
    answers = {item.id: answer for item, answer in comply(lost, INTACT)}
    assert answers["L18"].status == "fail"
    assert answers["L08"].status == "pass"
    held = {f"e{e.seq:04d}·{e.leaf[:8]}" for e in lost.events()}
    assert all(set(answer.refs) <= held for answer in answers.values())


def test_a_shared_name_fails_the_item_on_identity(tmp_path: Path) -> None:
    actor = told_by.HUMAN.__class__("human", "root")
    with Journal.create(
        tmp_path / "j.journal",
        clock=told_by.StepClock(),
        actor=actor,
        keys=KeyStore(tmp_path / "keys"),
        anchor=None,
        settings=Settings(random=told_by.RandomBytes(), machine=told_by.MACHINE),
    ) as journal:
        journal.append(NewEvent(IncidentOpened(title="t", job=None), incident="i"))
    found = comply(Reader.open(tmp_path / "j.journal"), INTACT)
    answer = next(told for item, told in found if item.id == "L02")
    assert answer.status == "fail"
    assert "human 'root': a shared name" in answer.words


def test_the_page_says_that_it_is_no_certificate(recovered: Reader) -> None:
    page = render_compliance(comply(recovered, INTACT), unexplained(recovered))
    assert "not a certificate" in page
    assert page.count("\n| L") == 26


def test_a_death_that_nobody_signalled_is_listed_as_not_ours(tmp_path: Path) -> None:
    teller = told_by.begin(tmp_path / "j.journal", tmp_path / "keys", "inc-n")
    teller.tell(IncidentOpened(title="t", job=None))
    kept, gone = (10, 100, "S", "kept"), (11, 110, "S", "gone")
    teller.run("list_processes", told_by.table(kept, gone))
    teller.run("list_processes", told_by.table(kept, complete=False))
    teller.run("list_processes", told_by.table(kept, gone))
    assert unexplained(teller.journal.reader()) == ()
    teller.run("list_processes", told_by.table(kept))
    teller.journal.close()
    (change,) = unexplained(Reader.open(tmp_path / "j.journal"))
    assert change.what == "gone 11 went"
    assert change.host == "box-200"


def test_the_process_that_we_signalled_is_ours(recovered: Reader) -> None:
    assert unexplained(recovered) == ()


def test_the_digest_counts_incidents_signals_and_what_was_not_verified(tmp_path: Path) -> None:
    one = told_by.begin(tmp_path / "j.journal", tmp_path / "keys", "inc-1")
    victim = told_by.identity(5, 50)
    for name, closes in (("inc-1", True), ("inc-2", False)):
        teller = told_by.Teller(one.journal, one.clock, name)
        teller.tell(IncidentOpened(title=f"trouble of {name}", job="dflash"))
        teller.run(
            "signal_process",
            {"delivered": True, "quality": "pidfd", "refusal": None},
            effect="destroys",
            arguments={"victim": victim.model_dump(mode="json"), "signal": "TERM"},
            victims=(victim,),
        )
        one.clock.pass_ms(2_000)
        if closes:
            teller.tell(IncidentClosed(resolution="STOPPED", reason="asked", evidence=()))
    one.journal.append(NewEvent(JournalRead(purpose="digest", query="")))
    one.journal.close()
    reader = Reader.open(tmp_path / "j.journal")
    found = digest(reader)
    assert found.resolutions == {"STOPPED": 1, "open": 1}
    assert found.rungs == {"TERM": 2}
    assert [line.incident for line in found.unverified] == ["inc-1", "inc-2"]
    assert found.median_ms is not None
    assert found.median_ms >= 2_000
    page = render_digest(found)
    assert "trouble of inc-2" in page
    assert "| STOPPED |" in page
    assert digest(reader, since_us=found.lines[1].opened_us).resolutions == {"open": 1}
    assert statuses(reader)["L17"] == "pass"
    earlier = registry.draw(gather(reader, "inc-2"), "incident.earlier")
    assert isinstance(earlier.value, dict)
    assert earlier.value["incidents"] == 2
    assert registry.draw(gather(reader, "inc-1"), "incident.earlier").kind == "UNKNOWN"
    assert build_report(reader).incident == "inc-2"


def test_what_a_host_s_own_logs_tell_is_ours_or_is_listed(tmp_path: Path) -> None:
    teller = told_by.begin(tmp_path / "j.journal", tmp_path / "keys", "inc-h")
    teller.tell(IncidentOpened(title="t", job=None))
    start_ms = teller.clock.now_us // 1_000
    booted_ms = start_ms - 100_000
    victim = told_by.identity(412, 5_000)  # it began fifty seconds after the boot
    teller.run("signal_process", None, victims=(victim,), effect="destroys", answer=False)
    nothing: JsonObject = dict.fromkeys(
        ("ended_unix_ms", "pid", "uid", "user", "origin", "port", "name", "status")
    )

    def record(kind: str, at_ms: int, **told: JsonValue) -> JsonObject:
        return {**nothing, "kind": kind, "at_unix_ms": at_ms, **told}

    us: dict[str, JsonValue] = {"user": "root", "origin": "10.0.0.1", "name": "publickey"}
    records: list[JsonValue] = [
        record("ssh", start_ms - 90_000_000, **us, port=1),  # before anything of ours
        record("ssh", start_ms + 1, **us, port=50_000),  # this very connection
        record("ssh", start_ms - 500 + 1_000, **us, port=50_001),  # a command followed
        record("ssh", start_ms + 1, user="eve", origin="10.6.6.6", port=9, name="password"),
        record("process", booted_ms + 50_000, ended_unix_ms=start_ms + 20, pid=412, name="python3"),
        record("process", start_ms - 5_000, ended_unix_ms=start_ms + 10, pid=9, uid=0, name="rm"),
        record("boot", start_ms + 30, name="6.1.0"),
    ]
    seen: JsonObject = {
        "boot_id": told_by.BOOT,
        "now_unix_ms": start_ms,
        "booted_unix_ms": booted_ms,
        "wtmp": "read",
        "ssh_log": "read",
        "accounting": "denied",
        "own_address": "10.0.0.1",
        "own_port": 50_000,
        "total": len(records),
        "records": records,
    }
    assert unread(teller.journal.reader()) == ("box-200",)
    teller.run("host_history", {**seen, "now_unix_ms": teller.clock.now_us // 1_000 + 40})
    teller.journal.close()
    reader = Reader.open(tmp_path / "j.journal")
    assert [one.what for one in unexplained(reader)] == [
        "eve connected from 10.6.6.6 (password)",
        "rm of user 0 ended",
        "the machine started (6.1.0)",
        "not read, so nothing is excluded: accounting",
    ]
    assert unread(reader) == ()
    page = render_compliance((), unexplained(reader))
    assert "eve connected from 10.6.6.6" in page
