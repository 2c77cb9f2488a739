"""Short ways to list, signal and await the processes of a box, as the commands do it."""

import sys

from agentops.commands.processes import ListProcesses, ProcessTable
from agentops.commands.signals import SignalProcess, SignalSent
from agentops.commands.stopping import Step
from agentops.commands.waiting import ProcessAbsent, WaitEnded, WaitUntil
from agentops.transport import SshTransport
from journal.events import Identity
from tests.support.boxes import observe

LADDER = (Step(signal="INT", grace_ms=300), Step(signal="TERM", grace_ms=2000))


async def signal(transport: SshTransport, victim: Identity, name: str = "TERM") -> SignalSent:
    """Send one signal."""
    return await observe(
        transport, SignalProcess.model_validate({"victim": victim, "signal": name}), SignalSent
    )


async def absent(transport: SshTransport, *who: Identity, timeout_ms: int = 3000) -> WaitEnded:
    """Wait until all of them are gone."""
    condition = ProcessAbsent(identities=who)
    wait = WaitUntil(condition=condition, timeout_ms=timeout_ms, poll_ms=20)
    return await observe(transport, wait, WaitEnded)


async def table_of(transport: SshTransport) -> ProcessTable:
    """All processes there."""
    return await observe(transport, ListProcesses(), ProcessTable)


def python(code: str) -> tuple[str, ...]:
    """The argv of an interpreter that starts fast and runs the code."""
    return (sys.executable, "-I", "-S", "-c", code)
