"""Anchors: copies of seals outside the journal, so that a cut-off end is missed.

Without one, whoever can write the journal can drop its newest events together with their seals.
Three sorts, named by their place: a path (an append-only file), ``ssh:HOST:PATH`` (a file that is
only appended to, over SSH), ``git:FOLDER`` (a commit per seal in a clone that is pushed elsewhere).
Here: sending and reading back. Not here: judging by anchors (``journal.verification``).
"""

import shlex
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from journal.disk import Disk, SystemDisk, make_folder
from journal.errors import JournalError, KeyUnusable
from journal.lines import canonical
from journal.seals import StoredNote, append_note, parse_notes, read_notes

REMOTE_DEADLINE_S = 20
GIT_FILE = "anchors.jsonl"


class AnchorFailed(JournalError):  # noqa: N818 - the sentence reads better without "Error"
    """The copy could not be stored or read; the journal goes on, unanchored from here."""


class Anchor(Protocol):
    """A place that keeps what it is given."""

    @property
    def place(self) -> str:
        """Where it is: what ``anchor_at`` makes this anchor from."""

    def send(self, note: str) -> None:
        """Store a note durably.

        Raises:
            AnchorFailed: It could not be stored.
        """

    def notes(self) -> tuple[StoredNote, ...] | None:
        """All notes that it keeps, oldest first; None if there is nothing there at all.

        Raises:
            AnchorFailed: It cannot be read.
        """


def anchor_at(place: str, disk: Disk | None = None) -> Anchor:
    """The anchor that a place names.

    Raises:
        KeyUnusable: The place is no path, ``ssh:HOST:PATH`` or ``git:FOLDER``.
    """
    sort, colon, rest = place.partition(":")
    if colon and sort == "ssh":
        host, colon, path = rest.partition(":")
        if not (host and path) or host.startswith("-"):
            raise KeyUnusable(f"the anchor {place!r} is not ssh:HOST:PATH")
        return SshAnchor(host, path)
    if colon and sort == "git":
        return GitAnchor(Path(rest).absolute())
    if colon and sort.isalpha() and not place.startswith("/"):
        raise KeyUnusable(
            f"the anchor {place!r} is of no known sort: give ssh:HOST:PATH, git:FOLDER or a path"
            f" (./{place} for a file of that name)"
        )
    return FileAnchor(Path(place).absolute(), disk or SystemDisk())


def place_of(anchor: Path | str | None) -> str | None:
    """How an anchor is recorded: as a place that means the same from any working directory."""
    return None if anchor is None else anchor_at(str(anchor)).place


@dataclass(frozen=True, slots=True)
class FileAnchor:
    """An append-only file, best on another disk or under another user."""

    path: Path
    disk: Disk = field(default_factory=SystemDisk)

    @property
    def place(self) -> str:
        """The file's path."""
        return str(self.path)

    def send(self, note: str) -> None:
        """Append a note durably.

        Raises:
            AnchorFailed: The file cannot be written.
        """
        try:
            make_folder(self.path.parent)
            append_note(self.path, self.disk, note)
        except (OSError, JournalError) as error:
            raise AnchorFailed(f"cannot anchor to {self.path}: {error}") from error

    def notes(self) -> tuple[StoredNote, ...] | None:
        """The file's notes.

        Raises:
            AnchorFailed: The file cannot be read.
        """
        try:
            return tuple(read_notes(self.path)) if self.path.exists() else None
        except OSError as error:
            raise AnchorFailed(f"cannot read the anchor {self.path}: {error.strerror}") from error


@dataclass(frozen=True, slots=True)
class SshAnchor:
    """A file on another machine, appended to by the user's own ``ssh``.

    Let the key that it logs in with be bound to ``cat >> PATH`` there (``authorized_keys``,
    command=), so that who holds this machine cannot shorten the file. options go to ssh before the
    host; port, user and key usually stand in the user's ``ssh_config``.
    """

    host: str
    path: str
    options: tuple[str, ...] = ()

    @property
    def place(self) -> str:
        """``ssh:HOST:PATH``."""
        return f"ssh:{self.host}:{self.path}"

    def send(self, note: str) -> None:
        """Append a note and sync the file.

        Raises:
            AnchorFailed: ssh failed.
        """
        path = shlex.quote(self.path)
        self._run(f"cat >> {path} && sync {path}", canonical({"note": note}) + b"\n")

    def notes(self) -> tuple[StoredNote, ...] | None:
        """The remote file's notes.

        Raises:
            AnchorFailed: ssh failed.
        """
        path = shlex.quote(self.path)
        read = self._run(f"if [ -e {path} ]; then echo y; cat {path}; else echo n; fi", b"")
        there, _, text = read.partition(b"\n")
        return tuple(parse_notes(text)) if there == b"y" else None

    def _run(self, command: str, stdin: bytes) -> bytes:
        argv = ["ssh", "-oBatchMode=yes", *self.options, "--", self.host, command]
        return _output(argv, stdin, self.place)


@dataclass(frozen=True, slots=True)
class GitAnchor:
    """A git work tree: one commit per seal, pushed where a remote is set up."""

    folder: Path

    @property
    def place(self) -> str:
        """``git:FOLDER``."""
        return f"git:{self.folder}"

    def send(self, note: str) -> None:
        """Commit a note, and push it if the branch has an upstream.

        Raises:
            AnchorFailed: git failed.
        """
        FileAnchor(self.folder / GIT_FILE).send(note)
        self._git("add", "--", GIT_FILE)
        self._git("commit", "--quiet", "--message", "Anchor a seal", "--", GIT_FILE)
        if self._git("for-each-ref", "--format=%(upstream)", "refs/heads").strip():
            self._git("push", "--quiet")

    def notes(self) -> tuple[StoredNote, ...] | None:
        """The notes in the last commit: an edited work tree counts for nothing.

        Raises:
            AnchorFailed: git failed.
        """
        if not self._git("ls-tree", "--name-only", "HEAD", GIT_FILE).strip():
            return None
        return tuple(parse_notes(self._git("show", f"HEAD:{GIT_FILE}")))

    def _git(self, *arguments: str) -> bytes:
        return _output(["git", "-C", str(self.folder), *arguments], b"", self.place)


def _output(argv: Sequence[str], stdin: bytes, place: str) -> bytes:
    try:
        done = subprocess.run(
            argv, input=stdin, capture_output=True, timeout=REMOTE_DEADLINE_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise AnchorFailed(f"cannot reach the anchor {place}: {error}") from error
    if done.returncode != 0:
        said = done.stderr.decode("utf-8", "replace").strip().splitlines()
        reason = said[-1] if said else f"exit status {done.returncode}"
        raise AnchorFailed(f"the anchor {place} refused: {reason}")
    return done.stdout
