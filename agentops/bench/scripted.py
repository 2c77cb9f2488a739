"""The agent that is included: a script that plays one, through either door.

``python -m agentops.bench.scripted careful|careless``. Through the shell, *careless* does what the
three transcripts did that this product began with: kill by pattern, take silence for success;
*careful* is a competent person: list, choose by the command line, interrupt first, look again.
Through the tools both ask three questions. Not here: what an agent is given
(``agentops.bench.giving``).
"""

import asyncio
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mcp.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

from agentops.bench.beside import CONTAINER
from agentops.bench.giving import ANSWER, SERVERS
from agentops.bench.stage import JOB
from journal.events import Resolution

_HOST = "box"
_STEPS = ("INT", "INT", "TERM", "KILL")
_PID_COLUMN, _COMMAND_COLUMN = 1, 10
_SMI = "nvidia-smi --query-gpu=index,memory.used,utilization.gpu --format=csv"
_CALLS_MAX = 40


def main(manner: str) -> None:
    """Play the agent, and write its answer."""
    surface = os.environ["AGENTOPS_BENCH_SURFACE"]
    if surface == "tools":
        resolution, reason = asyncio.run(_by_tools(_server()))
    else:
        shell = _Shell(
            os.environ["AGENTOPS_BENCH_SCRIPT"],
            os.environ["AGENTOPS_BENCH_FOLDER"],
            float(os.environ["AGENTOPS_BENCH_SCALE"]),
        )
        resolution, reason = shell.careless() if manner == "careless" else shell.careful()
    answer = {"resolution": resolution, "reason": reason}
    Path(ANSWER).write_text(json.dumps(answer), encoding="utf-8")


@dataclass(frozen=True, slots=True)
class _Shell:
    """The raw shell; folder and script are what the task names, scale shortens every sleep."""

    script: str
    folder: str
    scale: float

    def say(self, command: str) -> str:
        """Type one line; gives all that came back."""
        inside = f'pct exec {CONTAINER} -- bash -c "{command}"'
        done = subprocess.run(
            ["ssh", "-o", "ConnectTimeout=10", _HOST, inside],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
        )
        return done.stdout.decode("utf-8", "replace")

    def careless(self) -> tuple[Resolution, str]:
        """List, kill by pattern, and read an empty answer as a clean slate."""
        self.say("ps aux | grep python | grep -v grep")
        self.say(_SMI)
        pattern = f"{self.folder}/{self.script}"
        left = self.say(f"pkill -9 -f {pattern} || true; sleep 2; pgrep -af {pattern} || true")
        return ("STOPPED", "nothing is listed") if not left.strip() else ("HANDED_OVER", left[:80])

    def careful(self) -> tuple[Resolution, str]:
        """Look, interrupt what is surely the job, look again, climb, look twice more."""
        listed = self.say("ps aux | grep python | grep -v grep")
        self.say(_SMI)
        self.say(f"tail -n 20 {self.folder}/train.log")
        self.say(f"cat {self.folder}/out/heartbeat.json")
        pids = self.victims(listed)
        if not pids:
            return "NOTHING_TO_DO", "no such process is listed"
        self.say(f"sleep {self.seconds(15)}; tail -n 5 {self.folder}/train.log")
        for step in _STEPS:
            if not pids:
                break
            self.say(f"kill -{step} {' '.join(pids)}; sleep {self.seconds(10)}")
            pids = self.victims(self.say("ps aux | grep python | grep -v grep"))
        again = self.say(f"sleep {self.seconds(8)}; ps aux | grep python | grep -v grep")
        cards = self.say(_SMI)
        if self.victims(again):
            return "HANDED_OVER", "it is listed again"
        return "STOPPED", f"no longer listed; {cards.splitlines()[-1:]}"

    def victims(self, listed: str) -> list[str]:
        """Pids of the rows whose program runs the job's script."""
        found = []
        for line in listed.splitlines():
            columns = line.split(maxsplit=_COMMAND_COLUMN)
            if len(columns) <= _COMMAND_COLUMN:
                continue
            words = columns[_COMMAND_COLUMN].split()
            runs = "python" in words[0] and f"{self.folder}/{self.script}" in words
            if runs and columns[_PID_COLUMN].isdigit():
                found.append(columns[_PID_COLUMN])
        return found

    def seconds(self, natural: float) -> str:
        """A sleep at this time scale."""
        return f"{max(0.2, natural * self.scale):g}"


def _server() -> StdioServerParameters:
    """The server as the configuration in this folder says."""
    server = json.loads(Path(SERVERS).read_text(encoding="utf-8"))["mcpServers"]["agentops"]
    return StdioServerParameters(
        command=server["command"], args=server["args"], env={**os.environ, **server.get("env", {})}
    )


async def _by_tools(started: StdioServerParameters) -> tuple[Resolution, str]:
    """Is it stuck? Stop it. Is it gone?"""
    async with Client(stdio_client(started)) as client:
        await client.list_tools()
        await _call(client, "check", host=_HOST, condition="job_advances", job=JOB)
        said: dict[str, Any] = {}
        for _ in range(_CALLS_MAX):
            said = await _call(client, "stop", host=_HOST, job=JOB, reason="it must be stopped")
            if "still being worked on" not in str(said.get("summary")):
                break
        resolution = said.get("data", {}).get("resolution", "HANDED_OVER")
        gone = await _call(client, "check", host=_HOST, condition="job_absent", job=JOB)
        if resolution != "HANDED_OVER" and gone.get("verdict") != "confirmed":
            resolution = "HANDED_OVER"
        return resolution, str(gone.get("summary"))[:200]


async def _call(client: Client, tool: str, **arguments: str) -> dict[str, Any]:
    result = await client.call_tool(tool, arguments)
    said = result.structured_content
    return said if isinstance(said, dict) else {}


if __name__ == "__main__":
    main(sys.argv[1])
