"""``verify --chain``: the links between lines, as fast as they can be hashed.

Proves that no line was changed without changing all that follow it, and nothing about seals,
outputs or rules. A long stream's segments are shared among processes, one for each processor. Not
here: the walk (``journal.segment_walk``), the full check (``journal.stream_check``).
"""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from journal import segment_walk
from journal.findings import Finding
from journal.layout import Layout
from journal.lines import ZERO_LEAF
from journal.segment_walk import Walked, walk

_SEGMENTS_MIN = 2  # for one process: a segment of 64 MB is a tenth of a second


def chain_finding(layout: Layout, stream: str) -> tuple[int, Finding | None]:
    """Lines whose links hold, and the first that does not."""
    segments = layout.segments(stream)
    held, prev = 0, ZERO_LEAF
    for run, walked in _walked(segments):
        if walked.first not in {"", prev}:
            return held, _broken(stream, held, run[0], "")
        held += walked.held
        if walked.broken is not None:
            return held, _broken(stream, held, run[walked.broken], walked.fault)
        prev = walked.last or prev
    return held, None


def _broken(stream: str, seq: int, path: Path, fault: str) -> Finding:
    if fault:
        return Finding("SEGMENT_CHANGED", "segment", stream, seq, path.name, fault)
    before = f"the line of event {seq - 1}" if seq else "the start of a stream"
    text = f"prev does not match {before}: one of the two was changed; agentops verify says which"
    return Finding("LINE_CHANGED", "segment", stream, seq, path.name, text)


def _walked(segments: Sequence[Path]) -> list[tuple[Sequence[Path], Walked]]:
    """Runs of segments that follow one another, each walked; all but the first elsewhere."""
    count = min(_processors(), len(segments) // _SEGMENTS_MIN) or 1
    bounds = [len(segments) * at // count for at in range(count + 1)]
    runs = [segments[start:end] for start, end in pairwise(bounds)]
    elsewhere = [_start(run) for run in runs[1:]]
    here = walk(runs[0])
    rest = [_ended(child, run) for child, run in zip(elsewhere, runs[1:], strict=True)]
    return list(zip(runs, [here, *rest], strict=True))


def _processors() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _start(run: Sequence[Path]) -> subprocess.Popen[bytes] | None:
    """A process that walks this run; None where none can be started."""
    program = [sys.executable, "-I", str(segment_walk.__file__), *map(str, run)]
    try:
        return subprocess.Popen(program, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    except OSError:
        return None


def _ended(child: subprocess.Popen[bytes] | None, run: Sequence[Path]) -> Walked:
    if child is None:
        return walk(run)
    said, _ = child.communicate()
    try:
        return Walked(**json.loads(said))
    except (ValueError, TypeError):
        return walk(run)  # its interpreter has no zstandard, or it was killed
