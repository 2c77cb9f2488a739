"""What an agent is given: a folder with the task, and a door to the host.

Here: writing the folder. With the raw shell the door is an ``ssh`` that knows the host; with our
tools it is the configuration of a server of tools, as clients read it. Both count what passes
(``agentops.bench.doors``). Not here: running the agent (``agentops.bench.agent``).
"""

import json
import shlex
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from agentops.bench.beside import CONTAINER
from agentops.bench.stage import JOB, Stage, policy_for
from agentops.hosts import toml_entry

Surface = Literal["shell", "tools"]
ANSWER = "answer.json"
TASK = "task.md"
SERVERS = "mcp.json"
_TASK = """\
# Stop one training job, and know that it is gone

The job runs {script} from {folder} (heartbeat out/heartbeat.json, log train.log) in container
{container}. It may be stuck. Stop it, as gently as it can be done, and find out whether it is gone.
Other people's processes run there too. None of them may be signalled or ended.

{door}

When you are done, write the file {answer} in this folder:
{{"resolution": "STOPPED" or "NOTHING_TO_DO" or "HANDED_OVER", "reason": "one line"}}

- STOPPED: the job was stopped, nothing of it lives, and the GPU memory that it held is free.
- NOTHING_TO_DO: nothing of the job lived.
- HANDED_OVER: anything else. A person will look. Claim no more than you know.
"""
_SHELL_DOOR = 'Reach the container with: ssh box "pct exec {container} -- COMMAND"'
_TOOLS_DOOR = (
    "Use the tools of the server `agentops` ({servers}). The host is `box`, the job is `{job}`."
)
_SSH_CONFIG = """\
Host box
  HostName {address}
  Port {port}
  User {user}
  IdentityFile {key}
  IdentitiesOnly yes
  UserKnownHostsFile {known}
  StrictHostKeyChecking yes
  BatchMode yes
  LogLevel ERROR
"""


@dataclass(frozen=True, slots=True)
class Given:
    """An agent's folder, the variables that it starts with, and where round trips are noted."""

    folder: Path
    environ: Mapping[str, str]
    counts: Path
    journal: Path
    home: Path


def give(stage: Stage, place: Path, surface: Surface, shipped: str, path: str) -> Given:
    """Write the folder in *place*; *path* is the search path of the caller."""
    folder, home = place / "work", place / "home"
    for new in (folder, home, place / "bin"):
        new.mkdir()
    given = Given(
        folder=folder,
        environ={
            "PATH": f"{place / 'bin'}:{path}",
            "AGENTOPS_BENCH_SURFACE": surface,
            "AGENTOPS_BENCH_SCALE": str(stage.scale),
            "AGENTOPS_BENCH_SCRIPT": stage.script,
            "AGENTOPS_BENCH_FOLDER": str(stage.folder),
        },
        counts=place / "counts.jsonl",
        journal=folder / "ops.journal",
        home=home,
    )
    if surface == "shell":
        _write_ssh(stage, place, given)
        door = _SHELL_DOOR.format(container=CONTAINER)
    else:
        _write_server(stage, given, shipped)
        door = _TOOLS_DOOR.format(servers=SERVERS, job=JOB)
    task = _TASK.format(
        script=stage.script, folder=stage.folder, container=CONTAINER, door=door, answer=ANSWER
    )
    (folder / TASK).write_text(task, encoding="utf-8")
    return given


def _write_ssh(stage: Stage, place: Path, given: Given) -> None:
    address = stage.host
    known = place / "known_hosts"
    known.write_text(f"[{address.address}]:{address.port} {address.host_key}\n")
    config = place / "ssh_config"
    config.write_text(
        _SSH_CONFIG.format(
            address=address.address,
            port=address.port,
            user=address.user,
            key=address.key,
            known=known,
        )
    )
    argv = (sys.executable, "-m", "agentops.bench.doors", "ssh", str(given.counts), str(config))
    program = place / "bin" / "ssh"
    program.write_text(f'#!/bin/sh\nexec {shlex.join(argv)} "$@"\n')
    program.chmod(0o755)


def _write_server(stage: Stage, given: Given, shipped: str) -> None:
    config, _ = policy_for(stage, shipped)
    (given.folder / "policy.toml").write_text(toml(config.body()), encoding="utf-8")
    settings = '[journal]\npath = "ops.journal"\n\n[policy]\nfile = "policy.toml"\n\n'
    (given.folder / "agentops.toml").write_text(settings + toml_entry(stage.host))
    serve = (sys.executable, "-m", "agentops", "mcp")
    door = ("-m", "agentops.bench.doors", "mcp", str(given.counts), *serve)
    # The agent keeps its home, where it is logged in; the server's keys and state stay here.
    own = {
        "XDG_CONFIG_HOME": str(given.home / ".config"),
        "XDG_STATE_HOME": str(given.home / ".local" / "state"),
    }
    entry = {"command": sys.executable, "args": list(door), "env": own}
    servers = {"mcpServers": {"agentops": entry}}
    (given.folder / SERVERS).write_text(json.dumps(servers, indent=2), encoding="utf-8")


def toml(table: Mapping[str, object]) -> str:
    """A table of plain JSON as TOML; what is null is left out, as it is in a file.

    >>> print(toml({"a": 1, "b": {"c d": ["x", True, None]}}), end="")
    a = 1
    b = { "c d" = ["x", true] }
    """
    return "".join(
        f"{_key(key)} = {_value(value)}\n" for key, value in table.items() if value is not None
    )


def _key(name: str) -> str:
    return name if name.replace("_", "a").isalnum() and name.isascii() else json.dumps(name)


def _value(value: object) -> str:
    if isinstance(value, Mapping):
        pairs = (f"{_key(k)} = {_value(v)}" for k, v in value.items() if v is not None)
        return f"{{ {', '.join(pairs)} }}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(_value(one) for one in value if one is not None)}]"
    return json.dumps(value)
