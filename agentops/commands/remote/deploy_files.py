"""Put files in place: all or none, only over what is expected there. Runs on hosts.

stdin: one line of JSON (a list of what to write), then the contents, back to back.
"""

from __future__ import annotations

import json
import sys

from agentops.commands.remote.identity import answer
from agentops.commands.remote.writing import result_rows, write_all


def main() -> None:
    """Argument: "plan" to change nothing, "write" to write."""
    stream = sys.stdin.buffer
    entries = json.loads(stream.readline())
    contents = [stream.read(entry["size_bytes"]) for entry in entries]
    for entry in entries:
        entry.update(before=None, refusal=None, changed=False, backup_path=None)
    problem = write_all(entries, contents, sys.argv[1] == "plan")
    answer({"problem": problem}, *result_rows(entries))


if __name__ == "__main__":
    main()
