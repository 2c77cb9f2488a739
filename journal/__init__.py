"""The journal: typed events, durable before the act, chained, sealed, readable for ever.

    with Journal.open(path, clock=SystemClock(), actor=actor, keys=keys) as journal:
        (event,) = journal.append(NewEvent(payload, incident="…"))
    for event in Reader.open(path).events(): ...

The evidence is the segments; ``journal.duckdb`` beside them is an index that can be rebuilt.
"""

from journal.capture import Capture
from journal.clock import Clock, SystemClock
from journal.drafting import Settings
from journal.envelope import Actor, Event, HostRef, NewEvent, OutputRef
from journal.errors import JournalError
from journal.keys import KeyStore
from journal.reader import Incident, Reader, Shredded
from journal.verification import Verification, verify
from journal.writer import Journal

__all__ = [
    "Actor",
    "Capture",
    "Clock",
    "Event",
    "HostRef",
    "Incident",
    "Journal",
    "JournalError",
    "KeyStore",
    "NewEvent",
    "OutputRef",
    "Reader",
    "Settings",
    "Shredded",
    "SystemClock",
    "Verification",
    "verify",
]
