"""What ended processes left in the way of a start: lock files, and segments of shared memory.

Here: whose they were, the proof that these processes have ended and that nobody holds what they
left, and the acts that clear it away. Not here: the start (``agentops.policy.restoring``).

A lock that names a living process stands, whoever that is. A segment goes only where the job lacks
room, where it bears a name that the operator declared to be the job's, and where its owner is
known: by a pid in its name, or by having been seen to hold it. No clock and no age is a proof.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

from pydantic import JsonValue

from agentops.policy import moves
from agentops.policy.config import Lock, SharedMemory
from agentops.policy.decision import Close, Judge, RuleHit, Run, Step
from agentops.policy.facts import Fact
from agentops.policy.learning import (
    BEAT,
    HELD_BY,
    SHARED_MEMORY,
    beat_value,
    lock_subject,
    segment_subject,
)
from agentops.policy.ledger import Act
from agentops.policy.process import Process
from agentops.policy.processes import ProcessTable
from agentops.policy.view import View
from journal.events import Identity, JsonObject

CLEARED = "leftovers_cleared"
ATTEMPTS_MAX = 2
SEGMENTS_MAX = 256
MIB = 1 << 20
_SAYS = {
    "pid": re.compile(r"(?P<pid>[1-9]\d{0,6})"),
    "pid_and_start_ticks": re.compile(r"(?P<pid>[1-9]\d{0,6})\s+(?P<start>\d{1,15})"),
}
Standing = Literal["absent", "unowned", "left", "held", "unreadable"]


@dataclass(frozen=True, slots=True)
class LockSeen:
    """One lock file as last seen. start is known where the file or the job's history tells it."""

    path: str
    standing: Standing
    event: str
    text: str = ""
    pid: int = 0
    start: int | None = None

    def arguments(self) -> JsonObject:
        """As ``move_aside`` takes it."""
        return {
            "path": self.path,
            "text": self.text,
            "owner_pid": self.pid,
            "owner_start_ticks": self.start,
        }


@dataclass(frozen=True, slots=True)
class LeftSegment:
    """One segment that ended processes left, and the evidence of whose it was."""

    name: str
    inode: int
    used_bytes: int
    owners: tuple[Identity, ...]
    creator_pid: int | None

    def arguments(self) -> JsonObject:
        """As ``remove_segments`` takes it."""
        owners: list[JsonValue] = [moves.identity(owner) for owner in self.owners]
        return {
            "name": self.name,
            "inode": self.inode,
            "owners": owners,
            "creator_pid": self.creator_pid,
        }


def clearing(view: View) -> Step | None:
    """The next look, act or handover until nothing is in the way; None when nothing is."""
    return _locks(view) or _room(view) or _judged(view)


def _locks(view: View) -> Step | None:
    for lock in view.job.lock:
        seen = lock_seen(view, lock)
        if seen is None:
            hit = RuleHit("preflight", "does a lock stand in the way, and whose is it?")
            return Step(moves.locks(view), (hit,))
        on = (seen.event,)
        reason = ""
        match seen.standing:
            case "held":
                reason = "somebody holds the lock in the kernel"
                if seen.pid:
                    reason = f"a lock names process {seen.pid}, and nothing proves that it ended"
            case "unreadable":
                reason = "a lock stands and does not name its owner as the policy file says"
            case "left":
                return _move_aside(view, seen)
            case "absent" | "unowned":
                continue
        hit = RuleHit("preflight", reason, on)
        return Step(Close("HANDED_OVER", reason, on), (hit,))
    return None


def _move_aside(view: View, seen: LockSeen) -> Step:
    tried = [act for act in clears(view) if act.arguments.get("path") == seen.path]
    if len(tried) >= ATTEMPTS_MAX:
        return _in_vain(tried, "a lock of an ended process could not be moved aside")
    hit = RuleHit("leftovers", "the process that this lock names has ended", (seen.event,))
    return Step(Run("clear", "move_aside", seen.arguments()), (hit,))


