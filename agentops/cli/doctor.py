"""``agentops doctor``: what is installed, whose packages they are, what is missing.

Foreign distributions of the names agentops, trainer, journal and reports exist; the first thing to
know about a strange failure is whether one of them is in the way.
"""

import argparse
import importlib.util
import os
import platform
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from agentops.cli.printing import emit
from agentops.cli.status import Status
from agentops.config import load_settings

_PACKAGES = ("agentops", "journal", "reports", "trainer")
_LIBRARIES = ("pydantic", "asyncssh", "duckdb", "jinja2", "cryptography", "torch", "triton")
_PROGRAMS = ("ssh", "sshd", "unshare", "nsenter", "tmux", "nvidia-smi", "git", "node")


@dataclass(frozen=True, slots=True)
class _Package:
    name: str
    path: str | None
    ours: bool


def register(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command."""
    parser = commands.add_parser("doctor", help="what is installed, and whose packages they are")
    parser.add_argument("--json", action="store_true", help="one JSON object")
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> Status:
    settings = load_settings(environ=os.environ, cwd=Path.cwd())
    packages = [_package(name) for name in _PACKAGES]
    facts = {
        "agentops": _version("agentops-journal") or "not installed as a distribution",
        "python": f"{platform.python_version()} ({sys.executable})",
        "system": platform.platform(),
        "packages": {each.name: each.path or "missing" for each in packages},
        "foreign": [each.name for each in packages if not each.ours],
        "libraries": {name: _version(name) or "absent" for name in _LIBRARIES},
        "programs": {name: _program(name) or "absent" for name in _PROGRAMS},
        "settings": str(settings.project or "no agentops.toml above this folder"),
        "journal": str(settings.journal),
        "hosts": [host.name for host in settings.inventory],
    }
    if arguments.json:
        emit(facts)
    else:
        _print(facts)
    for each in packages:
        if not each.ours:
            sys.stderr.write(
                f"agentops: package {each.name} comes from {each.path or 'nowhere'}, not from"
                " agentops-journal; uninstall the foreign distribution of that name\n"
            )
    return Status.YES if all(each.ours for each in packages) else Status.NO


def _package(name: str) -> _Package:
    """Where *name* would be imported from; ours is the one that lies beside this package."""
    found = importlib.util.find_spec(name)
    here = Path(__file__).resolve().parents[2]
    if found is None or found.origin is None:
        return _Package(name, None, ours=False)
    folder = Path(found.origin).resolve().parent
    return _Package(name, str(folder), ours=folder.parent == here)


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _program(name: str) -> str | None:
    # Debian keeps sshd out of the PATH of ordinary users.
    return shutil.which(name) or shutil.which(name, path="/usr/sbin:/sbin")


def _print(facts: Mapping[str, object]) -> None:
    for key, value in facts.items():
        if isinstance(value, dict):
            print(f"{key}:")  # noqa: T201
            for name, text in value.items():
                print(f"  {name:13} {text}")  # noqa: T201
        elif isinstance(value, list):
            print(f"{key}: {', '.join(map(str, value)) or 'none'}")  # noqa: T201
        else:
            print(f"{key}: {value}")  # noqa: T201
