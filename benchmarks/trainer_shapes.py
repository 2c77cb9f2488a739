"""Shapes, data, clocks and operation counts that all contestants of ``trainer_h200.py`` share.

A step trains on 8,192 context tokens, four documents of 2,048, with 512 draft blocks of 16 drawn
anew every step; the first 64 tokens of a document are not taught. Nothing of any trainer is here.
"""

import gc
import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch

DOCUMENTS, LENGTH, ANCHORS, BLOCK, PROMPT = 4, 2048, 512, 16, 64
TOKENS = DOCUMENTS * LENGTH
DRAFT_LAYERS = TAPS = 5
MASK_TOKEN = 3
DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
"""The CPU only shows that the programs run, at the tiny shape; nothing is measured there."""


@dataclass(frozen=True)
class Shape:
    """A target model, and a drafter of five layers like its own."""

    family: str
    hidden: int
    layers: int
    heads: int
    groups: int
    head_dim: int
    inner: int
    vocabulary: int
    theta: float

    @property
    def taps(self) -> tuple[int, ...]:
        """Five layers, evenly from the second to the third last: all contestants' formula."""
        return tuple(round(1 + place * (self.layers - 4) / (TAPS - 1)) for place in range(TAPS))


SHAPES = {
    "qwen3-8b": Shape("qwen3", 4096, 36, 32, 8, 128, 12288, 151_936, 1e6),
    "smollm2-135m": Shape("llama", 576, 30, 9, 3, 64, 1536, 49_152, 1e5),
    "tiny": Shape("qwen3", 64, 9, 4, 2, 16, 96, 512, 1e4),
}


def linear_params(shape: Shape) -> int:
    """Weights of one layer's projections."""
    heads = shape.hidden * shape.head_dim * (2 * shape.heads + 2 * shape.groups)
    return heads + 3 * shape.hidden * shape.inner


def target_flops(shape: Shape, layers: int) -> float:
    """Operations of a forward pass through so many layers, causal attention counted by half."""
    attention = 4 * TOKENS * (LENGTH + 1) / 2 * shape.heads * shape.head_dim
    return layers * (2 * TOKENS * linear_params(shape) + attention)


def drafter_flops(shape: Shape, *, teacher: bool) -> float:
    """Operations that a step needs: forward and backward, the frozen head and ``fc`` twice."""
    rows = ANCHORS * BLOCK
    context = 2 * TOKENS * DRAFT_LAYERS * 2 * shape.hidden * shape.groups * shape.head_dim
    seen = (PROMPT + LENGTH - 1) / 2 + BLOCK
    attention = 4 * rows * seen * shape.heads * shape.head_dim * DRAFT_LAYERS
    linear = 2 * rows * DRAFT_LAYERS * linear_params(shape)
    fuse = 2 * TOKENS * TAPS * shape.hidden**2
    head = 2 * rows * shape.hidden * shape.vocabulary
    return 3 * (linear + context + attention) + 2 * fuse + (3 if teacher else 2) * head


def say(*words: object) -> None:
    """A line with the seconds since the program began, at once."""
    print(f"[{time.perf_counter() - _BEGAN:6.1f}]", *words, flush=True)


def emit(**facts: object) -> None:
    """One JSON line into the results, at once, so that a run that is cut still tells."""
    line = json.dumps(facts)
    out = Path(os.environ.get("OUT", "."))
    with (out / "trainer_h200.jsonl").open("a", encoding="utf-8") as file:
        file.write(line + "\n")
    say("RESULT", line)


def spread(values: Sequence[float]) -> dict[str, float]:
    """Median, least and most, in the unit given."""
    return {
        "median": round(statistics.median(values), 3),
        "min": round(min(values), 3),
        "max": round(max(values), 3),
    }


def clean() -> None:
    """Give cached memory back and forget the peak."""
    gc.collect()
    if DEVICE.type == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()


def wait() -> None:
    """Until the device has done what was asked."""
    if DEVICE.type == "cuda":
        torch.cuda.synchronize()


def peak() -> int:
    """Most bytes allocated at one time since :func:`clean` or :func:`forget_peak`."""
    return torch.cuda.max_memory_allocated() if DEVICE.type == "cuda" else 0


def forget_peak() -> None:
    """Begin a new peak."""
    if DEVICE.type == "cuda":
        torch.cuda.reset_peak_memory_stats()


class Stamp:
    """A point in the device's work."""

    def __init__(self) -> None:
        event: Any = torch.cuda.Event
        self.event = event(enable_timing=True) if DEVICE.type == "cuda" else None
        self.at = time.perf_counter()
        if self.event is not None:
            self.event.record()

    def until(self, other: "Stamp") -> float:
        """Milliseconds."""
        if self.event is None or other.event is None:
            return (other.at - self.at) * 1e3
        return float(self.event.elapsed_time(other.event))


def gib(count: float) -> float:
    """Bytes as GiB."""
    return round(count / 2**30, 2)


Mark = Callable[[str], None]


def timed(
    step: Callable[[Mark], object], *, steps: int = 12, warm_up: int = 5
) -> dict[str, dict[str, float]]:
    """Milliseconds of a step and of the parts that it marks the ends of, by device events.

    Steps follow each other without a wait, so what the host does is hidden as in training, and
    shows where it is not. ``wall`` is the host's clock over all of them.
    """
    for _ in range(warm_up):
        step(lambda _: None)
    wait()
    marks: list[list[tuple[str, Stamp]]] = []

    def mark(name: str) -> None:
        marks[-1].append((name, Stamp()))

    began = time.perf_counter()
    for _ in range(steps):
        marks.append([])
        mark("")
        step(mark)
        mark("rest")
    wait()
    wall = (time.perf_counter() - began) / steps * 1e3
    parts: dict[str, list[float]] = {"step": []}
    for number, events in enumerate(marks):
        for (_, before), (name, after) in pairwise(events):
            parts.setdefault(name, []).append(before.until(after))
        if number + 1 < steps:
            parts["step"].append(events[0][1].until(marks[number + 1][0][1]))
    if not parts["step"]:  # one step has no next one to end at
        parts["step"] = [wall]
    return {**{name: spread(values) for name, values in parts.items()}, "wall": spread([wall])}


_BEGAN = time.perf_counter()

if __name__ == "__main__":
    sys.exit("give benchmarks/trainer_h200.py instead")
