"""The command line as a user meets it: a process of its own, a home of its own.

Here: starting it, waiting for it, and what it said. What it should have said stands in the tests.
"""

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# Far above what a call takes on a free machine: only one that hangs should meet it.
TIMEOUT_S = 240.0
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
        passed = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
        return {
            **passed,
            "HOME": str(self.home),
            "OMP_NUM_THREADS": "1",
            **(self.environment or {}),
        }

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
        process = self.start(*arguments, before=before, **options)
        try:
            out, err = process.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            process.kill()
            out, err = process.communicate()
            raise AssertionError(f"agentops {arguments} did not end:\n{err.decode()}") from None
        words = tuple(map(str, arguments))
        said = Said(words, process.returncode, _text(out), _text(err))
        assert "Traceback" not in said.err, said.err
        return said


def user(place: Path, **environment: str) -> User:
    """A user whose home and working folder are new ones in *place*."""
    home, folder = place / "home", place / "project"
    home.mkdir(exist_ok=True)
    folder.mkdir(exist_ok=True)
    return User(home, folder, environment)


def _text(data: bytes | None) -> str:
    return "" if data is None else data.decode("utf-8", "backslashreplace")
