"""A simulated host's side of the wire: from a request to what is asked, from an answer to bytes.

Here: the forms in which the commands' own scripts take arguments and answer, so that the real
parsers read what a simulated host says. Not here: what it says (``agentops.bench.answers``).
"""

import json
from collections.abc import Callable, Mapping, Sequence
from functools import cache

from agentops.commands import COMMANDS
from agentops.commands.script import ScriptCommand, python_source
from agentops.transport import Request
from journal.events import JsonObject

# sh -c CHOOSE agentops PROGRAM FALLBACK, then the script's own arguments.
_PROGRAM, _FIRST = 4, 6


def asked(request: Request) -> tuple[str, JsonObject]:
    """The command's name and its arguments, as far as a simulated host needs them."""
    name = _by_program()[request.argv[_PROGRAM]]
    words = request.argv[_FIRST:]
    if name == "tail_log" and words[0] == "digest":
        name = "file_digest"
    return name, _ARGUMENTS.get(name, _none)(words, request.stdin)


@cache
def _by_program() -> Mapping[str, str]:
    """Names by the program that is sent; two commands share the one for files."""
    scripts = {n: c for n, c in COMMANDS.items() if issubclass(c, ScriptCommand)}
    found = {python_source(*command.python): name for name, command in scripts.items()}
    return found | {python_source(*scripts["tail_log"].python): "tail_log"}


def _none(words: Sequence[str], stdin: bytes) -> JsonObject:
    del words, stdin
    return {}


def _files(words: Sequence[str], stdin: bytes) -> JsonObject:
    del words
    return {"files": json.loads(stdin.partition(b"\n")[0])}


_ARGUMENTS: Mapping[str, Callable[[Sequence[str], bytes], JsonObject]] = {
    "read_heartbeat": lambda words, _: {"path": words[0]},
    "tail_log": lambda words, _: {"path": words[1]},
    "file_digest": lambda words, _: {"path": words[1]},
    "check_model": lambda words, _: {"path": words[0]},
    "inspect_process": lambda words, _: {"pid": int(words[0])},
    "locks": lambda words, _: {"paths": list(words)},
    "signal_process": lambda words, _: {"victim": json.loads(words[0]), "signal": words[1]},
    "wait_until": lambda words, _: {
        "condition": json.loads(words[0]),
        "timeout_ms": int(words[1]),
    },
    "move_aside": lambda words, _: {
        "path": words[0],
        "text": words[1],
        "owner_pid": int(words[2]),
        "owner_start_ticks": int(words[3]) if words[3] else None,
    },
    "remove_segments": lambda _, stdin: {"segments": json.loads(stdin)},
    "launch": lambda words, _: json.loads(words[0]),
    "deploy_files": _files,
}


def told(name: str, seen: JsonObject, arguments: JsonObject) -> bytes:
    """The observation *seen* as the command's script would print it."""
    rows = _ROWS.get(name, _one)(seen, arguments)
    lines = [json.dumps(row, separators=(",", ":")) for row in (*rows, {"done": len(rows)})]
    return "".join(line + "\n" for line in lines).encode()


def _one(seen: JsonObject, arguments: JsonObject) -> list[JsonObject]:
    del arguments
    return [seen]


def _rows_of(seen: JsonObject, key: str) -> list[JsonObject]:
    listed = seen.get(key)
    return [row for row in listed if isinstance(row, dict)] if isinstance(listed, list) else []


def _but(seen: JsonObject, *keys: str) -> JsonObject:
    return {key: value for key, value in seen.items() if key not in keys}


def _mask(numbers: object) -> str:
    listed = numbers if isinstance(numbers, list) else []
    return f"{sum(1 << (number - 1) for number in listed):016x}"


