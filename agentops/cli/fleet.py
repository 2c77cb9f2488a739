"""``agentops do COMMAND --hosts LABEL``: one typed command on many hosts, each with its own end.

Here: who is asked, how many at once, and one line a host. Every host's command goes through the
executor like any other; what happens on one says nothing about the next.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from agentops.approvals import Waits, Wish
from agentops.cli.printing import emit, say
from agentops.cli.status import Status, of_outcome
from agentops.cli.summaries import summary
from agentops.config import Settings
from agentops.errors import AgentopsError, UsageError
from agentops.executor import Executed, Executor
from agentops.hosts import Host
from agentops.transport.fleet import over

Act = Callable[[Wish], Awaitable[Executed | Waits]]
# The one that matters most decides the exit status of the whole.
_BY_WEIGHT = (
    Status.USAGE,
    Status.WAITS,
    Status.DENIED,
    Status.CANNOT_SAY,
    Status.NO,
    Status.NOT_SENT,
    Status.YES,
)


@dataclass(frozen=True, slots=True)
class HostEnd:
    """How the command ended on one host; text is one line for a person."""

    status: Status
    text: str
    executed: Executed | None


def fleet_of(settings: Settings, label: str) -> tuple[Host, ...]:
    """The hosts with that label.

    Raises:
        UsageError: none has it; names the labels there are.
    """
    hosts = settings.inventory.labelled(label)
    if not hosts:
        known = sorted({word for host in settings.inventory for word in host.labels})
        raise UsageError(
            f"no host has the label {label!r} (labels: {', '.join(known) or 'none'});"
            " agentops hosts add NAME --label LABEL gives one"
        )
    return hosts


async def run_on_all(
    executor: Executor, act: Act, wishes: Sequence[Wish], *, at_once: int
) -> dict[str, HostEnd]:
    """Carry out every host's wish; says each end as it comes. Ctrl-C starts no further host."""
    wished = {wish.host.name: wish for wish in wishes}
    hosts = [wish.host for wish in wishes]

    async def end(host: Host) -> HostEnd:
        try:
            done = await act(wished[host.name])
        except AgentopsError as error:
            return HostEnd(Status.USAGE, str(error), None)
        if isinstance(done, Waits):
            name = done.question.approval_id
            return HostEnd(Status.WAITS, f"waits for a person: agentops approve {name}", None)
        seen = done.observation
        status = of_outcome(done.outcome.kind, holds=True if seen is None else seen.holds())
        return HostEnd(status, summary(done.outcome), done)

    ends: dict[str, HostEnd] = {}
    async with contextlib.AsyncExitStack() as stack:
        stack.push_async_callback(executor.close)
        stream = over(hosts, end, at_once=at_once)
        stack.push_async_callback(stream.aclose)
        async for host, ended in stream:
            ends[host.name] = ended
            say(f"{len(ends)}/{len(hosts)} {host.name}: {ended.text}")
    return ends


def report(wishes: Sequence[Wish], ends: dict[str, HostEnd], *, as_json: bool) -> Status:
    """The whole's exit status; with *as_json* one object with every host's end."""
    if as_json:
        emit(
            {
                "command": wishes[0].command.name,
                "hosts": {wish.host.name: _told(ends[wish.host.name]) for wish in wishes},
            }
        )
    return min((end.status for end in ends.values()), key=_BY_WEIGHT.index)


def _told(end: HostEnd) -> dict[str, object]:
    executed = end.executed
    seen = None if executed is None else executed.observation
    return {
        "status": int(end.status),
        "says": end.text,
        "observation": None if seen is None else seen.model_dump(mode="json"),
        "events": [] if executed is None else [event.id for event in executed.events],
    }


def run(
    executor: Executor, act: Act, wishes: Sequence[Wish], *, at_once: int, as_json: bool
) -> Status:
    """Run on all, then report."""
    ends = asyncio.run(run_on_all(executor, act, wishes, at_once=at_once))
    return report(wishes, ends, as_json=as_json)
