"""Locks and segments on a real host: what is in somebody's hand stays, whoever asks."""

import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentops.box import Box
from agentops.box.waiting import wait_for
from agentops.commands.clearing import (
    LeftSegment,
    MoveAside,
    MovedAside,
    RemoveSegments,
    SegmentsRemoved,
)
from agentops.commands.space import SharedMemory, SharedMemorySeen
from agentops.transport import SshTransport
from tests.support.boxes import box, inside, observe, ssh

__all__ = ["box", "inside", "ssh"]
pytestmark = [pytest.mark.needs("sshd"), pytest.mark.needs("root-namespaces")]
PYTHON = "/usr/bin/python3"
CONTAINER = "200"
HOLD_FLOCK = (
    "import fcntl,signal,sys;f=open(sys.argv[1],'r+');fcntl.flock(f,2);print(1,flush=True);"
    "signal.pause()"
)
HOLD_OPEN = "import signal,sys;f=open(sys.argv[1]);print(1,flush=True);signal.pause()"
HOLD_MAP = (
    "import mmap,signal,sys;f=open(sys.argv[1],'r+b');m=mmap.mmap(f.fileno(),0);f.close();"
    "print(1,flush=True);signal.pause()"
)


def ended_pid(box: Box) -> int:
    """The pid of a process of the container that has ended."""
    return int(box.run_inside(("sh", "-c", "echo $$"), container=CONTAINER).stdout)


def held(box: Box, code: str, path: str) -> int:
    """Start a process that takes *path* in hand; gives its pid when it has."""
    log = box.directory / f"held-{secrets.token_hex(3)}"
    truth = box.start_inside((PYTHON, "-S", "-c", code, path), container=CONTAINER, log=log)
    wait_for(lambda: (log.exists() and log.read_text().startswith("1")) or None, 10, "the holder")
    return truth.identity.pid


class LockFile:
    """A lock file, handled from outside under the path that it has inside."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def says(self, text: str) -> None:
        """Write it."""
        self.path.write_text(text)

    def stands(self) -> bool:
        """Whether anything is there."""
        return self.path.exists()

    def gone(self) -> None:
        """Remove it."""
        self.path.unlink()

    def is_link(self, text: str) -> None:
        """Put a symbolic link in its place, to a file that says the same."""
        other = self.path.with_name("other")
        other.write_text(text)
        self.path.symlink_to(other)

    def is_folder(self) -> None:
        """Put a folder in its place."""
        self.path.mkdir()


def content_of(path: str) -> str:
    """What a file holds."""
    return Path(path).read_text()


@pytest.fixture
def lock(box: Box) -> LockFile:
    """The job's lock."""
    return LockFile(box.directory / "job.lock")


async def test_a_lock_of_an_ended_process_is_moved_and_kept(
    box: Box, inside: SshTransport, lock: LockFile
) -> None:
    """The text goes on standing beside; a repeat finds nothing to do."""
    pid = ended_pid(box)
    lock.says(f"{pid}\n")
    command = MoveAside(path=str(lock.path), text=str(pid), owner_pid=pid)
    moved = await observe(inside, command, MovedAside)
    assert moved.refusal is None
    assert moved.moved_to is not None
    assert content_of(moved.moved_to) == f"{pid}\n"
    assert not lock.stands()
    assert (await observe(inside, command, MovedAside)).refusal == "absent"


async def test_a_reused_pid_is_told_by_its_start(
    box: Box, inside: SshTransport, lock: LockFile
) -> None:
    """With other start ticks it is another's; with its own, or with none, it is the owner's."""
    truth = box.start_inside(("sleep", "600"), container=CONTAINER)
    pid, start = truth.identity.pid, truth.identity.start_ticks
    for said, known, refusal in (
        (f"{pid}", None, "owner_lives"),
        (f"{pid} {start}", start, "owner_lives"),
        (f"{pid} 1", 1, None),
    ):
        lock.says(said)
        command = MoveAside(path=str(lock.path), text=said, owner_pid=pid, owner_start_ticks=known)
        assert (await observe(inside, command, MovedAside)).refusal == refusal


