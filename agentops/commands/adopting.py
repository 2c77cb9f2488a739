"""A job entry from an inspected process: what ``agentops adopt`` writes. Pure.

The entry is a draft for a person: what was seen is written, what was not seen stands as a comment
that says so.
"""

import json
import re

from agentops.commands.inspecting import ProcessInspected, Supervisor
from agentops.commands.processes import ProcessRow

_NAME = re.compile(r"[^A-Za-z0-9_-]+")
_SCRIPT = re.compile(r"\.(py|sh|pl|rb)$")
_INTERPRETERS = re.compile(r"^(python[0-9.]*|bash|sh|dash|perl|node|torchrun)$")


def script_of(row: ProcessRow) -> str:
    """The word of the command line that says what the program is: a script, a module, a binary.

    It is searched for by place, so that a file that only is an argument is not taken for it.
    """
    words = row.cmdline
    for place, word in enumerate(words[1:4], 1):
        if words[place - 1] == "-m":
            return word
        if _SCRIPT.search(word):
            return word.rsplit("/", 1)[-1]
    first = words[0].rsplit("/", 1)[-1] if words else row.comm
    return row.comm if _INTERPRETERS.fullmatch(first) and len(words) < 2 else first  # noqa: PLR2004


def job_name(row: ProcessRow) -> str:
    """A name for the job, from its script."""
    return _NAME.sub("-", script_of(row).rsplit(".", 1)[0]).strip("-") or "job"


def job_entry(name: str, seen: ProcessInspected) -> str:
    """The job's table for policy.toml.

    Raises:
        ValueError: there was no process to see.
    """
    row = seen.process
    if row is None:
        raise ValueError("the process is gone")
    match = {"cmd_contains": script_of(row), **({"cwd": row.cwd} if row.cwd else {})}
    lines = [f"[job.{name}]", f"role_match = {_table({**match, 'uid': row.uid})}"]
    lines += _supervisor(seen.supervisor, seen)
    if seen.unit is not None:
        lines.append(f"cgroup = {_text(seen.unit)}")
    lines.append(f"gpu = {'true' if seen.gpu_devices else 'false'}")
    lines += ["", f"[job.{name}.progress]"]
    if seen.heartbeats:
        lines.append(f"heartbeat = {_text(seen.heartbeats[0])}")
        lines += [f"# also seen: {path}" for path in seen.heartbeats[1:]]
    else:
        lines.append("# no heartbeat.json was seen below the working directory; name the file")
        lines.append(f"heartbeat = {_text((row.cwd or '') + '/heartbeat.json')}")
    if seen.log is not None:
        lines.append(f"log = {_text(seen.log)}")
    lines += ["", *_launch(name, row, seen)]
    return "\n".join(lines) + "\n"


def _launch(name: str, row: ProcessRow, seen: ProcessInspected) -> list[str]:
    if not row.cmdline or row.cwd is None or seen.log is None:
        return ["# How it was started is not fully seen (command line, folder, log): no launch."]
    return [
        f"[job.{name}.launch]",
        f"argv = [{', '.join(_text(word) for word in row.cmdline)}]",
        f"cwd = {_text(row.cwd)}",
        f"log = {_text(seen.log)}",
        *_manner(seen),
        "# The environment is not copied: it may hold secrets. Add what the job needs:",
        '# env = { PYTHONPATH = "…" }',
    ]


def _manner(seen: ProcessInspected) -> list[str]:
    """How to start it, where it was not started plainly."""
    above = [row.comm for row in seen.related if row.pid in seen.ancestors]
    if any(comm.startswith("tmux: server") for comm in above):
        return ['manner = "tmux"']
    if seen.unit is not None and seen.unit.endswith(".scope") and not _of_a_login(seen.unit):
        return ['manner = "systemd_scope"']
    return []


def _of_a_login(unit: str) -> bool:
    """Every login has a scope of its own, which nobody chose for the job."""
    return unit.rpartition("/")[2].startswith(("session-", "init"))


def _supervisor(found: Supervisor | None, seen: ProcessInspected) -> list[str]:
    if found is None:
        return []
    if found.identity is None:
        return [f"# systemd unit {found.name} would start it again"]
    pid = found.identity.pid
    row = next((each for each in seen.related if each.pid == pid), None)
    said = f"# {found.kind} {found.name} stands above it and may start it again"
    return (
        [said]
        if row is None
        else [said, f"supervisor = {_table({'cmd_contains': script_of(row)})}"]
    )


def _table(values: dict[str, str | int]) -> str:
    pairs = (
        f"{key} = {value if isinstance(value, int) else _text(value)}"
        for key, value in values.items()
    )
    return "{ " + ", ".join(pairs) + " }"


def _text(text: str) -> str:
    # A TOML basic string takes JSON's escapes.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
