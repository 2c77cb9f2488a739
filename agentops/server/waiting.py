"""Waiting for work with patience: its caller hears every few seconds that it goes on."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from agentops.server.desk import Caller

PROGRESS_S = 5.0
_T = TypeVar("_T")


async def ended_within(
    task: "asyncio.Task[Any]", caller: Caller, limit_s: float, says: Callable[[], str]
) -> bool:
    """Whether *task* ended within *limit_s*; it goes on if not. *says* tells how it stands."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    while not task.done():
        left_s = began + limit_s - loop.time()
        if left_s <= 0:
            break
        await asyncio.wait({task}, timeout=min(PROGRESS_S, left_s))
        await caller.progress(loop.time() - began, limit_s, says())
    return task.done()


async def patiently(work: Coroutine[Any, Any, _T], caller: Caller, limit_s: float, says: str) -> _T:
    """What *work* gives, however long it takes; a caller that gives up ends it."""
    task = asyncio.create_task(work)
    try:
        while not await ended_within(task, caller, max(limit_s, PROGRESS_S), lambda: says):
            pass
    finally:
        if not task.done():
            task.cancel()
            await asyncio.wait({task})
    return task.result()
