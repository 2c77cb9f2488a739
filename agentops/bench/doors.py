"""The two doors that an agent may go through, each of which counts what passes.

``python -m agentops.bench.doors ssh COUNTS CONFIG ARGV…`` is ssh; ``… mcp COUNTS ARGV…`` is a
server of tools on standard streams. Both hand everything on unchanged and note a line for each
round trip: how many characters were asked, and how many answered. Not here: what the numbers mean
(``agentops.bench.agent``).
"""

import json
import shlex
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Literal

from journal.events import JsonObject

Kind = Literal["ssh", "tool", "schemas"]
_CHUNK = 65_536


@dataclass(frozen=True, slots=True)
class Passed:
    """One round trip, or the tools' schemas; lengths in characters."""

    kind: Kind
    asked: int
    answered: int


def note(counts: Path, passed: Passed) -> None:
    """Add one line; lines of several processes do not mix, being short."""
    row = {"kind": passed.kind, "asked": passed.asked, "answered": passed.answered}
    with counts.open("a", encoding="ascii") as file:
        file.write(json.dumps(row) + "\n")


def noted(counts: Path) -> tuple[Passed, ...]:
    """All that was noted so far."""
    if not counts.exists():
        return ()
    rows = map(json.loads, counts.read_text(encoding="ascii").splitlines())
    return tuple(Passed(row["kind"], row["asked"], row["answered"]) for row in rows)


def ssh(counts: Path, config: str, argv: Sequence[str]) -> int:
    """Be ssh: same input, same outputs, same status."""
    program = shutil.which("ssh", path="/usr/bin:/usr/local/bin:/bin:/opt/homebrew/bin") or "ssh"
    process = subprocess.Popen(
        [program, "-F", config, *argv], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    lengths = [0, 0]

    def carry(place: int, source: IO[bytes] | None, target: IO[bytes]) -> None:
        while source is not None and (chunk := source.read1(_CHUNK)):  # type: ignore[attr-defined]  # a BufferedReader
            lengths[place] += len(chunk.decode("utf-8", "replace"))
            target.write(chunk)
            target.flush()

    ways = [
        threading.Thread(target=carry, args=(0, process.stdout, sys.stdout.buffer)),
        threading.Thread(target=carry, args=(1, process.stderr, sys.stderr.buffer)),
    ]
    for way in ways:
        way.start()
    for way in ways:
        way.join()
    status = process.wait()
    note(counts, Passed("ssh", len(shlex.join(["ssh", *argv])), sum(lengths)))
    return status if status >= 0 else 128 - status


@dataclass(slots=True)
class Counting:
    """Follows the messages of one client and its server."""

    counts: Path
    waiting: dict[object, int]

    def asked(self, message: JsonObject) -> None:
        """A message of the client."""
        if message.get("method") == "tools/call":
            params = message.get("params")
            said = params if isinstance(params, dict) else {}
            text = _compact({"name": said.get("name"), "arguments": said.get("arguments")})
            self.waiting[message.get("id")] = len(text)

    def answered(self, message: JsonObject) -> None:
        """A message of the server. An answer counts in the one form that a model is shown."""
        result = message.get("result")
        if not isinstance(result, dict):
            return
        if "tools" in result:
            note(self.counts, Passed("schemas", 0, len(_compact(result["tools"]))))
        elif message.get("id") in self.waiting:
            shown = result.get("structuredContent") or result.get("content")
            asked = self.waiting.pop(message.get("id"))
            note(self.counts, Passed("tool", asked, len(_compact(shown))))


def _compact(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def mcp(counts: Path, argv: Sequence[str]) -> int:
    """Be the server: every line goes on as it came."""
    process = subprocess.Popen(list(argv), stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    counting = Counting(counts, {})

    def carry(
        source: IO[bytes] | None, target: IO[bytes] | None, see: Callable[[JsonObject], None]
    ) -> None:
        if source is None or target is None:
            return
        for line in source:
            message = _object(line)
            if message is not None:
                see(message)
            try:
                target.write(line)
                target.flush()
            except BrokenPipeError:
                break
        if target is process.stdin:
            target.close()

    back = threading.Thread(
        target=carry, args=(process.stdout, sys.stdout.buffer, counting.answered)
    )
    back.start()
    carry(sys.stdin.buffer, process.stdin, counting.asked)
    back.join()
    return process.wait()


def _object(line: bytes) -> JsonObject | None:
    try:
        value = json.loads(line)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


if __name__ == "__main__":
    which, path, *rest = sys.argv[1:]
    sys.exit(ssh(Path(path), rest[0], rest[1:]) if which == "ssh" else mcp(Path(path), rest))
