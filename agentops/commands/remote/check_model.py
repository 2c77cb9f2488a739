"""Look at a model folder: index, every shard's header and size. Runs on hosts."""

from __future__ import annotations

import hashlib
import json
import os
import struct
import sys

from agentops.commands.remote.identity import answer, read_bytes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

HEADER_LIMIT = 100 * 1024 * 1024
INDEX_LIMIT = 64 * 1024 * 1024
CHUNK = 1 << 20
TENSORS_SHOWN = 20


def json_file(path: str) -> tuple[Any, str | None]:
    """A JSON file's content, or why there is none."""
    if not os.path.exists(path):
        return None, "missing"
    raw = read_bytes(path, INDEX_LIMIT)
    if raw is None:
        return None, "unreadable"
    try:
        return json.loads(raw), None
    except ValueError:
        return None, "not_json"


def header(path: str) -> tuple[dict[str, Any] | None, int, str | None]:
    """A safetensors header, its length in bytes, and what is wrong with it.

    Source: safetensors' README, "Format": u64 little-endian length, JSON, data.
    """
    try:
        with open(path, "rb") as file:
            raw = file.read(8)
            if len(raw) < 8:  # noqa: PLR2004
                return None, 0, "too_short"
            (length,) = struct.unpack("<Q", raw)
            if length > HEADER_LIMIT:
                return None, 0, "header_too_long"
            text = file.read(length)
    except OSError:
        return None, 0, "unreadable"
    if len(text) < length:
        return None, length, "header_cut"
    try:
        found = json.loads(text)
    except ValueError:
        return None, length, "header_not_json"
    return (found, length, None) if isinstance(found, dict) else (None, length, "header_not_json")


def offsets_problem(tensors: dict[str, Any], data_bytes: int) -> str | None:
    """Whether the tensors fill the data part without holes, overlaps or a missing end."""
    spans = []
    for name, entry in tensors.items():
        if name == "__metadata__":
            continue
        try:
            start, end = entry["data_offsets"]
            spans.append((int(start), int(end)))
        except (KeyError, TypeError, ValueError):
            return "header_without_offsets"
    at = 0
    for start, end in sorted(spans):
        if start != at or end < start:
            return "offsets_with_holes"
        at = end
    if at > data_bytes:
        return "data_cut"
    return "data_too_long" if at < data_bytes else None


def sha256(path: str) -> str | None:
    """Digest of a whole file."""
    hashed = hashlib.sha256()
    try:
        with open(path, "rb") as file:
            while chunk := file.read(CHUNK):
                hashed.update(chunk)
    except OSError:
        return None
    return hashed.hexdigest()


def shard(folder: str, name: str, wanted: set[str] | None, with_hash: bool) -> dict[str, Any]:  # noqa: FBT001
    """One shard against the index's names."""
    path = os.path.join(folder, name)
    row: dict[str, Any] = {
        "name": name, "size_bytes": None, "tensors": None, "problem": None, "sha256": None,
        "missing_tensors": [], "missing_count": 0,
    }  # fmt: skip
    try:
        row["size_bytes"] = os.stat(path).st_size
    except OSError:
        row["problem"] = "missing"
        return row
    tensors, length, row["problem"] = header(path)
    if tensors is not None:
        row["tensors"] = len([key for key in tensors if key != "__metadata__"])
        row["problem"] = offsets_problem(tensors, row["size_bytes"] - 8 - length)
        lacking = sorted((wanted or set()) - set(tensors))
        row["missing_tensors"] = lacking[:TENSORS_SHOWN]
        row["missing_count"] = len(lacking)
        if row["problem"] is None and lacking:
            row["problem"] = "tensors_missing"
    if with_hash and row["problem"] is None:
        row["sha256"] = sha256(path)
    return row


def main() -> None:
    """Arguments: folder, "hash" or "headers"."""
    folder, with_hash = sys.argv[1], sys.argv[2] == "hash"
    index, index_problem = json_file(os.path.join(folder, "model.safetensors.index.json"))
    _, config_problem = json_file(os.path.join(folder, "config.json"))
    names: dict[str, set[str] | None] = {}
    weight_map = index.get("weight_map") if isinstance(index, dict) else None
    if isinstance(weight_map, dict):
        for tensor, name in weight_map.items():
            wanted = names.setdefault(os.path.basename(str(name)), set())
            if wanted is not None:
                wanted.add(tensor)
    elif index_problem is None:
        index_problem = "no_weight_map"
    present = sorted(os.listdir(folder)) if os.path.isdir(folder) else []
    if index_problem == "missing" and "model.safetensors" in present:
        names["model.safetensors"] = None
    leftovers = [n for n in present if n.endswith((".incomplete", ".lock", ".part", ".tmp"))]
    cache = os.path.join(folder, ".cache")
    for _, _, found in os.walk(cache):
        leftovers += [n for n in found if n.endswith(".incomplete")]
    metadata = index.get("metadata") if isinstance(index, dict) else None
    total = metadata.get("total_size") if isinstance(metadata, dict) else None
    answer(
        {
            "folder": os.path.isdir(folder),
            "index_problem": index_problem,
            "config_problem": config_problem,
            "total_size_bytes": total if isinstance(total, int) else None,
            "incomplete": leftovers[:TENSORS_SHOWN],
        },
        *[shard(folder, name, wanted, with_hash) for name, wanted in sorted(names.items())],
    )


if __name__ == "__main__":
    main()
