"""The one queue of jobs that all targets share, and who works on what since when.

A slow target takes fewer jobs. A job that its target gave up, or hangs on, goes back to the front
with its attempts counted. All calls wait and change under the crew's condition.
"""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from trainer.pipeline.arena import Lease
from trainer.pipeline.crew import Crew


@dataclass(frozen=True)
class Wanted:
    """A document that somebody will train on, and where its features go."""

    document: int
    lease: Lease


@dataclass(frozen=True)
class Job:
    """Documents for a target to read at once, padded to ``length``; some may be unwanted.

    A resumed run reads a batch whole although part of it is trained already: what a document's
    features are, to the last bit, may depend on its neighbours in the batch.
    """

    epoch: int
    documents: tuple[int, ...]
    length: int
    wanted: tuple[Wanted, ...]
    attempt: int = 1

    @property
    def tokens(self) -> int:
        """Tokens of the wanted documents."""
        return sum(each.lease.tokens for each in self.wanted)

    def halves(self) -> tuple["Job", ...]:
        """The job as two of half the documents; those with nothing wanted are left out."""
        middle = (len(self.documents) + 1) // 2
        parts = []
        for documents in (self.documents[:middle], self.documents[middle:]):
            wanted = tuple(each for each in self.wanted if each.document in documents)
            if wanted:
                parts.append(replace(self, documents=documents, wanted=wanted))
        return tuple(parts)


@dataclass(frozen=True)
class Ticket:
    """One taking of one job by one worker; who holds none may not publish."""

    number: int
    job: Job
    worker: str
    since_s: float


_NOT_RUNNING = float("inf")


@dataclass
class JobQueue:
    """Bounded, in order, shared; ``clock`` gives seconds that never go back."""

    crew: Crew
    capacity: int
    clock: Callable[[], float]
    _waiting: deque[Job] = field(default_factory=deque)
    _out: dict[int, Ticket] = field(default_factory=dict)
    _running_since_s: dict[int, float] = field(default_factory=dict)
    _taken: int = 0

    @property
    def has_room(self) -> bool:
        """Whether another job may be put."""
        return len(self._waiting) < self.capacity

    @property
    def out(self) -> int:
        """Jobs that somebody works on."""
        return len(self._out)

    @property
    def waiting(self) -> int:
        """Jobs that nobody has taken."""
        return len(self._waiting)

    def put(self, job: Job) -> None:
        """Add at the end; the caller saw that there is room."""
        assert self.has_room
        self._waiting.append(job)
        self.crew.changed.notify_all()

    def put_back(self, jobs: Sequence[Job]) -> None:
        """Add at the front, in this order, room or not: they had a place before."""
        self._waiting.extendleft(reversed(jobs))
        self.crew.changed.notify_all()

    def take(self, worker: str, may_take: Callable[[], bool]) -> Ticket:
        """The next job, once there is one and ``may_take`` says yes."""
        with self.crew.changed:
            self.crew.until(lambda: bool(self._waiting) and may_take())
            self._taken += 1
            ticket = Ticket(self._taken, self._waiting.popleft(), worker, self.clock())
            self._out[ticket.number] = ticket
            self._running_since_s[ticket.number] = ticket.since_s
            self.crew.changed.notify_all()
            return ticket

    def holds(self, ticket: Ticket) -> bool:
        """Whether the ticket still counts."""
        return ticket.number in self._out

    def close(self, ticket: Ticket) -> bool:
        """End a ticket; False when it had been taken away."""
        self._running_since_s.pop(ticket.number, None)
        return self._out.pop(ticket.number, None) is not None

    def waits(self, ticket: Ticket, *, is_waiting: bool) -> None:
        """Its worker waits for a neighbour, which is no hang; or it goes on, from now."""
        if ticket.number in self._out:
            since_s = _NOT_RUNNING if is_waiting else self.clock()
            self._running_since_s[ticket.number] = since_s

    def overdue(self, seconds: float) -> list[Ticket]:
        """Tickets whose workers are at it for longer than that."""
        now = self.clock()
        late = [each for each, since_s in self._running_since_s.items() if now - since_s > seconds]
        return [self._out[each] for each in late]
