"""Everything at once: ``observe``, many probes in one round trip.

Each part is the very script of its own command, and is read by that command's own reader; a part
that cannot be read costs the others nothing.
"""

import json
from collections.abc import Iterator, Mapping
from typing import ClassVar, Literal

from pydantic import Field

from agentops.commands.base import Command, Completed, Malformed, Observation
from agentops.commands.gpu import GpuProcesses, GpuProcessesSeen, GpuStatus, GpuStatusSeen
from agentops.commands.heartbeat import HeartbeatSeen, ReadHeartbeat
from agentops.commands.host_probe import HostProbed, ProbeHost
from agentops.commands.paths import HostPath
from agentops.commands.processes import ListProcesses, ProcessTable
from agentops.commands.script import (
    ScriptCommand,
    chosen_argv,
    python_part,
    python_source,
    whole_answer,
)
from agentops.commands.space import DiskFree, DiskFreeSeen, SharedMemory, SharedMemorySeen
from agentops.commands.tmux import TmuxSeen, TmuxSessions
from journal.events import Effect, Retry

Part = Literal[
    "host", "processes", "gpus", "gpu_processes", "shared_memory", "disk", "tmux", "heartbeat"
]


class Observed(Observation):
    """What each part saw; None where it was not asked for, or problems says why it failed."""

    host: HostProbed | None = None
    processes: ProcessTable | None = None
    gpus: GpuStatusSeen | None = None
    gpu_processes: GpuProcessesSeen | None = None
    shared_memory: SharedMemorySeen | None = None
    disk: DiskFreeSeen | None = None
    tmux: TmuxSeen | None = None
    heartbeat: HeartbeatSeen | None = None
    problems: dict[Part, str] = Field(default_factory=dict)


class Observe(Command):
    """Processes, GPUs, shared memory, disk, tmux and heartbeat in one request."""

    name: ClassVar[str] = "observe"
    effect: ClassVar[Effect] = "observes"
    intrusiveness: ClassVar[int] = 1
    retry: ClassVar[Retry] = "repeat"
    assumptions: ClassVar[tuple[str, ...]] = (
        "the parts are read one after the other, so they are close in time and not of one moment",
        "what each part's own command assumes",
    )
    silence: ClassVar[str] = "Nothing was learned from a part that is missing."
    metric_cards: ClassVar[dict[str, str]] = {
        name: text
        for part in (
            *(ProbeHost, ListProcesses, GpuStatus, GpuProcesses, DiskFree, SharedMemory),
            ReadHeartbeat,
        )
        for name, text in part.metric_cards.items()
    }
    deadline_ms: ClassVar[int] = 90_000

    what: tuple[Part, ...] = Field(min_length=1)
    """The parts to look at."""
    heartbeat_path: HostPath | None = None
    """The heartbeat's file, for the part heartbeat."""
    disk_paths: tuple[HostPath, ...] = ()
    """Files or folders, for the part disk."""

    def parts(self) -> Mapping[Part, ScriptCommand]:
        """The command of each part that is asked for."""
        every: dict[Part, ScriptCommand] = {
            "host": ProbeHost(),
            "processes": ListProcesses(),
            "gpus": GpuStatus(),
            "gpu_processes": GpuProcesses(),
            "shared_memory": SharedMemory(),
            "disk": DiskFree(paths=self.disk_paths),
            "tmux": TmuxSessions(),
        }
        if self.heartbeat_path is not None:
            every["heartbeat"] = ReadHeartbeat(path=self.heartbeat_path)
        return {part: every[part] for part in self.what if part in every}

    def argv(self) -> tuple[str, ...]:
        """The driver; the parts' scripts come by stdin."""
        return chosen_argv(python_source("observe"))

    def stdin(self) -> bytes:
        """The scripts, each once; then each part's name, the scripts it needs, its arguments."""
        parts = [
            [part, command.python, *command.script_arguments()]
            for part, command in self.parts().items()
        ]
        names = {name for command in self.parts().values() for name in command.python}
        scripts = {name: python_part(name) for name in sorted(names)}
        return json.dumps([scripts, parts]).encode()

    def parse(self, completed: Completed) -> Observed | Malformed:
        """Require the last line, then let each part's command read its own rows."""
        whole = whole_answer(completed)
        if isinstance(whole, Malformed):
            return whole
        parts = self.parts()
        sections = dict(_sections(whole))
        if sections.pop(None, None) != str(len(parts)):
            return Malformed("the last line of the answer is missing")
        seen: dict[str, Observation] = {}
        problems: dict[Part, str] = {}
        if "heartbeat" in self.what and "heartbeat" not in parts:
            problems["heartbeat"] = "no heartbeat_path was given"
        for part, command in parts.items():
            found = command.parse_lines(sections.get(part, "").encode("utf-8", "surrogateescape"))
            if isinstance(found, Malformed):
                problems[part] = found.reason
            else:
                seen[part] = found
        return Observed.model_validate({**seen, "problems": problems})


def _sections(stdout: bytes) -> Iterator[tuple[str | None, str]]:
    """The text below each part's line; the number of parts in the last line under None."""
    name: str | None = None
    lines: list[str] = []
    for line in stdout.decode("utf-8", "surrogateescape").split("\n"):
        row = _object(line) if line.startswith(('{"part": ', '{"parts": ')) else {}
        if set(row) == {"part"} or set(row) == {"parts"}:
            if name is not None:
                yield name, "\n".join(lines)
            name, lines = (str(row["part"]), []) if "part" in row else (None, [])
            if "parts" in row:
                yield None, str(row["parts"])
        else:
            lines.append(line)


def _object(line: str) -> Mapping[str, object]:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return row if isinstance(row, dict) else {}
