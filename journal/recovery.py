"""The first words of a session: who opened the journal, and what the last writers left open.

An intent without an outcome, in a stream that nobody holds, is in doubt: its controller died. It
becomes ``command_outcome_unknown`` here, named, never repeated. Not here: repair of torn files
(``journal.streams``), reconciling (the executor's probe).
"""

from collections.abc import Sequence

from journal.envelope import NewEvent
from journal.events import CommandOutcomeUnknown, JournalRecovered, SessionStarted
from journal.ledger import Intent
from journal.machine import Machine
from journal.streams import Repair


def session_started(journal_id: str, machine: Machine) -> NewEvent:
    """The event that begins a session."""
    return NewEvent(
        SessionStarted(
            journal=journal_id,
            agentops_version=machine.software,
            python=machine.python,
            platform=machine.platform,
            machine=machine.name,
            pid=machine.pid,
            uid=machine.uid,
        )
    )


def cut_off(error: OSError, lost_bytes: int) -> NewEvent:
    """The event that tells of a write that failed in this session."""
    reason = error.strerror or str(error)
    what = f"the disk refused ({reason}); {lost_bytes} bytes that were never acknowledged were cut"
    return NewEvent(JournalRecovered(what=what, quarantined=None, in_doubt=()))


def recovered(repair: Repair | None, in_doubt: Sequence[Intent]) -> list[NewEvent]:
    """The events that settle a dead writer's stream; empty when it ended in order."""
    if repair is None and not in_doubt:
        return []
    unknown = [
        NewEvent(
            CommandOutcomeUnknown(
                command_id=intent.command_id,
                reason="controller_died",
                detail="no outcome was written before the writer ended",
                duration_ms=0,
            ),
            incident=intent.incident,
            host=intent.host,
            cause=intent.event_id,
        )
        for intent in in_doubt
    ]
    what = "commands in doubt" if repair is None else repair.what
    summary = JournalRecovered(
        what=what,
        quarantined=None if repair is None else repair.quarantined,
        in_doubt=tuple(intent.command_id for intent in in_doubt),
    )
    return [*unknown, NewEvent(summary)]
