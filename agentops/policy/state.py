"""What policy knows of one incident.

Here: ``PolicyState``. Not here: how events change it (``agentops.policy.fold``), nor what to do
about it (``agentops.policy.decide``).
"""

from dataclasses import dataclass, field

from agentops.policy.facts import FactTable
from agentops.policy.ledger import (
    Act,
    Decided,
    Incident,
    Judged,
    Member,
    Sample,
    Tail,
    Terms,
    Waited,
)
from agentops.policy.reckoning import Reckoning
from journal.events import JsonObject

EVERYWHERE = "*"
# Begins the authority of a command that rests on a person's yes; the approval's id follows.
APPROVAL = "approval "


@dataclass(frozen=True, slots=True)
class Probing:
    """One observing command: how often it ran, and how often in a row it brought nothing."""

    command: str
    ran: int = 0
    failed_in_row: int = 0
    last_order: int = -1
    failed_at_us: int = 0


@dataclass(frozen=True, slots=True)
class Approval:
    """A question put to a person, and the answer so far.

    asked is the event that put it; operator and signature are who signed a yes, if anybody did.
    """

    approval_id: str
    digest: str
    expires_at_us: int
    answer: str = "open"
    asked: str = ""
    operator: str | None = None
    signature: str | None = None


@dataclass(frozen=True, slots=True)
class PolicyState:
    """Everything that decisions rest on.

    order counts folded events; trail is a digest over their leaf hashes, each on the one before;
    basis says up to which event each stream was folded; running are commands without an outcome;
    reckoning tells the engine's time from the clocks of the events; denied names the last act that
    was denied.
    """

    facts: FactTable = field(default_factory=FactTable)
    incident: Incident | None = None
    terms: Terms = field(default_factory=Terms)
    configuration: str = ""
    acts: tuple[Act, ...] = ()
    decisions: tuple[Decided, ...] = ()
    verdicts: tuple[Judged, ...] = ()
    members: tuple[Member, ...] = ()
    samples: tuple[Sample, ...] = ()
    tails: tuple[Tail, ...] = ()
    waits: tuple[Waited, ...] = ()
    probing: tuple[Probing, ...] = ()
    approvals: tuple[Approval, ...] = ()
    denials: int = 0
    denied: str = ""
    frozen_hosts: tuple[str, ...] = ()
    order: int = 0
    trail: str = ""
    basis: tuple[tuple[str, int], ...] = ()
    running: tuple[tuple[str, str, JsonObject], ...] = ()
    reckoning: Reckoning = field(default_factory=Reckoning)

    @property
    def at_us(self) -> int:
        """The engine's time at the newest event."""
        return self.reckoning.time_us

    @property
    def frozen(self) -> bool:
        """Whether an operator stopped all acting here."""
        return bool({EVERYWHERE, self.terms.host}.intersection(self.frozen_hosts))
