"""The same act on many hosts at once, so many at a time, each with its own end.

Here: the order of starting and the stream of ends. What the act is (a command through the
executor, with all its steps) is the caller's; it answers with a value, also for a failure.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from typing import TypeVar

from agentops.hosts import Host

_T = TypeVar("_T")
AT_ONCE_DEFAULT = 32


async def over(
    hosts: Sequence[Host],
    act: Callable[[Host], Awaitable[_T]],
    *,
    at_once: int = AT_ONCE_DEFAULT,
) -> AsyncGenerator[tuple[Host, _T], None]:
    """Act on every host, *at_once* at a time; yields each end as it comes.

    When the caller stops listening, or is cancelled, no further host is started and those that are
    under way are cancelled and waited for, so that each can still record its end.
    """
    waiting = iter(hosts)
    running: dict[asyncio.Task[_T], Host] = {}

    def start_next() -> None:
        host = next(waiting, None)
        if host is not None:
            running[asyncio.ensure_future(_call(act, host))] = host

    try:
        for _ in range(min(at_once, len(hosts))):
            start_next()
        while running:
            done, _ = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                host = running.pop(task)
                start_next()
                yield host, task.result()
    finally:
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)


async def _call(act: Callable[[Host], Awaitable[_T]], host: Host) -> _T:
    return await act(host)
