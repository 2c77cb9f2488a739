"""One look at a state: everything that stages, guards and hypotheses ask, computed once.

Here: questions about the present, answered from facts and ledgers alone. Not here: any choice.
"""

from dataclasses import dataclass

from agentops.policy.config import Job, PolicyConfig
from agentops.policy.facts import Fact
from agentops.policy.learning import STUCK_SINCE, beat_value, finite
from agentops.policy.ledger import Act, Judged, Sample, Tail
from agentops.policy.process import Process
from agentops.policy.processes import ProcessTable, process_subject, read_table
from agentops.policy.roles import Roles, find_roles
from agentops.policy.state import PolicyState, Probing
from journal.events import Identity, Verdict

SECOND_US = 1_000_000
ENDED_STATES = ("finished", "stopped", "failed")


@dataclass(frozen=True, slots=True)
class View:
    """State, configuration and now, with what they say together."""

    state: PolicyState
    config: PolicyConfig
    job: Job
    now_us: int
    table: ProcessTable | None
    roles: Roles

    @property
    def beat(self) -> Sample | None:
        """The newest heartbeat, if the newest look at it found one."""
        return self.state.samples[-1] if self.heartbeat_exists and self.state.samples else None

    @property
    def incident_id(self) -> str:
        """The incident's id; empty before one is open."""
        return "" if self.state.incident is None else self.state.incident.id

    @property
    def heartbeat_exists(self) -> bool | None:
        """Whether the heartbeat's file was there at the last look; None before any look."""
        value = beat_value(self.state.facts, "exists")
        return value if isinstance(value, bool) else None

    @property
    def listed(self) -> tuple[str, ...]:
        """The event of the newest process table, as evidence; empty where there is none."""
        return () if self.table is None else (self.table.event,)

    @property
    def listed_at_us(self) -> int:
        """When the newest process table was received; 0 where there is none."""
        return 0 if self.table is None else self.table.at_us

    @property
    def acted_us(self) -> int:
        """When the newest act that may have changed something was done; 0: there was none."""
        done = [act for act in self.state.acts if act.status != "not_sent"]
        return done[-1].done_us if done else 0

    @property
    def alive_order(self) -> int:
        """The place in the fold of the last decision that saw a member alive; -1: none did."""
        return max((made.order for made in self.state.decisions if made.alive), default=-1)

    @property
    def acted_order(self) -> int:
        """The place in the fold after which everything was seen after the last act."""
        return max((act.last_order for act in self.state.acts), default=-1)

    @property
    def signals(self) -> tuple[Act, ...]:
        """All signals sent or perhaps sent, oldest first."""
        return tuple(act for act in self.state.acts if act.signal and act.status != "not_sent")

    @property
    def launches(self) -> tuple[Act, ...]:
        """All launches that were not proven undone, oldest first."""
        return tuple(
            act
            for act in self.state.acts
            if act.command == "launch" and act.status != "not_sent" and act.settled != "not_done"
        )

    def signals_to(self, identity: Identity) -> tuple[Act, ...]:
        """The signals that *identity* got or may have got."""
        return tuple(
            act for act in self.signals if identity in act.victims and act.delivered != "no"
        )

    def seen_after(self, order: int) -> bool:
        """Whether a whole process table is newer than *order*."""
        return self.table is not None and self.table.complete and self.table.order > order

    def table_fresh(self, within_s: int) -> bool:
        """Whether the newest whole table is at most *within_s* old, and no clock jumped since."""
        return (
            self.table is not None
            and self.table.complete
            and self.table.order >= self.state.reckoning.jumped
            and self.now_us - self.table.at_us <= within_s * SECOND_US
        )

    def samples_after(self, order: int) -> tuple[Sample, ...]:
        """Heartbeats read later than *order*."""
        return tuple(sample for sample in self.state.samples if sample.order > order)

    def sample_before(self, order: int) -> Sample | None:
        """The last heartbeat read before *order*."""
        earlier = [sample for sample in self.state.samples if sample.order < order]
        return earlier[-1] if earlier else None

    @property
    def newest_tail(self) -> Tail | None:
        """The newest look at the job's log."""
        return self.tail_before(self.state.order + 1)

    def tails_after(self, order: int) -> tuple[Tail, ...]:
        """Looks at the job's log later than *order*."""
        return tuple(
            tail
            for tail in self.state.tails
            if tail.order > order and tail.path == self.job.progress.log
        )

    def tail_before(self, order: int) -> Tail | None:
        """The last look at the job's log before *order*."""
        earlier = [
            tail
            for tail in self.state.tails
            if tail.order < order and tail.path == self.job.progress.log
        ]
        return earlier[-1] if earlier else None

    def probing(self, command: str) -> Probing:
        """How often *command* was used to look."""
        return next((row for row in self.state.probing if row.command == command), Probing(command))

    def verdict(self, kind: str, *, after: int = -1) -> Judged | None:
        """The newest verdict on a condition of this kind, later than *after*."""
        found = [
            judged for judged in self.state.verdicts if judged.kind == kind and judged.order > after
        ]
        return found[-1] if found else None

    def verdicts(self, kind: str, verdict: Verdict) -> tuple[Judged, ...]:
        """All verdicts of one kind and value."""
        return tuple(
            judged
            for judged in self.state.verdicts
            if judged.kind == kind and judged.verdict == verdict
        )

    def waited_order(self, kind: str) -> int:
        """When a wait on this kind of condition last ended, as a place in the fold; -1: never."""
        return max((waited.order for waited in self.state.waits if waited.kind == kind), default=-1)

    def fact(self, subject: str, predicate: str) -> Fact | None:
        """The fact itself, for its event and age."""
        return self.state.facts.get((subject, predicate))

    def stuck_us(self, process: Process) -> int:
        """How long *process* has been seen in uninterruptible sleep; 0 where it is not."""
        since = self.state.facts.value(
            process_subject(process.pid, process.start_ticks), STUCK_SINCE
        )
        if process.state != "D" or not isinstance(since, int) or self.table is None:
            return 0
        return max(0, self.table.at_us - since)

    @property
    def still_since_us(self) -> int | None:
        """Since when, by receipt, the newest heartbeats show one and the same step."""
        beat = self.beat
        if beat is None:
            return None
        since = beat.at_us
        for sample in reversed(self.state.samples):
            if (sample.step, sample.pid, sample.start_ticks) != (
                beat.step,
                beat.pid,
                beat.start_ticks,
            ):
                break
            since = sample.at_us
        return since

    @property
    def diverged(self) -> bool:
        """Whether the newest heartbeat states a loss that is not a finite number."""
        return self.beat is not None and finite(self.beat.loss) is False


def look(state: PolicyState, config: PolicyConfig, job: Job, now_us: int) -> View:
    """The view of *job* at *now_us*."""
    table = read_table(state.facts)
    return View(state, config, job, now_us, table, find_roles(state, job, config, table))