def lock_seen(view: View, lock: Lock) -> LockSeen | None:
    """What the newest look says of *lock*; None where none was taken since the last act."""
    fact = view.fact(lock_subject(lock.path), "seen")
    table = view.table
    if fact is None or table is None or fact.order <= view.acted_order:
        return None
    said = fact.value if isinstance(fact.value, dict) else {}
    text = said.get("text")
    if said.get("exists") is not True or text == "" or said.get("held") is True:
        bare: Standing = "unowned" if said.get("exists") is True else "absent"
        return LockSeen(lock.path, "held" if said.get("held") is True else bare, fact.event)
    owner = read_owner(text, lock) if isinstance(text, str) else None
    if owner is None or not isinstance(text, str):
        return LockSeen(lock.path, "unreadable", fact.event)
    return _owned(view, table, LockSeen(lock.path, "left", fact.event, text, *owner))


def _owned(view: View, table: ProcessTable, seen: LockSeen) -> LockSeen:
    """The lock with its owner held against the newest listing."""
    pid, start = seen.pid, seen.start
    process = table.by_pid.get(pid)
    if process is None or process.zombie:
        return seen
    start = start if start is not None else _known_start(view, table, pid)
    standing: Standing = "held" if start in {None, process.start_ticks} else "left"
    return replace(seen, standing=standing, start=start)


def read_owner(text: str, lock: Lock) -> tuple[int, int | None] | None:
    """Pid and start ticks that a lock's text names, the whole of it; None where it is else.

    >>> read_owner("31 4077", Lock(path="/l", says="pid_and_start_ticks"))
    (31, 4077)
    >>> read_owner("31 4077", Lock(path="/l")), read_owner("1", Lock(path="/l"))
    (None, None)
    """
    found = _SAYS[lock.says].fullmatch(text)
    if found is None or int(found["pid"]) <= 1:
        return None
    start = found.groupdict().get("start")
    return int(found["pid"]), None if start is None else int(start)


def _known_start(view: View, table: ProcessTable, pid: int) -> int | None:
    """The start of the job's process that had this pid; None where the job had none, or two."""
    known = {
        member.identity.start_ticks
        for member in view.state.members
        if member.identity.pid == pid and table.covers(member.identity)
    }
    start = beat_value(view.state.facts, "start_ticks")
    if view.fact(*BEAT) is not None and beat_value(view.state.facts, "pid") == pid:
        known |= {start} if isinstance(start, int) else set()
    return known.pop() if len(known) == 1 else None


def stale_locks(view: View) -> tuple[LockSeen, ...]:
    """The job's locks whose owners are proven to have ended."""
    seen = (lock_seen(view, lock) for lock in view.job.lock)
    return tuple(lock for lock in seen if lock is not None and lock.standing == "left")


def _room(view: View) -> Step | None:
    wanted = view.job.shared_memory
    if wanted is None:
        return None
    seen = _shared_memory(view)
    if seen is None:
        hit = RuleHit("preflight", "has shared memory room for the job?")
        return Step(moves.shared_memory(), (hit,))
    lacks = wanted.free_mib * MIB - _free_bytes(seen)
    if lacks <= 0:
        return None
    left = left_segments(view)
    if not left:
        reason = (
            f"shared memory has {_free_bytes(seen) // MIB} MiB free and the job needs "
            f"{wanted.free_mib}; no segment there is proven to be left by an ended process of it"
        )
        return Step(
            Close("HANDED_OVER", reason, (seen.event,)),
            (RuleHit("preflight", reason, (seen.event,)),),
        )
    tried = [act for act in clears(view) if act.command == "remove_segments"]
    if len(tried) >= ATTEMPTS_MAX:
        return _in_vain(tried, "segments of ended processes could not be removed")
    rows: list[JsonValue] = [segment.arguments() for segment in _enough(left, lacks)]
    text = "shared memory lacks room, and ended processes of the job left these"
    run = Run("clear", "remove_segments", {"segments": rows})
    return Step(run, (RuleHit("leftovers", text, (seen.event,)),))


def _enough(left: tuple[LeftSegment, ...], lacks: int) -> Iterator[LeftSegment]:
    """The fewest that make the room, largest first; all where even those do not."""
    for segment in left[:SEGMENTS_MAX]:
        if lacks <= 0:
            return
        yield segment
        lacks -= segment.used_bytes


