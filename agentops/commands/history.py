"""What a host itself recorded: ``host_history`` reads log-ins, starts and ended processes.

Here: reading the host's own logs as they are. Not here: holding them against the journal
(``reports.compliance.history``).
"""

from collections.abc import Sequence
from typing import ClassVar, Literal

from pydantic import Field

from agentops.commands.base import Count, Malformed, Observation
from agentops.commands.metrics import cards
from agentops.commands.script import ScriptCommand
from journal.events import Effect, Retry

Source = Literal["read", "absent", "denied"]


class Recorded(Observation):
    """One thing that the host's logs tell.

    kind "boot" and "shutdown" (name: the kernel's version), "login" and "logout" of a terminal
    (name), "ssh" an accepted connection (name: how it was proved), "process" one that ended, with
    its wait status. What a log does not tell is None.
    """

    kind: Literal["boot", "shutdown", "login", "logout", "ssh", "process"]
    at_unix_ms: Count
    ended_unix_ms: Count | None
    pid: Count | None
    uid: Count | None
    user: str | None
    origin: str | None
    port: Count | None
    name: str | None
    status: Count | None


class _Head(Observation):
    """What the script says and the observation holds alike."""

    boot_id: str
    now_unix_ms: Count
    booted_unix_ms: Count
    wtmp: Source
    wtmp_first_unix_ms: Count | None
    ssh_log: Source
    accounting: Source
    own_address: str | None
    own_port: Count | None


class HostHistorySeen(_Head):
    """The records since the moment asked for, oldest first, the latest 1000 at most.

    A source is "read", "absent" or "denied"; of one that was not read nothing can be excluded.
    total counts all records since then. own_address and own_port are where this command's own
    connection comes from, None inside a container.
    """

    total: Count
    records: tuple[Recorded, ...]


class _Counted(_Head):
    rows: Count


class HostHistory(ScriptCommand):
    """Log-ins, starts and ended processes, as the host's own logs tell them."""

    name: ClassVar[str] = "host_history"
    effect: ClassVar[Effect] = "observes"
    intrusiveness: ClassVar[int] = 1
    retry: ClassVar[Retry] = "repeat"
    assumptions: ClassVar[tuple[str, ...]] = (
        "who can write the host's logs can leave a log-in out of them",
        "process accounting is off unless somebody switched it on",
        "a container has logs of its own, or none",
    )
    silence: ClassVar[str] = (
        "Nothing was learned; a source that was read and is empty is an answer."
    )
    metric_cards: ClassVar[dict[str, str]] = cards(
        at_unix_ms="By the host's clock when it was written; of a process, when it began.",
        ended_unix_ms="Begin and elapsed time added up; both are rounded by the kernel.",
        now_unix_ms="The host's clock at the reading, to see how far it is from ours.",
        booted_unix_ms="The host's clock minus its uptime; a clock that was set moves it.",
        wtmp_first_unix_ms="How far back wtmp goes; nothing older can be excluded.",
    )
    python: ClassVar[tuple[str, ...]] = ("identity", "host_history")

    since_unix_ms: Count = Field(
        default=0, description="Leave out what ended before this moment; 0 for none."
    )

    def script_arguments(self) -> tuple[str, ...]:
        """The moment from which on."""
        return (str(self.since_unix_ms),)

    def read(self, rows: Sequence[dict[str, object]]) -> HostHistorySeen | Malformed:
        """One head, then the records."""
        if not rows:
            return Malformed("the head of the answer is missing")
        head = _Counted.model_validate(rows[0])
        records = tuple(Recorded.model_validate(row) for row in rows[1:])
        told = head.model_dump(exclude={"rows"})
        return HostHistorySeen(**told, total=head.rows, records=records)
