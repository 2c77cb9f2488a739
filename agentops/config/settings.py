"""``agentops.toml``, and what flags and the environment put above it.

Precedence: flag, environment, project file, user file, default. The project file is the first
``agentops.toml`` from the working directory upwards.
"""

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from agentops.config.places import Places
from agentops.errors import ConfigError
from agentops.hosts import Inventory

FILE_NAME = "agentops.toml"

_Value = TypeVar("_Value")


class _JournalTable(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    path: str | None = None
    key: str | None = None
    anchor: str | None = None


class _PolicyTable(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    file: str | None = None


class _File(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    journal: _JournalTable = _JournalTable()
    policy: _PolicyTable = _PolicyTable()
    hosts: dict[str, object] = {}


@dataclass(frozen=True, slots=True)
class Settings:
    """What is in force, and which file said so.

    journal is the journal's directory; journal_key the pinned public key line, and keyed the
    journal that the file which pins it names; anchor the file that receives copies of seals; policy
    the policy file. project is the ``agentops.toml`` in force, None without one. origins says for
    journal, key, anchor, policy and each ``hosts.NAME`` where the value came from. read_only asks
    that looking leaves no trace, neither in the journal nor at home.
    """

    places: Places
    project: Path | None
    journal: Path
    journal_key: str | None
    keyed: Path | None
    anchor: Path | None
    policy: Path | None
    inventory: Inventory
    origins: Mapping[str, str]
    read_only: bool = False


def load_settings(
    *, environ: Mapping[str, str], cwd: Path, journal: Path | None = None
) -> Settings:
    """Find and read the files.

    Raises:
        ConfigError: a file cannot be read; names file, key, value and remedy.
    """
    places = Places.of(environ)
    project = _project_file(cwd)
    user = places.config / FILE_NAME
    near = _File() if project is None else _read(project)
    far = _read(user) if _is_there(user) else _File()
    near_base = cwd if project is None else project.parent
    own = environ.get("AGENTOPS_JOURNAL")
    here, there = str(project or ""), str(user)
    near_path = _path(near.journal.path, near_base)
    far_path = _path(far.journal.path, user.parent)
    place, place_from = _chosen(
        ("--journal", journal),
        ("$AGENTOPS_JOURNAL", Path(own) if own else None),
        (here, near_path),
        (there, far_path),
        ("default", places.state / "default.journal"),
    )
    key, key_from = _chosen((here, near.journal.key), (there, far.journal.key))
    anchor, anchor_from = _chosen(
        (here, _path(near.journal.anchor, near_base)),
        (there, _path(far.journal.anchor, user.parent)),
    )
    policy, policy_from = _chosen(
        (here, _path(near.policy.file, near_base)), (there, _path(far.policy.file, user.parent))
    )
    return Settings(
        places=places,
        project=project,
        journal=places.state / "default.journal" if place is None else place,
        journal_key=key,
        keyed={here: near_path, there: far_path}.get(key_from),
        anchor=anchor,
        policy=policy,
        inventory=Inventory.parse({**far.hosts, **near.hosts}, here or there),
        origins={
            "journal": place_from,
            "key": key_from,
            "anchor": anchor_from,
            "policy": policy_from,
            **{f"hosts.{name}": there for name in far.hosts},
            **{f"hosts.{name}": here for name in near.hosts},
        },
    )


def _project_file(cwd: Path) -> Path | None:
    for folder in (cwd, *cwd.parents):
        candidate = folder / FILE_NAME
        if _is_there(candidate):
            return candidate
    return None


def _is_there(path: Path) -> bool:
    """Whether anything has this name: what is there and is no file may not be passed over.

    Raises:
        ConfigError: it is a folder, a device, or leads nowhere.
    """
    if path.is_file():
        return True
    if os.path.lexists(path):
        raise ConfigError(f"{path}: is no file; move it away, or write the settings there")
    return False


def _read(path: Path) -> _File:
    try:
        return _File.model_validate(tomllib.loads(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: cannot be read: it is no UTF-8 text") from error
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path}: not TOML: {error}") from error
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        key = ".".join(str(part) for part in first["loc"])
        remedy = (
            "this key is not known; remove it or correct its spelling"
            if first["type"] == "extra_forbidden"
            else f"{first['msg']} (value {first['input']!r})"
        )
        raise ConfigError(f"{path}: {key}: {remedy}") from error


def _path(text: str | None, base: Path) -> Path | None:
    return None if text is None else base / Path(text).expanduser()


def _chosen(*offers: tuple[str, _Value | None]) -> tuple[_Value | None, str]:
    """The first value that is there, and who offered it."""
    return next(
        ((value, source) for source, value in offers if value is not None), (None, "default")
    )
