"""Bytes that stay: append-only files whose callers share one fdatasync.

``AppendFile`` is the group commit: many threads write, one syncs for all of them, and nobody is
told "durable" before the bytes are. A failed write or sync marks the file failed for good; the
owner opens a new one after cutting off what was never acknowledged. Where the file system can, a
file is laid out ahead in zeros: a sync that need not record a new size takes a fifth less time.
``docs/decisions/0021-lay-segments-out-ahead.md`` has the numbers. Not here: what the bytes mean.
"""

import fcntl
import os
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from journal.errors import WriteFailed
from journal.segment_walk import filled_size

FILE_MODE = 0o600
FOLDER_MODE = 0o700
ROOM_BYTES = 256 << 10  # laid out at a time: some 250 events, and quick to read over


class Disk(Protocol):
    """The calls that can fail on a disk, as a seam."""

    def reserve(self, descriptor: int, start: int, end: int) -> None:
        """Lay the file out up to *end*, in zeros from *start* on, its present size, or do nothing.

        Raises:
            OSError: No space, or not on this file system.
        """

    def write(self, descriptor: int, data: bytes) -> int:
        """Write where the descriptor stands; gives how many bytes were taken."""

    def sync(self, descriptor: int) -> None:
        """Return once the file's bytes and size are on stable storage."""


class SystemDisk:
    """The operating system's own calls."""

    def reserve(self, descriptor: int, start: int, end: int) -> None:
        """Lay the file out up to *end*, in zeros from *start* on, its present size, or do nothing.

        Raises:
            OSError: No space, or not on this file system.
        """
        if sys.platform != "darwin":  # which has no such call
            os.posix_fallocate(descriptor, start, end - start)

    def write(self, descriptor: int, data: bytes) -> int:
        """Write where the descriptor stands; gives how many bytes were taken."""
        return os.write(descriptor, data)

    def sync(self, descriptor: int) -> None:
        """Return once the file's bytes and size are on stable storage."""
        if sys.platform == "darwin":  # fsync(2) there leaves the drive's cache unflushed
            fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)
        else:
            os.fdatasync(descriptor)


class AppendFile:
    """One file, appended to by the threads of one process, synced for all of them at once.

    begin is where it goes on, by default at its end; behind that may be zeros only. room is how far
    it is laid out ahead; closing cuts off what was not used.

    Attributes:
        size: Bytes written, durable or not.
        durable: Bytes known to be on stable storage.
        failed: The error that ended this file's use, or None.
    """

    def __init__(
        self, path: Path, disk: Disk, *, begin: int | None = None, room: int = ROOM_BYTES
    ) -> None:
        self.path = path
        self._disk = disk
        self._room = room
        self._process = os.getpid()
        self._turn = threading.Condition()
        self._syncing = False
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
        existed = path.exists()
        try:
            self._descriptor = os.open(path, flags, FILE_MODE)
            if not existed:
                sync_folder(path.parent)
        except OSError as error:
            raise WriteFailed(f"cannot open {path} for appending: {error.strerror}") from error
        self._laid = os.fstat(self._descriptor).st_size
        self.size = self.durable = self._laid if begin is None else begin
        os.lseek(self._descriptor, self.size, os.SEEK_SET)
        self.failed: OSError | None = None

    def write(self, data: bytes) -> int:
        """Append without waiting; gives the offset at which the data begins.

        Raises:
            WriteFailed: The disk took less than all of it; the file is failed.
        """
        with self._turn:
            self._refuse_if_failed()
            offset = self.size
            if offset + len(data) > self._laid:
                self._lay_out(offset + len(data) + self._room)
            try:
                taken = self._disk.write(self._descriptor, data)
                while taken < len(data):
                    taken += self._disk.write(self._descriptor, data[taken:])
            except OSError as error:
                self._fail(error)
                self._refuse_if_failed()
            self.size = offset + len(data)
            return offset

    def wait_durable(self, upto: int) -> None:
        """Return once the first *upto* bytes are durable; one of the waiters syncs for all.

        Raises:
            WriteFailed: The sync failed, or the file failed before these bytes were durable.
        """
        with self._turn:
            while self.durable < upto:
                self._refuse_if_failed()
                if self._syncing:
                    self._turn.wait()
                else:
                    self._sync_once()

    def close(self) -> None:
        """Let go of the descriptor, after a sync under way has ended; nothing more is synced.

        What was laid out and not used is cut off. That need not be durable: zeros mean nothing.
        """
        with self._turn:
            while self._syncing:  # a closed number could be given to another file under its feet
                self._turn.wait()
            if self._descriptor >= 0:
                self._cut_room()
                os.close(self._descriptor)
                self._descriptor = -1

    def _lay_out(self, upto: int) -> None:
        if self._room == 0:
            return
        try:
            self._disk.reserve(self._descriptor, self._laid, upto)
        except OSError:
            self._room = 0  # appending needs no room; whether there is space, the write will say
        self._laid = os.fstat(self._descriptor).st_size

    def _cut_room(self) -> None:
        """Cut off the zeros behind the end: never another byte, and never the parent's zeros."""
        if self.failed is not None or os.getpid() != self._process:
            return
        with suppress(OSError):
            present = os.fstat(self._descriptor).st_size
            if filled_size(self._descriptor) <= self.size < present:
                os.ftruncate(self._descriptor, self.size)

    def _sync_once(self) -> None:
        covered = self.size
        self._syncing = True
        self._turn.release()
        failure: OSError | None = None
        try:
            self._disk.sync(self._descriptor)
        except OSError as error:
            failure = error
        finally:
            self._turn.acquire()
            self._syncing = False
        if failure is not None:
            self._fail(failure)
        elif self.failed is None:
            self.durable = covered
        self._turn.notify_all()

    def _fail(self, error: OSError) -> None:
        self.failed = error
        self._turn.notify_all()

    def _refuse_if_failed(self) -> None:
        if self.failed is not None:
            reason = self.failed.strerror or str(self.failed)
            raise WriteFailed(f"cannot write to {self.path}: {reason}; nothing was acknowledged")


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_folder(folder: Path) -> None:
    """Make a folder, and those above it, for its owner only; its name is durable afterwards."""
    if folder.is_dir():
        return
    make_folder(folder.parent)
    folder.mkdir(mode=FOLDER_MODE, exist_ok=True)
    sync_folder(folder.parent)


def cut(path: Path, size: int) -> None:
    """Shorten a file to *size* bytes, durably.

    Raises:
        WriteFailed: The disk refused.
    """
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.ftruncate(descriptor, size)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise WriteFailed(f"cannot shorten {path}: {error.strerror}") from error


def write_whole(path: Path, data: bytes) -> None:
    """Put a whole file in place at once, durably: a reader sees the old one or the new one.

    Raises:
        WriteFailed: The disk refused; the old file is untouched.
    """
    beside = path.with_name(f".{path.name}.{os.getpid()}.new")
    try:
        descriptor = os.open(
            beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, FILE_MODE
        )
        try:
            rest = memoryview(data)
            while rest:
                rest = rest[os.write(descriptor, rest) :]
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        beside.replace(path)
        sync_folder(path.parent)
    except OSError as error:
        beside.unlink(missing_ok=True)
        raise WriteFailed(f"cannot write {path}: {error.strerror}") from error