def _shared_memory(view: View) -> Fact | None:
    """The newest look, if it is later than the last act."""
    seen = view.fact(*SHARED_MEMORY)
    return seen if seen is not None and seen.order > view.acted_order else None


def _free_bytes(seen: Fact) -> int:
    free = seen.value.get("free_bytes") if isinstance(seen.value, dict) else None
    return free if isinstance(free, int) else 0


def left_segments(view: View) -> tuple[LeftSegment, ...]:
    """Segments of the job that nobody holds and whose processes have all ended, largest first."""
    wanted, seen, table = view.job.shared_memory, _shared_memory(view), view.table
    if wanted is None or seen is None or table is None or not isinstance(seen.value, dict):
        return ()
    listed = seen.value.get("segments")
    found = [
        segment
        for row in (listed if isinstance(listed, list) else [])
        if isinstance(row, dict)
        for segment in _left(view, wanted, table, row)
    ]
    return tuple(sorted(found, key=lambda segment: (-segment.used_bytes, segment.name)))


def _left(
    view: View, wanted: SharedMemory, table: ProcessTable, row: JsonObject
) -> Iterator[LeftSegment]:
    """The segment, if its owner is known and has ended."""
    name, inode, used = row.get("name"), row.get("inode"), row.get("used_bytes")
    if not isinstance(name, str) or not isinstance(inode, int) or not isinstance(used, int):
        return
    uid = view.job.role_match.uid
    ours = name.startswith(wanted.names) and "/" not in name and uid in {None, row.get("uid")}
    if not ours or row.get("orphaned") is not True:
        return
    creator = row.get("creator_pid")
    creator_pid = creator if isinstance(creator, int) and creator > 1 else None
    owners = _owners(view, table, inode, name)
    if owners is None or any(_lives(table.find(owner)) for owner in owners):
        return
    if creator_pid is not None:
        listed = _lives(table.by_pid.get(creator_pid))
        if listed or row.get("creator_alive") is not False:
            return
    if creator_pid is not None or owners:
        yield LeftSegment(name, inode, used, owners, creator_pid)


def _lives(process: Process | None) -> bool:
    return process is not None and not process.zombie


def _owners(view: View, table: ProcessTable, inode: int, name: str) -> tuple[Identity, ...] | None:
    """Everybody who was seen to hold the segment; None where one of them was never of the job."""
    held = view.state.facts.value(segment_subject(inode, name), HELD_BY)
    known = {member.identity for member in view.state.members}
    owners = []
    for pair in held if isinstance(held, list) else []:
        pid, start = pair if isinstance(pair, list) and len(pair) == 2 else (0, 0)  # noqa: PLR2004
        owner = Identity(
            boot_id=table.boot_id,
            pid_namespace=table.pid_namespace,
            namespace_init_start_ticks=table.namespace_init_start_ticks,
            pid=pid if isinstance(pid, int) else 0,
            start_ticks=start if isinstance(start, int) else 0,
        )
        if owner not in known:
            return None
        owners.append(owner)
    return tuple(owners)


def clears(view: View) -> tuple[Act, ...]:
    """The acts that cleared something away, or may have."""
    done = (act for act in view.state.acts if act.command in {"move_aside", "remove_segments"})
    return tuple(act for act in done if act.status != "not_sent")


def _in_vain(tried: list[Act], reason: str) -> Step:
    events = tried[-1].events
    return Step(Close("HANDED_OVER", reason, events), (RuleHit("leftovers", reason, events),))


def _judged(view: View) -> Step | None:
    """After an act: nothing is in the way any more, as a later look shows."""
    done = clears(view)
    if not done or view.verdict(CLEARED, after=done[-1].last_order) is not None:
        return None
    facts = [view.fact(lock_subject(lock.path), "seen") for lock in view.job.lock]
    facts.append(view.fact(*SHARED_MEMORY) if view.job.shared_memory is not None else None)
    events = tuple(dict.fromkeys(fact.event for fact in facts if fact is not None))
    reason = "a later look shows no lock of an ended process, and room where it is needed"
    condition: JsonObject = {"kind": CLEARED, "commands": [act.command_id for act in done]}
    judge = Judge(condition, "confirmed", reason, events)
    return Step(judge, (RuleHit("proof", reason, events),))
