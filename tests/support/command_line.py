"""The command line as a user meets it: a process of its own, a home of its own.

Here: starting it, waiting for it, and what it said. What it should have said stands in the tests.
A call that needs nothing of a fresh interpreter is forked from one that has loaded the program.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from threading import Lock
from typing import Any, Self

from tests.support.forking import Forker

# Far above what a call takes on a free machine: only one that hangs should meet it.
TIMEOUT_S = 240.0
_STARTING = Lock()
# PYTHONPATH: the packages under test, where they are not the installed ones.
_PASSED_ON = ("PATH", "PYTHONPATH", "LANG", "LC_ALL", "TZ", "TMPDIR", "LD_LIBRARY_PATH")


@dataclass(frozen=True, slots=True)
class Said:
    """How one call ended: exit status and both outputs."""

    argv: tuple[str, ...]
    status: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The one JSON object that stdout holds; anything else there fails the test."""
        value = json.loads(self.out)
        assert isinstance(value, dict), self.out
        assert self.out.count("\n") == 1, self.out
        return value

    def refused(self, status: int, *words: str) -> str:
        """The one clear line of an error, which must hold all *words*; gives it back."""
        assert self.status == status, self
        lines = self.err.strip().splitlines()
        assert len(lines) == 1, self.err
        assert lines[0].startswith("agentops"), self.err
        for word in words:
            assert word in lines[0], self.err
        assert self.out == "", self.out
        return lines[0]


@dataclass(frozen=True, slots=True)
class User:
    """One user: a home folder, a working folder, and extra variables."""

    home: Path
    folder: Path
    environment: Mapping[str, str] | None = None

    @property
    def environ(self) -> dict[str, str]:
        """Nothing of the tests' own environment but what a process needs to start."""
        return {**_passed_on(), "HOME": str(self.home), **(self.environment or {})}

    def start(
        self, *arguments: str | Path, before: Sequence[str] = (), **options: Any
    ) -> subprocess.Popen[bytes]:
        """Start ``agentops`` and do not wait; *before* goes in front of the interpreter."""
        argv = [*before, sys.executable, "-m", "agentops", *map(str, arguments)]
        settings: dict[str, Any] = {
            "stdin": subprocess.DEVNULL,
            "stdout": subprocess.PIPE,
            "stderr": subprocess.PIPE,
            "cwd": self.folder,
            "env": self.environ,
        }
        return subprocess.Popen(argv, **(settings | options))

    def run(
        self,
        *arguments: str | Path,
        before: Sequence[str] = (),
        timeout_s: float = TIMEOUT_S,
        **options: Any,
    ) -> Said:
        """Run ``agentops`` to its end; one that does not end is killed and fails the test."""
        words = tuple(map(str, arguments))
        try:
            ended = None if before else self._forked(words, timeout_s, **options)
            out, err, status = ended or self._started(words, before, timeout_s, options)
        except subprocess.TimeoutExpired as late:
            raise AssertionError(f"agentops {words} did not end:\n{_text(late.stderr)}") from None
        said = Said(words, status, _text(out), _text(err))
        assert "Traceback" not in said.err, said.err
        return said

    def _forked(
        self,
        words: tuple[str, ...],
        timeout_s: float,
        *,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        **options: Any,
    ) -> tuple[bytes, bytes, int] | None:
        """None where a call asks for more than an environment and a folder."""
        server = None if options else _forker()
        if server is None:
            return None
        child = server.start(words, env or self.environ, cwd or self.folder)
        return None if child is None else (*child.communicate(timeout_s), child.wait())

    def _started(
        self,
        words: tuple[str, ...],
        before: Sequence[str],
        timeout_s: float,
        options: Mapping[str, Any],
    ) -> tuple[bytes, bytes, int]:
        process = self.start(*words, before=before, **options)
        try:
            out, err = process.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired as late:
            process.kill()
            _, late.stderr = process.communicate()
            raise
        return out, err, process.returncode


@dataclass(frozen=True, slots=True)
class Kept:
    """A user's folders as they once were, to be put back at the same places for each test."""

    who: User
    copies: Path

    @classmethod
    def of(cls, who: User, copies: Path) -> Self:
        """Copy both folders into *copies*, which must not be there yet."""
        for folder in (who.home, who.folder):
            shutil.copytree(folder, copies / folder.name, symlinks=True)
        return cls(who, copies)

    def back(self) -> User:
        """Put them back."""
        for folder in (self.who.home, self.who.folder):
            shutil.rmtree(folder)
            shutil.copytree(self.copies / folder.name, folder, symlinks=True)
        return self.who


def user(place: Path, **environment: str) -> User:
    """A user whose home and working folder are new ones in *place*."""
    home, folder = place / "home", place / "project"
    home.mkdir(exist_ok=True)
    folder.mkdir(exist_ok=True)
    return User(home, folder, environment)


def _passed_on() -> dict[str, str]:
    passed = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
    return {**passed, "OMP_NUM_THREADS": "1"}


def _forker() -> Forker | None:
    """One a test process, also where threads ask at once; None where the system has no pidfd."""
    with _STARTING:
        return _started_once()


@cache
def _started_once() -> Forker | None:
    return Forker("agentops", _passed_on()) if hasattr(os, "pidfd_open") else None


def _text(data: bytes | None) -> str:
    return "" if data is None else data.decode("utf-8", "backslashreplace")
