"""The pipeline on real cards: its throughput beside what its slower stage does alone.

    python -m benchmarks.trainer_pipeline OUT.json [--shapes smollm2 qwen3-8b] [--seconds 8]

For each shape, with random weights made on the card: the target model alone, the drafter alone on
features that are ready, the loop without a pipeline on one GPU, the pipeline with one GPU doing
both, and, where there are more GPUs, with targets and drafters apart and with all doing both. The
limit is what the slower stage does alone, or both after each other where a GPU does both. Drafter
of 5 layers, block 16, 512 anchors in 8,192 tokens of documents of 2,048. Every line is printed when
it is there; the JSON file is written after each.
"""

import argparse
import gc
import json
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch

from benchmarks.pipeline_cases import ROW, SHAPES, OnCard, Shape, opened
from trainer.batches import read_features
from trainer.clock import SystemClock
from trainer.config import PipelineSettings
from trainer.errors import TrainerError
from trainer.pipeline.building import PipelinedSteps
from trainer.schedule import Place, Schedule
from trainer.step import FixedPass

STARTED = time.perf_counter()


@dataclass
class Measured:
    """One line of the table; rates in context tokens a second."""

    shape: str
    what: str
    devices: str
    tokens_per_s: float
    ms_per_step: float
    peak_gib: list[float]
    detail: dict[str, Any]


def log(text: str) -> None:
    """One line with the seconds since the start."""
    print(f"[{time.perf_counter() - STARTED:6.1f} s] {text}", flush=True)


def synchronise() -> None:
    """Wait for every GPU."""
    for index in range(torch.cuda.device_count()):
        torch.cuda.synchronize(index)


def free() -> None:
    """Give back what nobody holds; threads and their work refer to each other in circles."""
    gc.collect()
    torch.cuda.empty_cache()


@contextmanager
def peaks(into: list[float]) -> Iterator[None]:
    """Peak memory of each GPU while entered, in GiB."""
    count = torch.cuda.device_count()
    for index in range(count):
        torch.cuda.reset_peak_memory_stats(index)
    yield
    into += [round(torch.cuda.max_memory_allocated(index) / 2**30, 2) for index in range(count)]


def timed(work: Callable[[], object], seconds: float, *, warm: int = 4) -> float:
    """Seconds a call, over about so many seconds."""
    for _ in range(warm):
        work()
    synchronise()
    start, calls = time.perf_counter(), 0
    while time.perf_counter() - start < seconds or calls < 4:
        work()
        calls += 1
        if calls % 8 == 0:
            synchronise()
    synchronise()
    return (time.perf_counter() - start) / calls


