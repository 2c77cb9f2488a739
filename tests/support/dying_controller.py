"""A controller that ends itself by SIGKILL around one act: before it is sent, or after its answer.

Run as ``python -m tests.support.dying_controller PLACE HOST_JSON COMMAND before|after``.
"""

import asyncio
import os
import signal
import sys
from pathlib import Path

from agentops.commands.deploy import DeployFiles
from agentops.commands.launch import Launch
from agentops.commands.script import ScriptCommand, python_source
from agentops.commands.signals import SignalProcess
from agentops.hosts import Host
from agentops.policy import parse_policy
from agentops.recover import read_sources
from agentops.transport import Request, Sink, Transport, TransportAnswer, open_transport
from tests.support.recovering import run_loop

ACTS: dict[str, type[ScriptCommand]] = {
    command.name: command for command in (SignalProcess, DeployFiles, Launch)
}


class Dying:
    """A transport that carries everything, and dies around the command it waits for."""

    def __init__(self, inner: Transport, act: type[ScriptCommand], when: str) -> None:
        self._inner = inner
        self._source = python_source(*act.python)
        self._when = when

    async def run(self, request: Request, sink: Sink) -> TransportAnswer:
        """Carry one request, unless it is the last."""
        due = self._source in request.argv
        if due and self._when == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        answer = await self._inner.run(request, sink)
        if due:
            os.kill(os.getpid(), signal.SIGKILL)
        return answer

    async def close(self) -> None:
        """Let go of connections."""
        await self._inner.close()


def main() -> None:
    """Work on the open incident until death."""
    place = Path(sys.argv[1])
    host = Host.model_validate_json(sys.argv[2])
    text = (place / "policy.toml").read_text(encoding="utf-8")
    config, sources = read_sources(parse_policy(text, "policy.toml"), place)

    def connect(to: Host) -> Transport:
        return Dying(open_transport(to), ACTS[sys.argv[3]], sys.argv[4])

    asyncio.run(run_loop(place / "test.journal", host, config, sources, connect=connect))


if __name__ == "__main__":
    main()
