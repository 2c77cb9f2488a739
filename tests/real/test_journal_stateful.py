"""A model of the journal against the journal: any order of appends, crashes, damage and readers."""

import shutil
import tempfile
from dataclasses import replace
from pathlib import Path

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    multiple,
    precondition,
    rule,
)

from journal import Journal, Reader
from journal.errors import DoubleOutcome, DuplicateIdem, HostBlocked, OrphanOutcome
from tests.support.journals import Place, completed, intended, note, reconciled, unknown
from tests.support.torture import rounds


class _JournalMachine(RuleBasedStateMachine):
    """Acknowledged events are the model; the journal must hold exactly them and its own words."""

    commands = Bundle("commands")

    def __init__(self) -> None:
        super().__init__()
        self.root = Path(tempfile.mkdtemp())
        self.place = Place(self.root)
        # Every seal lays a bookmark, so that every opening reads on from one, or finds it stale.
        self.place.settings = replace(self.place.settings, bookmark_every=1)
        self.acknowledged: list[str] = []
        self.open: set[str] = set()
        self.changing: set[str] = set()
        self.unreconciled: set[str] = set()
        self.number = 0
        self.writer: Journal | None = None

    @initialize()
    def create(self) -> None:
        self.writer = self.place.create()

    @property
    def journal(self) -> Journal:
        assert self.writer is not None
        return self.writer

    def taken(self, *events: object) -> None:
        self.acknowledged += [str(event.id) for event in events]  # type: ignore[attr-defined]  # events

    @rule(texts=st.lists(st.text(max_size=30), min_size=1, max_size=4))
    def append_notes(self, texts: list[str]) -> None:
        self.taken(*self.journal.append(*map(note, texts)))

    @rule(target=commands, changes=st.booleans())
    def intend(self, changes: bool) -> object:  # noqa: FBT001 - drawn by hypothesis
        self.number += 1
        command_id = f"c{self.number}"
        try:
            events = self.journal.append(intended(command_id, "changes" if changes else "observes"))
        except HostBlocked:
            assert changes
            assert self.unreconciled
            return multiple()
        assert not (changes and self.unreconciled)
        self.taken(*events)
        self.open.add(command_id)
        if changes:
            self.changing.add(command_id)
        return command_id

    @rule(command_id=commands, output=st.binary(max_size=50))
    def complete(self, command_id: str, output: bytes) -> None:
        try:
            events = self.journal.append(completed(command_id, stdout=output))
        except (DoubleOutcome, OrphanOutcome):
            assert command_id not in self.open
            return
        assert command_id in self.open
        self.open.discard(command_id)
        self.taken(*events)

    @rule(command_id=commands)
    def lose(self, command_id: str) -> None:
        try:
            events = self.journal.append(unknown(command_id))
        except (DoubleOutcome, OrphanOutcome):
            assert command_id not in self.open
            return
        self.open.discard(command_id)
        if command_id in self.changing:
            self.unreconciled.add(command_id)
        self.taken(*events)

    @rule(command_id=consumes(commands))
    def reconcile(self, command_id: str) -> None:
        self.taken(*self.journal.append(reconciled(command_id)))
        self.unreconciled.discard(command_id)

    @rule(command_id=commands)
    def intend_again(self, command_id: str) -> None:
        try:
            self.journal.append(intended(command_id))
        except DuplicateIdem:
            return
        raise AssertionError(command_id)

    @rule()
    def seal(self) -> None:
        self.journal.seal()

    @rule()
    def close_and_open(self) -> None:
        in_doubt = set(self.open)
        self.journal.close()
        self.reopen(in_doubt)

    @rule(torn=st.binary(max_size=40).filter(lambda raw: b"\n" not in raw))
    def crash_and_open(self, torn: bytes) -> None:
        in_doubt = set(self.open)
        self.journal.abandon()
        with self.place.segment().open("ab") as file:
            file.write(torn)
        self.reopen(in_doubt)

    def reopen(self, in_doubt: set[str]) -> None:
        self.writer = self.place.open()
        named = {
            command_id
            for event in self.journal.reader().events(kinds={"journal_recovered"})
            for command_id in event.payload.model_dump()["in_doubt"]
        }
        assert in_doubt <= named
        self.unreconciled |= in_doubt & self.changing
        self.open.clear()

    @rule()
    def lose_the_index(self) -> None:
        self.place.layout.index.unlink(missing_ok=True)

    @precondition(lambda self: self.number % 3 == 0)
    @rule()
    def query(self) -> None:
        rows = self.journal.reader().query("SELECT id FROM event ORDER BY stream, seq").rows
        assert [row[0] for row in rows] == [event.id for event in self.journal.reader().events()]

    @invariant()
    def everything_acknowledged_is_there_in_order(self) -> None:
        if self.writer is None:
            return
        known = set(self.acknowledged)
        present = [event.id for event in Reader.open(self.place.path).events() if event.id in known]
        assert present == self.acknowledged

    @invariant()
    def the_model_and_the_reader_agree_on_what_is_open(self) -> None:
        if self.writer is None:
            return
        reader = Reader.open(self.place.path)
        assert {intent.command_id for intent in reader.in_doubt()} == self.open
        blocked = {
            intent.command_id for intent in reader.unreconciled() if intent.effect != "observes"
        }
        assert blocked == self.unreconciled

    @invariant()
    def nothing_looks_tampered(self) -> None:
        if self.writer is not None:
            finding = self.place.verify().finding
            assert finding is None, str(finding)

    def teardown(self) -> None:
        if self.writer is not None:
            self.writer.abandon()
        shutil.rmtree(self.root)


TestJournalMachine = _JournalMachine.TestCase
TestJournalMachine.settings = settings(
    max_examples=rounds(8, 200),
    stateful_step_count=rounds(15, 40),
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