@pytest.mark.parametrize("code", [HOLD_FLOCK, HOLD_OPEN])
async def test_a_lock_in_somebodys_hand_stays(
    box: Box, inside: SshTransport, lock: LockFile, code: str
) -> None:
    """Whatever pid it names: locked, or merely open."""
    pid = ended_pid(box)
    lock.says(str(pid))
    held(box, code, str(lock.path))
    command = MoveAside(path=str(lock.path), text=str(pid), owner_pid=pid)
    assert (await observe(inside, command, MovedAside)).refusal == "held"
    assert lock.stands()


async def test_what_is_not_the_lock_that_was_seen_stays(
    box: Box, inside: SshTransport, lock: LockFile
) -> None:
    """Another text, a symbolic link, a folder."""
    pid = ended_pid(box)
    command = MoveAside(path=str(lock.path), text=str(pid), owner_pid=pid)
    lock.says(f"{pid} {pid}")
    assert (await observe(inside, command, MovedAside)).refusal == "changed"
    lock.gone()
    lock.is_link(str(pid))
    assert (await observe(inside, command, MovedAside)).refusal == "not_a_file"
    lock.gone()
    lock.is_folder()
    assert (await observe(inside, command, MovedAside)).refusal == "not_a_file"


@pytest.fixture
def mark(box: Box) -> Iterator[str]:
    """A part of names in shared memory that is this test's own; what bears it goes at the end."""
    own = secrets.token_hex(4)
    yield own
    box.run_inside(("sh", "-c", f"rm -f /dev/shm/*{own}*"), container=CONTAINER)


async def segments(inside: SshTransport, mark: str) -> dict[str, tuple[int, tuple[int, ...]]]:
    """Inode and holders' starts of each segment with the mark."""
    seen = await observe(inside, SharedMemory(), SharedMemorySeen)
    return {s.name: (s.inode, s.held_since_ticks) for s in seen.segments if mark in s.name}


async def test_only_segments_that_nobody_holds_and_whose_owner_ended_are_removed(
    box: Box, inside: SshTransport, mark: str
) -> None:
    """One goes; one is mapped, one is open, one's holder lives, one is another by now."""
    gone = ended_pid(box)
    alive = box.start_inside(("sleep", "600"), container=CONTAINER).identity
    names = [f"torch_{gone}_{mark}_{number}" for number in range(5)]
    script = ";".join(f"echo 12345678 > /dev/shm/{name}" for name in names)
    box.run_inside(("sh", "-c", script), container=CONTAINER)
    mapper = held(box, HOLD_MAP, f"/dev/shm/{names[1]}")
    held(box, HOLD_OPEN, f"/dev/shm/{names[2]}")
    seen = await segments(inside, mark)
    assert seen[names[1]][1] == tuple(
        truth.identity.start_ticks
        for truth in box.processes(CONTAINER)
        if truth.identity.pid == mapper
    )
    wanted = [LeftSegment(name=name, inode=seen[name][0], creator_pid=gone) for name in names]
    wanted[3] = wanted[3].model_copy(update={"owners": (alive,)})
    wanted[4] = wanted[4].model_copy(update={"inode": wanted[4].inode + 1})
    command = RemoveSegments(segments=tuple(wanted))
    removed = await observe(inside, command, SegmentsRemoved)
    assert [row.refusal for row in removed.segments] == [
        None,
        "held",
        "held",
        "owner_lives",
        "changed",
    ]
    assert sorted(await segments(inside, mark)) == names[1:]
    again = await observe(inside, command, SegmentsRemoved)
    assert again.segments[0].refusal == "absent"


async def test_a_segment_whose_creators_pid_lives_stays(
    box: Box, inside: SshTransport, mark: str
) -> None:
    """The pid in its name may be a reused one's: that proves nothing."""
    alive = box.start_inside(("sleep", "600"), container=CONTAINER).identity
    name = f"torch_{alive.pid}_{mark}"
    box.run_inside(("sh", "-c", f"echo 1 > /dev/shm/{name}"), container=CONTAINER)
    inode = (await segments(inside, mark))[name][0]
    wanted = LeftSegment(name=name, inode=inode, creator_pid=alive.pid)
    removed = await observe(inside, RemoveSegments(segments=(wanted,)), SegmentsRemoved)
    assert removed.segments[0].refusal == "owner_lives"
    elsewhere = alive.model_copy(update={"boot_id": "another"})
    wanted = LeftSegment(name=name, inode=inode, owners=(elsewhere,))
    removed = await observe(inside, RemoveSegments(segments=(wanted,)), SegmentsRemoved)
    assert removed.segments[0].removed
