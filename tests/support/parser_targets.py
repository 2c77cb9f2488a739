"""What reads a host's bytes, as targets for fuzzing: whatever comes, the answer is bounded.

The first byte of an input chooses the target, the second is its status or its cut; the rest is what
the host said. Used by ``tests/torture/fuzz_parsers.py`` at length and by a short test in every run.
"""

import json
import tempfile
import tomllib
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

from agentops.commands import COMMANDS, Command, Completed, Malformed, Observation
from agentops.commands.adopting import job_entry
from agentops.commands.closure import closure
from agentops.commands.inspecting import ProcessInspected
from agentops.commands.kernel_log import kernel_message
from agentops.commands.processes import ProcessTable
from agentops.commands.smi import mig_devices, reading, tool_state
from agentops.errors import UsageError
from agentops.transport.frame import StreamReader
from agentops.transport.ssh_config import aliases, host_from_options, jumps_of
from tests.support.goldens import GOLDENS, any_command, load

SEEDS = Path(__file__).parents[1] / "torture" / "parser_seeds"
NONCE = "6e6f6e6365"
# An answer may be told in a few words more than it came in, and by no more than that.
GROWTH = 40
ALLOWANCE = 20_000


class ParserTargets:
    """All targets, by the first byte of an input."""

    def __init__(self, folder: Path) -> None:
        self._config = folder / "config"
        others: tuple[Callable[[int, bytes], None], ...] = (
            stream, smi_text, ring_message, self.ssh_options, self.ssh_file,
        )  # fmt: skip
        commands = {name: partial(answer, any_command(name)) for name in sorted(COMMANDS)}
        self.all: dict[str, Callable[[int, bytes], None]] = {
            **{target.__name__: target for target in others}, **commands,
        }  # fmt: skip

    def one(self, data: bytes) -> None:
        """Try one input."""
        if len(data) < 2:
            return
        target = tuple(self.all.values())[data[0] % len(self.all)]
        target(data[1], data[2:])

    def ssh_options(self, second: int, rest: bytes) -> None:
        """What ``ssh -G`` printed."""
        text = rest.decode("utf-8", "backslashreplace")
        with suppress(UsageError):
            jumps_of(text)
            host_from_options("alias"[: 1 + second % 5], text)

    def ssh_file(self, second: int, rest: bytes) -> None:
        """The names in a configuration file; an include of anything real is cut out."""
        del second
        self._config.write_bytes(rest.replace(b"nclude", b"").replace(b"NCLUDE", b""))
        with suppress(UsageError):
            aliases(self._config)

    def seeds(self) -> Iterator[bytes]:
        """The recorded answers of real hosts, and the committed inputs, named TARGET.HASH."""
        names = list(self.all)
        for path in GOLDENS:
            command, completed, _ = load(path)
            head = bytes((names.index(command.name), completed.exit_status % 256))
            yield head + completed.stdout
        for path in sorted(SEEDS.glob("*.*")):
            yield bytes((names.index(path.name.partition(".")[0]),)) + path.read_bytes()


def answer(command: Command, status: int, rest: bytes) -> None:
    """A command's answer: an observation that the journal can hold, or why there is none."""
    parsed = command.parse(Completed(status, rest, rest[-200:]))
    if isinstance(parsed, Malformed):
        assert parsed.reason
        assert len(parsed.reason) < ALLOWANCE
        return
    assert isinstance(parsed, Observation)
    text = parsed.model_dump_json()
    assert len(text) <= GROWTH * len(rest) + ALLOWANCE, len(text)
    text.encode("utf-8")
    for leaf in leaves(json.loads(text)):
        assert not isinstance(leaf, float)
        if isinstance(leaf, int):
            assert abs(leaf) < 2**53
    if isinstance(parsed, ProcessTable):
        seeds = [parsed.identity(row) for row in parsed.processes[:2]]
        closure(parsed, seeds)
    if isinstance(parsed, ProcessInspected) and parsed.process is not None:
        tomllib.loads(job_entry("x", parsed))


def stream(cut: int, rest: bytes, kind: type[StreamReader] = StreamReader) -> None:
    """The frame's reader gives the same in one piece and in pieces, and loses no byte."""
    whole, pieces = bytearray(), bytearray()
    one, other = kind(NONCE, whole.extend), kind(NONCE, pieces.extend)
    one.feed(rest)
    one.finish()
    step = 1 + cut % 40
    for at in range(0, len(rest), step):
        other.feed(rest[at : at + step])
    other.finish()
    assert whole == pieces
    assert (one.frame_pid, one.ended, one.preamble) == (
        other.frame_pid, other.ended, other.preamble,
    )  # fmt: skip
    assert len(whole) + len(one.preamble) <= len(rest)


def smi_text(second: int, rest: bytes) -> None:
    """nvidia-smi's words: one cell, one failure, one page of XML."""
    text = rest.decode("utf-8", "backslashreplace")
    cell = reading(text, scale=10 ** (second % 4))
    assert (cell.value is None) != (cell.missing is None)
    assert tool_state(second, has_tool=True, timed_out=False, text=text)
    assert len(mig_devices(text)) <= len(rest)


def ring_message(second: int, rest: bytes) -> None:
    """One message of the kernel."""
    text = rest.decode("utf-8", "backslashreplace")
    seen = kernel_message(5, second % 8, text)
    assert seen.text == text


def leaves(value: object) -> Iterator[object]:
    """All values that are no containers."""
    if isinstance(value, dict):
        for item in value.values():
            yield from leaves(item)
    elif isinstance(value, list):
        for item in value:
            yield from leaves(item)
    else:
        yield value


def scratch() -> Path:
    """A folder for the targets that read a file, in memory where there is such a place."""
    memory = Path("/dev/shm")
    return Path(tempfile.mkdtemp(dir=memory if memory.is_dir() else None))
