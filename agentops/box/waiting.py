"""Waiting for a condition with a deadline, for synchronous code that starts real processes."""

import threading
import time
from collections.abc import Callable
from typing import TypeVar

_T = TypeVar("_T")
_POLL_S = 0.002


def wait_for(found: Callable[[], _T | None], timeout_s: float, what: str) -> _T:
    """Poll *found* until it gives a value.

    Raises:
        TimeoutError: it gave none in time; names *what* was waited for.
    """
    deadline = time.monotonic() + timeout_s
    pause = threading.Event()
    while (value := found()) is None:
        if time.monotonic() > deadline:
            raise TimeoutError(f"no {what} within {timeout_s:g} s")
        pause.wait(_POLL_S)
    return value