def target_alone(run: OnCard, seconds: float) -> float:
    """Seconds that the target takes for a step's tokens, by the pipeline's own reading."""
    from trainer.pipeline.building import Reader as Copy  # noqa: PLC0415
    from trainer.pipeline.building import stages_for, workers_for  # noqa: PLC0415
    from trainer.pipeline.jobs import Job, Wanted  # noqa: PLC0415
    from trainer.pipeline.lanes import lane_on  # noqa: PLC0415

    settings = PipelineSettings(
        pool_bytes=pool_bytes(run), min_ready=8, token_budget=run.config.row_tokens
    )
    config = replace(run.config, pipeline=settings)
    target = run.target()
    where = run.device
    stages = stages_for(
        config, target, run.data.training, Path(config.output_dir), SystemClock(),
        is_pinned=where.type == "cuda",
    )  # fmt: skip
    lane = lane_on(where)
    read = lambda ids: target.read(ids, final=False)  # noqa: E731 - a callable of one use
    (worker,) = workers_for(stages, [Copy(read, where, lane, lane_on(where))], settings)
    length = int(run.data.training.offsets[1])
    chosen = tuple(range(run.config.row_tokens // length))
    wanted = tuple(Wanted(each, stages.arena.lease(length)) for each in chosen)
    job = Job(0, chosen, length, wanted)

    def read_once() -> None:
        worker._queue(job)  # noqa: SLF001 - the very work of the stage, and nothing else
        lane.mark().wait()

    return timed(read_once, seconds)


def drafter_alone(run: OnCard, seconds: float) -> float:
    """Seconds of a drafter's step on features that are there."""
    trainer = run.trainer()
    rows = Schedule(
        run.data.training.lengths, capacity=run.config.row_tokens, seed=0, place=Place()
    ).rows()
    (batch,) = trainer.passes([next(rows)], run.data.training)
    features = read_features(
        trainer.target, batch, tokens_per_read=ROW, device=run.device, final=False
    )
    if run.config.compile:
        fixed = FixedPass(trainer, batch, features)
        return timed(lambda: fixed.step(batch, features, 1e-4), seconds)
    total = torch.ones(())

    def step() -> None:
        trainer.accumulate(batch, features, total)
        trainer.optimizer.step(1e-4)

    return timed(step, seconds)


def plain_loop(run: OnCard, seconds: float) -> float:
    """Seconds of a step of the loop that has no pipeline, on one GPU."""
    trainer = run.trainer()
    rows = Schedule(
        run.data.training.lengths, capacity=run.config.row_tokens, seed=0, place=Place()
    ).rows()
    return timed(lambda: float(trainer.step([next(rows)], run.data.training, 1e-4).loss), seconds)


def pool_bytes(run: OnCard) -> int:
    """Room for sixteen steps."""
    width = run.shape.tap_width * 2
    return 16 * run.config.row_tokens * width


def piped(run: OnCard, settings: PipelineSettings, seconds: float) -> tuple[float, dict[str, Any]]:
    """Seconds of a step of the pipeline once it runs evenly, and what it says of itself."""
    rows = len(settings.drafters)
    config = replace(run.config, pipeline=settings, rows_per_step=rows, rows_per_pass=1)
    steps = PipelinedSteps(
        replace(run, config=config), SystemClock(), step=0, place=Place(), tensors=None
    )
    never = lambda: False  # noqa: E731 - nobody stops this
    first = time.perf_counter()
    steps.step(1e-4, never, then=1e-4)
    first_s = time.perf_counter() - first
    stages = steps.pipeline._stages  # noqa: SLF001 - its counters are what is measured
    # Until what was read ahead during the first step is used up, drafters are fed from memory.
    start, warmed = time.perf_counter(), 0
    while warmed < 24 or time.perf_counter() - start < seconds / 2:
        steps.step(1e-4, never, then=1e-4)
        warmed += 1
    steps.report()
    start, done, published = time.perf_counter(), 0, stages.pool.published
    levels = []
    while done < 16 or time.perf_counter() - start < seconds:
        steps.step(1e-4, never, then=1e-4)
        done += 1
        levels.append(stages.pool.ready)
    elapsed = time.perf_counter() - start
    length = int(run.data.training.offsets[1])
    read = (stages.pool.published - published) * length
    report = steps.report()
    hanging = steps.close()
    trained = done * rows * run.config.row_tokens
    detail = {
        "first_step_s": round(first_s, 1),
        "steps": done,
        "trained_tokens_per_s": round(trained / elapsed),
        "read_tokens_per_s": round(read / elapsed),
        "pool_ready_mean": round(sum(levels) / len(levels), 1),
        "pool_documents_most": stages.arena.most_used * settings.page_tokens // length,
        "copies_most": stages.copies.most,
        "hanging": list(hanging),
        "report": asdict(report) if report is not None else None,
        "refused": [each.refused for each in stages.meters.graphs],
    }
    return elapsed / (done * rows), detail


def splits(gpus: int) -> list[tuple[str, tuple[str, ...], tuple[str, ...]]]:
    """Targets and drafters apart on all GPUs; one GPU doing both; every GPU doing both."""
    if not gpus:
        return [("pipeline, CPU", ("cpu",), ("cpu",))]
    names = tuple(f"cuda:{each}" for each in range(gpus))
    found = []
    for targets in {2: [1], 4: [2, 3], 8: [5]}.get(gpus, []):
        what = f"pipeline, {targets} + {gpus - targets}"
        found.append((what, names[:targets], names[targets:]))
    found.append(("pipeline, one GPU both", names[:1], names[:1]))
    if gpus > 1:
        found.append((f"pipeline, all {gpus} both", names, names))
    return found


def measure(shape: Shape, seconds: float, keep: Callable[[Measured], None], *, short: bool) -> None:
    """Every line of one shape; one that fails is told and left out."""
    with tempfile.TemporaryDirectory() as folder:
        run = opened(shape, Path(folder), short=short)
        unfused = run.target().unfused
        log(
            f"{shape.name}: target model of {shape.layers} layers on {run.device},"
            f" read {'by fused kernels' if unfused is None else f'by itself ({unfused})'}"
        )
        row = run.config.row_tokens
        alone: dict[str, float] = {}
        for what, work in (
            ("target alone", target_alone),
            ("drafter alone", drafter_alone),
            ("no pipeline, one GPU", plain_loop),
        ):
            peak: list[float] = []
            with telling(what):
                with peaks(peak):
                    step_s = work(run, seconds / 2)
                alone[what] = row / step_s
                where = str(run.device)
                keep(Measured(shape.name, what, where, row / step_s, 1e3 * step_s, peak, {}))
            free()
        for what, targets, drafters in splits(torch.cuda.device_count()):
            with telling(what):
                keep(split(run, shape, what, targets, drafters, alone, seconds))
            free()


def split(
    run: OnCard, shape: Shape, what: str, targets: tuple[str, ...], drafters: tuple[str, ...],
    alone: dict[str, float], seconds: float,
) -> Measured:  # fmt: skip
    """One line of the pipeline, beside what its slower stage does alone."""
    row = run.config.row_tokens
    settings = PipelineSettings(
        targets=targets, drafters=drafters, pool_bytes=pool_bytes(run), min_ready=8,
        token_budget=row,
    )  # fmt: skip
    peak: list[float] = []
    with peaks(peak):
        step_s, detail = piped(run, settings, seconds)
    rates = (alone["target alone"] * len(targets), alone["drafter alone"] * len(drafters))
    # A device that does both does one after the other.
    shares = set(targets) & set(drafters)
    limit = 1 / sum(1 / rate for rate in rates) if shares else min(rates)
    rate = min(detail["trained_tokens_per_s"], detail["read_tokens_per_s"])
    detail["limit_tokens_per_s"] = round(limit)
    detail["overlap"] = round(rate / limit, 4)
    devices = f"{'+'.join(targets)} | {'+'.join(drafters)}"
    return Measured(shape.name, what, devices, rate, 1e3 * step_s, peak, detail)


@contextmanager
def telling(what: str) -> Iterator[None]:
    """Go on after a failure, for the time on the card is short."""
    try:
        yield
    except (RuntimeError, TrainerError) as error:
        log(f"{what}: FAILED: {' '.join(str(error).split())[:600]}")
        traceback.print_exc()


def main() -> int:
    """See the module's docstring."""
    parser = argparse.ArgumentParser()
    parser.add_argument("out", type=Path)
    parser.add_argument("--shapes", nargs="+", choices=SHAPES, default=["smollm2", "qwen3-8b"])
    parser.add_argument("--seconds", type=float, default=8.0)
    parser.add_argument("--short", action="store_true", help="small rows, to try it on a CPU")
    options = parser.parse_args()
    options.out.parent.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)  # as a run beside a GPU does
    lines: list[Measured] = []

    def keep(line: Measured) -> None:
        lines.append(line)
        share = line.detail.get("overlap")
        log(
            f"{line.shape:9} {line.what:24} {line.tokens_per_s:10,.0f} tok/s"
            f" {line.ms_per_step:8.2f} ms  {line.peak_gib} GiB"
            + ("" if share is None else f"  {share:.1%} of the limit; {line.detail}")
        )
        options.out.write_text(json.dumps([asdict(each) for each in lines], indent=1) + "\n")

    for name in options.shapes:
        measure(SHAPES[name], options.seconds, keep, short=options.short)
        free()
    return 0


if __name__ == "__main__":
    sys.exit(main())
