"""A control group for one staged job, made and removed from outside its box.

Here: where one can be made on this machine; where no systemd runs, the kernel's own files do what
its scopes do. Not here: starting the job in it (``agentops.bench.stage``).
"""

import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_TOP = Path("/sys/fs/cgroup")


@contextmanager
def scope() -> Iterator[Path]:
    """An empty control group of one's own.

    Raises:
        OSError: none can be made here.
    """
    # Version 2 is one tree; with version 1, systemd's own or any that is only for counting.
    for kind in (_TOP, _TOP / "unified", _TOP / "systemd", _TOP / "pids"):
        group = kind / f"agentops-{secrets.token_hex(4)}"
        if not (kind / "cgroup.procs").exists():
            continue
        with suppress(OSError):
            group.mkdir()
            break
    else:
        raise OSError("no control group can be made here")
    try:
        yield group
    finally:
        # Whoever was in it ended with the box; a group that is still in use stays.
        with suppress(OSError):
            group.rmdir()