def _processes(seen: JsonObject, arguments: JsonObject) -> list[JsonObject]:
    del arguments
    head = _but(seen, "processes", "complete")
    head |= {"init_visible": seen.get("complete"), "own": [PROBE_PID]}
    rows = []
    for row in _rows_of(seen, "processes"):
        raw = _but(row, "signals_ignored", "signals_caught", "signals_pending")
        raw["ignored"] = _mask(row.get("signals_ignored"))
        raw["caught"] = _mask(row.get("signals_caught"))
        raw["pending"] = raw["shared_pending"] = _mask([])
        raw["cgroup"] = f"0::{row.get('cgroup')}\n"
        rows.append(raw)
    return [head, *rows]


# The look's own process; it is in no row, as one that was reaped meanwhile.
PROBE_PID = 4_000_000


def _heartbeat(seen: JsonObject, arguments: JsonObject) -> list[JsonObject]:
    del arguments
    beat = seen.get("heartbeat")
    return [
        {
            "exists": seen.get("exists"),
            "modified_unix_ms": 0 if beat else None,
            "content": json.dumps(beat) if beat else None,
            "now_unix_ms": 0,
        }
    ]


def _file(seen: JsonObject, more: JsonObject) -> list[JsonObject]:
    there = seen.get("exists") is True
    row: JsonObject = {
        "exists": there,
        "kind": "file" if there else None,
        "size_bytes": more.pop("size_bytes"),
        "modified_unix_ms": 0 if there else None,
        "inode": 5 if there else None,
        "problem": None,
        "now_unix_ms": 0,
    }
    return [row | more]


def _tail(seen: JsonObject, arguments: JsonObject) -> list[JsonObject]:
    del arguments
    listed = seen.get("lines")
    text = "".join(f"{line}\n" for line in (listed if isinstance(listed, list) else []))
    return _file(seen, {"size_bytes": len(text), "tail": text, "tail_offset": 0})


def _digest(seen: JsonObject, arguments: JsonObject) -> list[JsonObject]:
    del arguments
    size = 12 if seen.get("exists") else None
    return _file(seen, {"size_bytes": size, "sha256": seen.get("sha256"), "hashed_bytes": size})


def _wait(seen: JsonObject, arguments: JsonObject) -> list[JsonObject]:
    del arguments
    row = _but(seen, "series", "blind", "alive", "unreaped")
    return [row | {"series": [[0, 0]], "detail": {}}]


def _deployed(seen: JsonObject, arguments: JsonObject) -> list[JsonObject]:
    rows: list[JsonObject] = [
        {
            "path": item.get("path"),
            "before_sha256": item.get("expects"),
            "after_sha256": item.get("sha256"),
            "changed": True,
            "backup": None,
            "refusal": None,
        }
        for item in _rows_of(arguments, "files")
    ]
    return [{"problem": seen.get("problem")}, *rows]


def _place(rows: list[JsonObject]) -> list[JsonObject]:
    here: JsonObject = {"boot_id": "", "pid_namespace": 0, "namespace_init_start_ticks": 0}
    return [here, *rows]


def _shards(seen: JsonObject, arguments: JsonObject) -> list[JsonObject]:
    del arguments
    return [_but(seen, "intact", "shards"), *_rows_of(seen, "shards")]


def _inspected(seen: JsonObject, arguments: JsonObject) -> list[JsonObject]:
    head = _place([])[0]
    stack = seen.get("kernel_stack")
    lines = [str(line) for line in stack] if isinstance(stack, list) else []
    return [head | {"pid": arguments["pid"], "found": seen["found"], "stack": "\n".join(lines)}]


_ROWS: Mapping[str, Callable[[JsonObject, JsonObject], list[JsonObject]]] = {
    "list_processes": _processes,
    "read_heartbeat": _heartbeat,
    "tail_log": _tail,
    "file_digest": _digest,
    "wait_until": _wait,
    "deploy_files": _deployed,
    "locks": lambda seen, _: _place(_rows_of(seen, "files")),
    "shared_memory": lambda seen, _: [
        _but(seen, "segments"),
        *(_but(row, "orphaned") for row in _rows_of(seen, "segments")),
    ],
    "remove_segments": lambda seen, _: _rows_of(seen, "segments"),
    "check_model": _shards,
    "inspect_process": _inspected,
}
