"""What lies beside a simulated job: its lock file, segments of shared memory, the model.

Here: these files, whose they are by the truth, and what a start of the job needs of them. Not here:
processes (``agentops.bench.world``).
"""

from collections.abc import Callable
from dataclasses import dataclass, field

LOCK = "/job/train.lock"
MODEL = "/job/model"
MIB = 1 << 20
SHM_MIB = 64
NEEDED_MIB = 16
OWN_MIB = 8

Lives = Callable[[int, int | None], bool]


@dataclass(slots=True)
class Segment:
    """One file of shared memory. owner is by the truth: pid and start ticks; 0 is nobody's."""

    name: str
    inode: int
    mib: int
    owner: tuple[int, int]
    creator_pid: int | None


@dataclass(slots=True)
class Shelf:
    """lock is its text, None where no lock stands. wrong gathers what should never have gone."""

    lock: str | None = None
    locks: bool = True
    segments: dict[int, Segment] = field(default_factory=dict)
    model_intact: bool = True
    aside: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    next_inode: int = 11

    @property
    def free_mib(self) -> int:
        """Room in shared memory."""
        return max(0, SHM_MIB - sum(segment.mib for segment in self.segments.values()))

    def put(
        self, name: str, mib: int, owner: tuple[int, int], creator_pid: int | None = None
    ) -> Segment:
        """A new segment."""
        segment = Segment(name, self.next_inode, mib, owner, creator_pid)
        self.segments[segment.inode] = segment
        self.next_inode += 1
        return segment

    def take(self, pid: int, start_ticks: int, lives: Lives) -> bool:
        """A start of the job takes its lock and its memory; False where it cannot."""
        if self.lock is not None and self.locks:
            holder = self.lock.split(" ")[0]
            if not holder.isdigit() or (int(holder) != pid and lives(int(holder), None)):
                return False
        if self.free_mib < OWN_MIB or not self.model_intact:
            return False
        self.lock = f"{pid} {start_ticks}"
        self.put(f"psm_{self.next_inode:08x}", OWN_MIB, (pid, start_ticks))
        return True

    def give_back(self, pid: int, start_ticks: int) -> None:
        """A clean end removes the own lock; segments stay, as they do after a careless end."""
        if self.lock == f"{pid} {start_ticks}":
            self.lock = None

    def restarted(self) -> None:
        """The container's memory is gone with it; its files stay."""
        self.segments.clear()

    def move_aside(self, text: str, pid: int, start: int | None, lives: Lives) -> str | None:
        """What the host does when asked; gives why not."""
        if self.lock is None:
            return "absent"
        if self.lock != text:
            return "changed"
        if lives(pid, start):
            return "owner_lives"
        words = [int(word) for word in text.split() if word.isdigit()]
        if len(words) == 2 and lives(words[0], words[1]):  # noqa: PLR2004 - pid and start ticks
            self.wrong.append(f"the lock of living process {words[0]} was moved aside")
        self.aside.append(text)
        self.lock = None
        return None

    def remove(
        self,
        inode: int,
        name: str,
        owners: list[tuple[int, int]],
        creator: int | None,
        lives: Lives,
    ) -> str | None:
        """What the host does when asked to remove a segment; gives why not."""
        segment = self.segments.get(inode)
        if segment is None or segment.name != name:
            return "absent" if segment is None else "changed"
        if lives(*segment.owner):
            return "held"
        if any(lives(*owner) for owner in owners) or (creator and lives(creator, None)):
            return "owner_lives"
        if segment.owner == (0, 0):
            self.wrong.append(f"segment {name} was nobody's to remove")
        del self.segments[inode]
        return None
