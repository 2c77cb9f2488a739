"""Which typed commands act on a remote host, and the agentops call that does it in one line.

Reads pass, whatever happens on this machine passes. What acts by name (signals, GPU tools, starts,
stops) is answered on every host, since nobody knows a host that is not in the inventory; what is
merely unknown is answered on the inventory's hosts only. Not here: taking a text apart
(``agentops.hook.layers``), reading settings (``agentops.cli.hooking``).
"""

import json
import re
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from agentops.hook.layers import Far, Found
from agentops.hook.vocabulary import (
    COPIERS,
    GPU_TOOLS,
    POWER,
    READING_VERBS,
    READS,
    SIGNALLERS,
    STOPPERS,
    writes_after_all,
)
from agentops.hosts import Host

_GPU_WRITES = re.compile(
    r"-r$|--gpu-reset|-pm$|--persistence-mode|-pl$|--power-limit|-c$|--compute-mode|-mig$"
    r"|--multi-instance-gpu|-lgc|--lock-gpu-clocks|-rgc|-ac$|-e$|mig$|-acp"
)
_NAMED_ACTS = SIGNALLERS | POWER | GPU_TOOLS
_NO_SIGNAL = re.compile(r"-(0|l|L|s0|-list)$|--list|--table")
_LINE_MAX = 400


@dataclass(frozen=True, slots=True)
class Known:
    """What the settings say: hosts, and of each job the text that selects its processes."""

    hosts: tuple[Host, ...] = ()
    jobs: Mapping[str, str] | None = None


def advice(found: Iterable[Found], known: Known) -> str | None:
    """One line with the equivalent call for the first command that acts remotely; None: pass."""
    lines = (_advice(one, known) for one in found)
    return next((line[:_LINE_MAX] for line in lines if line is not None), None)


def _advice(found: Found, known: Known) -> str | None:
    if not found.where.is_remote:
        return None
    host = _host(found.where, known)
    named = found.name in _NAMED_ACTS or _stops(found)
    if not named and host is None and not _opaque(found):
        return None
    if _reads(found):
        return None
    place = host.name if host is not None else _unknown_name(found.where)
    missing = "" if host is not None else f" (first: {_adding(found.where)})"
    return f"agentops: {_call(found, place, known)}{missing}"


def _opaque(found: Found) -> bool:
    """A far program that nobody can know, such as a variable, or a shell fed by a pipe."""
    return found.open


def _stops(found: Found) -> bool:
    return found.name in STOPPERS and not _reads(found)


def _reads(found: Found) -> bool:
    """Whether the command only looks, and writes no file."""
    if found.open or found.writes or found.background:
        return False
    name, words = found.name, found.argv[1:]
    if name in READING_VERBS:
        verb = next((w for w in words if not w.startswith("-") or w in READING_VERBS[name]), "")
        return verb in READING_VERBS[name]
    if name == "kill" or name in SIGNALLERS:
        return _sends_nothing(name, words)
    if name not in READS:
        return False
    return not writes_after_all(name, words)


def _sends_nothing(name: str, words: tuple[str, ...]) -> bool:
    """Signal 0 and lists of signals; fuser without -k."""
    if name == "fuser":
        return not any(re.fullmatch(r"-[a-zA-Z]*k[a-zA-Z]*|--kill", word) for word in words)
    if words[:2] == ("-s", "0"):
        return True
    return bool(words) and _NO_SIGNAL.match(words[0]) is not None


def _call(found: Found, host: str, known: Known) -> str:
    """The equivalent call, with what is better about it."""
    job = _job(found, known)
    if found.name in SIGNALLERS or _ends_a_program(found):
        return _stopping(host, job)
    if found.name in GPU_TOOLS and not any(_GPU_WRITES.match(word) for word in found.argv[1:]):
        return f"ask with a deadline and a record: agentops do gpu_status --host {host}"
    argv = shlex.quote(json.dumps(list(found.argv) if not found.open else ["..."]))
    if _starts(found):
        return _starting(host, job, argv)
    if found.writes and (found.name in READS or found.name in COPIERS):
        return f"write a file over what you expect there: agentops do deploy_files --host {host}"
    return (
        f"say it as a typed command (agentops commands), or: agentops do run_argv --host {host}"
        f" --arg argv={argv}"
    )


def _stopping(host: str, job: str | None) -> str:
    if job is not None:
        return (
            f"stop the job by identity and proof, not by name: agentops recover {job}"
            f" --host {host} --stop"
        )
    return (
        "signal an identity, not a name or a bare pid: agentops do list_processes"
        f" --host {host}, then agentops do signal_process --host {host} --arg"
        " victim='IDENTITY OF ITS ROW' --arg signal=TERM"
    )


def _starting(host: str, job: str | None, argv: str) -> str:
    if job is not None:
        return f"start it once, with proof: agentops recover {job} --host {host}"
    return (
        f"start it once, detached, with an identity: agentops do launch --host {host}"
        f" --arg argv={argv} --arg cwd=DIR --arg log=FILE --arg launch_id=ID"
    )


def _ends_a_program(found: Found) -> bool:
    words = set(found.argv[1:])
    if found.name == "tmux":
        return bool(words & {"kill-session", "kill-server", "send-keys"})
    return found.name in {"systemctl", "docker", "podman"} and "kill" in words


def _starts(found: Found) -> bool:
    return found.background or (
        found.name == "tmux" and bool(set(found.argv[1:]) & {"new", "new-session"})
    )


def _job(found: Found, known: Known) -> str | None:
    """The job that the words speak of; None where none or several fit."""
    words = [word for word in found.argv[1:] if not word.startswith("-") and len(word) > 3]  # noqa: PLR2004 - shorter words fit anything
    fitting = {
        name
        for name, text in (known.jobs or {}).items()
        if any(text in word or word in text for word in words)
    }
    return fitting.pop() if len(fitting) == 1 else None


def _host(where: Far, known: Known) -> Host | None:
    """The inventory's entry for that destination and those containers, or for the machine alone."""
    user, _, address = (where.destination or "").rpartition("@")
    address = re.sub(r":\d+/?$", "", address.strip("[]"))
    near: Host | None = None
    for host in known.hosts:
        if where.destination is None:
            if host.transport != "local":
                continue
        elif address not in {host.name, host.address} or (user and user != host.user):
            continue
        if tuple(layer.text for layer in host.layers if layer.kind != "sudo") == where.layers:
            return host
        near = near or host
    return near


def _unknown_name(where: Far) -> str:
    address = (where.destination or "local").rpartition("@")[2]
    name = re.sub(r"[^A-Za-z0-9._-]", "-", address).strip("-.") or "HOST"
    return name if not where.layers else f"{name}-{where.layers[-1].replace(':', '')}"


def _adding(where: Far) -> str:
    """How the host is made known."""
    user, _, address = (where.destination or "").rpartition("@")
    words = ["agentops", "hosts", "add", _unknown_name(where)]
    words += ["--address", address] if address else ["--local"]
    words += ["--user", user] if user else []
    for layer in where.layers:
        words += ["--layer", layer]
    return shlex.join(words)
