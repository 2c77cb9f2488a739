"""A whole file from a host: ``agentops do transfer --save FILE``, part by part."""

import base64
import hashlib
import os
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

from agentops.approvals import Waits, Wish
from agentops.commands.transfer import PART_BYTES_MAX, Transfer, Transferred
from agentops.errors import UsageError
from agentops.executor import Executed


async def fetch_whole(
    wish: Wish, act: Callable[[Wish], Awaitable[Executed | Waits]], place: Path
) -> Executed | Waits:
    """Fetch the file from the wish's offset on and put it in place; gives the last part's end.

    Nothing is put there unless all parts came, of one version, and the whole has its digest.

    Raises:
        UsageError: the command is another one, the place cannot be written, or the file changed.
    """
    command = wish.command
    if not isinstance(command, Transfer):
        raise UsageError(f"--save is for transfer; {command.name} fetches no file")
    unfinished = place.with_name(place.name + ".part")
    try:
        with unfinished.open("wb") as file:
            done = await _parts(wish, command, act, file.write)
        if isinstance(done, Executed) and _whole(done, command, unfinished):
            os.replace(unfinished, place)  # noqa: PTH105 - the name is the point
    except OSError as error:
        raise UsageError(f"--save {place}: {error.strerror}") from error
    finally:
        unfinished.unlink(missing_ok=True)
    return done


async def _parts(
    wish: Wish,
    command: Transfer,
    act: Callable[[Wish], Awaitable[Executed | Waits]],
    write: Callable[[bytes], int],
) -> Executed | Waits:
    offset, digest = command.offset, None
    while True:
        asked = command.model_copy(update={"offset": offset, "max_bytes": PART_BYTES_MAX})
        done = await act(replace(wish, command=asked))
        seen = done.observation if isinstance(done, Executed) else None
        if not isinstance(seen, Transferred) or seen.problem is not None:
            return done
        if digest not in {None, seen.sha256}:
            raise UsageError(f"{command.path} changed while it was fetched; nothing was saved")
        digest = seen.sha256
        part = base64.b64decode(seen.content_base64)
        write(part)
        offset += len(part)
        if not part or offset >= (seen.size_bytes or 0):
            return done


def _whole(done: Executed, command: Transfer, path: Path) -> bool:
    """Whether the file is what the host says; a part of one cannot be checked by its digest."""
    seen = done.observation
    if not isinstance(seen, Transferred) or seen.problem is not None:
        return False
    if command.offset > 0:
        return True
    with path.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != seen.sha256:
        raise UsageError(f"{command.path} changed while it was fetched; nothing was saved")
    return True
