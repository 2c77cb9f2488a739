"""The rules between events."""

import pytest

from journal.envelope import HostRef, NewEvent
from journal.errors import DoubleOutcome, DuplicateIdem, HostBlocked, OrphanOutcome, Refused
from journal.events import CommandIntended
from journal.ledger import Entry, Ledger
from tests.support.journals import completed, intended, observed, reconciled, unknown


def entry(new: NewEvent, stream: str = "s1-0000000a", ts_us: int = 0) -> Entry:
    idem = new.idem
    if isinstance(new.payload, CommandIntended):
        idem = new.payload.command_id
    return Entry(stream, new.payload, new.host, idem, "E1", new.incident, ts_us)


def folded(*events: NewEvent) -> Ledger:
    ledger = Ledger()
    for event in events:
        ledger.admit([entry(event)])
        ledger.apply(entry(event))
    return ledger


def test_an_intent_without_an_outcome_is_in_doubt() -> None:
    ledger = folded(intended("c1"), intended("c2"), completed("c1"))
    assert set(ledger.open) == {"c2"}


@pytest.mark.parametrize(
    ("before", "refused", "error"),
    [
        ((intended("c1"), completed("c1")), intended("c1"), DuplicateIdem),
        ((), completed("c1"), OrphanOutcome),
        ((intended("c1"), completed("c1")), completed("c1"), DoubleOutcome),
        ((intended("c1"), unknown("c1")), completed("c1"), DoubleOutcome),
        ((), observed("c1", b"{}"), OrphanOutcome),
        ((), reconciled("c1"), OrphanOutcome),
        ((intended("c1", "changes"), unknown("c1")), intended("c2", "destroys"), HostBlocked),
    ],
)
def test_what_breaks_a_rule_is_refused(
    before: tuple[NewEvent, ...], refused: NewEvent, error: type[Refused]
) -> None:
    ledger = folded(*before)
    with pytest.raises(error):
        ledger.admit([entry(refused)])


def test_a_batch_is_refused_as_a_whole_and_leaves_no_trace() -> None:
    ledger = folded(intended("c1"))
    with pytest.raises(DoubleOutcome):
        ledger.admit([entry(completed("c1")), entry(completed("c1"))])
    assert set(ledger.open) == {"c1"}
    assert not ledger.settled


def test_an_outcome_belongs_in_the_stream_of_its_intent() -> None:
    ledger = folded(intended("c1"))
    with pytest.raises(OrphanOutcome):
        ledger.admit([entry(completed("c1"), stream="s2-0000000b")])


def test_an_unknown_outcome_blocks_changes_on_its_host_until_it_is_reconciled() -> None:
    ledger = folded(intended("c1", "changes"), unknown("c1"))
    ledger.admit([entry(intended("c2"))])
    ledger.admit([entry(intended("c3", "changes", HostRef("other", "fp")))])
    with pytest.raises(HostBlocked):
        ledger.admit([entry(intended("c4", "changes"))])
    ledger.admit([entry(reconciled("c1"))])
    ledger.apply(entry(reconciled("c1")))
    ledger.admit([entry(intended("c4", "changes"))])


def test_a_probe_that_cannot_say_frees_the_host_and_leaves_the_doubt_on_the_list() -> None:
    """Somebody looked; what may follow is policy's business, and the open question stays named."""
    ledger = folded(intended("c1", "destroys"), unknown("c1"), reconciled("c1", "unknown"))
    ledger.admit([entry(intended("c2", "changes"))])
    assert set(ledger.unreconciled) == {"c1"}


def test_an_unknown_look_blocks_nothing() -> None:
    ledger = folded(intended("c1"), unknown("c1"))
    ledger.admit([entry(intended("c2", "destroys"))])


def test_a_probe_settles_a_command_whose_stream_is_read_after_it() -> None:
    """Another writer's probe may stand in a stream that is read first."""
    ledger = Ledger()
    ledger.apply(entry(reconciled("c1"), "s1-0000000a", ts_us=9))
    ledger.apply(entry(intended("c1", "changes"), "s2-0000000b", ts_us=2))
    ledger.apply(entry(unknown("c1"), "s2-0000000b", ts_us=3))
    assert not ledger.unreconciled


@pytest.mark.parametrize("settled", ["done", "unknown"])
def test_a_probe_while_the_command_still_ran_settles_nothing(settled: str) -> None:
    ledger = Ledger()
    for at, new in enumerate([intended("c1", "changes"), reconciled("c1", settled), unknown("c1")]):
        ledger.apply(entry(new, ts_us=at))
    assert set(ledger.unreconciled) == {"c1"}
    with pytest.raises(HostBlocked):
        ledger.admit([entry(intended("c2", "changes"))])
