"""Acceptance length against seconds: our trainer and speculators' DFlash on the same GPU and data.

    python -m benchmarks.h200_acceptance prepare CONVERSATIONS.jsonl MODEL.gguf PROMPTS.xz
    python -m benchmarks.h200_acceptance regenerate MODEL PROMPTS.xz OUT --tokens 10000000
    python -m benchmarks.h200_acceptance race MODEL OUT --contestant agentops --seconds 300 SHARD...
    python -m benchmarks.h200_acceptance report OUT/*.json --plot-to OUT/race.svg

``prepare`` needs a tokenizer and runs anywhere; ``regenerate`` and ``race`` need ids alone. MODEL
is a GGUF file or a directory of safetensors. Seconds run from the start of the process, imports,
reading the target's features and compilation included; evaluations stop the clock.
"""

import argparse
import json
import platform
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Literal

import torch

from benchmarks.acceptance_data import FeatureStore, Text, corpus_of, read_shard, write_shard
from benchmarks.acceptance_plot import Line, plot
from benchmarks.acceptance_race import CONTESTANTS, Contestant, prepared_rows
from benchmarks.acceptance_write import BatchWriter
from trainer.acceptance import acceptance
from trainer.anchors import AnchorConfig
from trainer.config import (
    DrafterSettings,
    GgufTarget,
    OptimizerSettings,
    RunConfig,
    SafetensorsTarget,
)
from trainer.decode import Round, Sampling, decode
from trainer.drafter import Drafter
from trainer.export import export_z_lab, read_published
from trainer.loading import HuggingFaceBackbone, load_backbone
from trainer.loss import LossConfig
from trainer.optimizer import learning_rate
from trainer.replay import replay
from trainer.step import drafter_config
from trainer.target import Target

STARTED = time.perf_counter()
_WARMTHS = (0.0, 0.7, 1.0)
_SHARD_TOKENS = 5_000_000
_RATE_STEPS = 10_000
_FINAL_PROMPTS, _FINAL_TOKENS = 16, 128


def log(text: str) -> None:
    """One line with the seconds since the process started."""
    print(f"[{time.perf_counter() - STARTED:7.1f} s] {text}", flush=True)


def device() -> torch.device:
    """The GPU when there is one."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def backbone(model: Path) -> HuggingFaceBackbone:
    """The target model on the device; bfloat16 on a GPU."""
    precision: Literal["float32", "bfloat16"] = "bfloat16" if device().type == "cuda" else "float32"
    settings = (
        GgufTarget(str(model), dtype=precision)
        if model.is_file()
        else SafetensorsTarget(str(model), dtype=precision)
    )
    loaded = load_backbone(settings, device())
    assert isinstance(loaded, HuggingFaceBackbone)
    return loaded


def prepare(conversations: Path, model: Path, out: Path, *, longest: int) -> None:
    """Tokenise the first user turn of each conversation with the model's chat template."""
    from trainer.chat import Message, load_format  # noqa: PLC0415 - needs a tokenizer

    chat = load_format(GgufTarget(str(model)), {})
    texts: list[Text] = []
    for line in conversations.read_text(encoding="utf-8").splitlines():
        turn = next(each for each in json.loads(line)["messages"] if each["role"] == "user")
        rendered = chat.render([Message("user", turn["content"])], opens_answer=True)
        ids = chat.encode(rendered).ids
        if len(ids) <= longest:
            texts.append(Text(ids, len(ids), 0.0))
    write_shard(out, texts)
    log(f"{len(texts)} prompts of at most {longest} tokens in {out}")


def regenerate(
    model: Path, prompts: Path, out: Path, *, tokens: int, texts: int, length: int, held_out: int
) -> None:
    """Write answers until ``tokens`` are there; the first ``held_out`` prompts greedily, apart."""
    loaded = backbone(model)
    writer = BatchWriter(
        loaded.model, texts=texts, length=length, stop=_stop(loaded),
        captures=device().type == "cuda",
    )  # fmt: skip
    torch.manual_seed(0)
    asked = [text.ids for text in read_shard(prompts)]
    log(f"model loaded; {len(asked)} prompts")
    held = writer.write([(ids, 0.0) for ids in asked[:held_out]])
    write_shard(out / "held-out.xz", held)
    written: list[Text] = []
    count = shards = 0
    for first in range(held_out, len(asked), texts):
        batch = asked[first : first + texts]
        found = writer.write(
            [(ids, _WARMTHS[number % len(_WARMTHS)]) for number, ids in enumerate(batch)]
        )
        written += [text for text in found if len(text.ids) > text.prompt + 1]
        count += sum(len(text.ids) for text in found)
        log(f"{count:,} tokens in {first + len(batch) - held_out} texts")
        if sum(len(text.ids) for text in written) >= _SHARD_TOKENS:
            write_shard(out / f"answers-{shards}.xz", written)
            written, shards = [], shards + 1
        if count >= tokens:
            break
    if written:
        write_shard(out / f"answers-{shards}.xz", written)


@dataclass(frozen=True, slots=True)
class Point:
    """One evaluation on held-out prompts: seconds of the clock, and what was reached by then."""

    seconds: float
    steps: int
    tokens: int
    loss: float
    length_by_request: float
    length_by_round: float


class Clock:
    """Seconds since ``started``, a reading of ``time.perf_counter``, evaluations left out."""

    def __init__(self, started: float) -> None:
        self._started, self._paused = started, 0.0

    def seconds(self) -> float:
        """Now."""
        if device().type == "cuda":
            torch.cuda.synchronize()
        return time.perf_counter() - self._started - self._paused

    def leave_out(self, since: float) -> None:
        """Take the time since ``since``, a reading of this clock, off it."""
        self._paused += self.seconds() - since


def race(
    model: Path, out: Path, shards: Sequence[Path], *, contestant: str, seconds: float,
    row_tokens: int, anchors: int, held_out: int, weighting: str, block: int, started: float,
) -> None:  # fmt: skip
    """Train for ``seconds`` and write ``out/NAME.json``."""
    clock = Clock(started)
    loaded = backbone(model)
    settings = DrafterSettings(
        block_size=block, num_hidden_layers=5, tap_count=5, mask_token_id=_mask_token(loaded)
    )
    shape = drafter_config(settings, loaded.shape, is_random=False)
    target = Target(loaded, shape.target_layer_ids)
    held = read_shard(shards[0].parent / "held-out.xz")[:held_out]
    corpus = corpus_of([text for path in shards for text in read_shard(path)])
    config = RunConfig(
        run_id="race", output_dir=str(out), steps=1, drafter=settings,
        anchors=AnchorConfig(anchors, anchors), row_tokens=row_tokens, compile=True,
        optimizer=OptimizerSettings(schedule="cosine", warmup_share=0.02, final_share=0.05),
        loss=LossConfig(weighting="dpace" if weighting == "dpace" else "decay"),
    )  # fmt: skip
    log(f"{int(corpus.offsets[-1]):,} tokens; reading features")
    store = FeatureStore(target, corpus)
    log("features read")
    runner = CONTESTANTS[contestant](target, shape, config, store)
    rows = prepared_rows(corpus, config, store, pins=device().type == "cuda")
    points: list[Point] = []
    steps = tokens = 0
    first = now = clock.seconds()
    next_look = 0.0
    while now < seconds:
        if now >= next_look and steps:
            points.append(_look(runner, target, held, clock, steps, tokens))
            # Denser where the curve is steep; a look takes about 3 s of a GPU.
            next_look = now + max(4.0, 0.25 * (now - first))
        prepared = next(rows)
        # The rate is a function of time, the same for all, whoever takes more steps; it starts
        # with the second step, since the first may be minutes of compilation.
        share = (now - first) / max(1e-9, seconds - first)
        number = 1 + round(share * (_RATE_STEPS - 1))
        runner.step(prepared, learning_rate(config.optimizer, number, _RATE_STEPS))
        steps += 1
        tokens += prepared.batch.tokens
        if steps == 1:
            first = now = clock.seconds()
        elif steps % 16 == 0:  # reading the clock waits for the device
            now = clock.seconds()
        if steps in {1, 2, 10}:
            log(f"step {steps} done, loss {runner.loss():.3f}")
    points.append(_look(runner, target, held, clock, steps, tokens))
    rows.close()  # type: ignore[attr-defined]  # a generator; its threads end here
    name = contestant if weighting == "decay" else f"{contestant}-{weighting}"
    # The curve and the drafter are kept first: a machine may be taken away while it decodes.
    _write(out / f"{name}.json", {
        "contestant": contestant, "weighting": weighting, "seconds": seconds,
        "corpus_tokens": int(corpus.offsets[-1]), "shape": asdict(shape),
        "config": asdict(config), "versions": _versions(), "points": [asdict(p) for p in points],
    })  # fmt: skip
    export_z_lab(runner.drafter(), out / name)
    finish(model, out / f"{name}.json", shards, held_out=held_out, loaded=loaded)


def finish(
    model: Path, result: Path, shards: Sequence[Path], *, held_out: int,
    loaded: HuggingFaceBackbone | None = None,
) -> None:  # fmt: skip
    """Decode for real with the drafter that a race left beside ``result``, and add what it gave."""
    drafter = read_published(result.with_suffix(""), device=device()).to(torch.bfloat16)
    target = Target(loaded or backbone(model), drafter.config.target_layer_ids)
    held = read_shard(shards[0].parent / "held-out.xz")[:held_out]
    race_ = json.loads(result.read_text(encoding="utf-8"))
    _write(result, race_ | {"final": _final(target, drafter, held)})


def _write(path: Path, result: dict[str, object]) -> None:
    path.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


def _look(
    runner: Contestant, target: Target, held: Sequence[Text], clock: Clock, steps: int,
    tokens: int,
) -> Point:  # fmt: skip
    since = clock.seconds()
    drafter = runner.drafter()
    # Long greedy answers loop, and loops are easy to draft: only their beginning counts.
    rounds = [
        replay(target, drafter, text.ids[: text.prompt + _FINAL_TOKENS], prompt=text.prompt)
        for text in held
    ]
    found = acceptance(rounds, drafter.config.block_size)
    point = Point(
        round(since, 2), steps, tokens, round(runner.loss(), 4),
        round(found.length_by_request, 4), round(found.length_by_round, 4),
    )  # fmt: skip
    log(f"{point}")
    clock.leave_out(since)
    return point


def _final(target: Target, drafter: Drafter, held: Sequence[Text]) -> dict[str, object]:
    """Real decoding, greedy and at T=1, with and without drafting, a prompt at a time."""
    result: dict[str, object] = {}
    for name, sampling in (("greedy", Sampling()), ("t1", Sampling(temperature=1.0))):
        rounds: list[tuple[Round, ...]] = []
        rates: dict[str, float] = {}
        for way, draft in (("drafted", drafter), ("plain", None)):
            count = spent = 0.0
            for seed, text in enumerate(held[:_FINAL_PROMPTS]):
                asked = text.ids[: text.prompt]
                room = min(_FINAL_TOKENS, len(text.ids) - text.prompt)
                decoded = decode(
                    target, draft, asked, new_tokens=room, sampling=sampling, seed=seed
                )
                count += len(decoded.tokens) - 1
                spent += decoded.seconds
                if draft is not None:
                    rounds.append(decoded.rounds)
            rates[way] = count / spent
        found = acceptance(rounds, drafter.config.block_size)
        result[name] = {
            **asdict(found),
            "tokens_per_s": rates["drafted"],
            "tokens_per_s_plain": rates["plain"],
            "speedup": rates["drafted"] / rates["plain"],
        }
        log(f"{name}: length {found.length_by_request:.3f}, {rates}")
    return result


def report(results: Sequence[Path], *, plot_to: Path | None) -> None:
    """Markdown tables of finished races, and when each reached what another ended with."""
    races = [json.loads(path.read_text(encoding="utf-8")) for path in results]
    if plot_to is not None:
        lines = [
            Line(_name(r), tuple((p["seconds"], p["length_by_round"]) for p in r["points"]))
            for r in races
        ]
        plot_to.write_text(plot(lines), encoding="utf-8")
    print("| trainer | steps | tokens | first point s | length greedy | T=1 | speed-up greedy |")
    print("|---|---|---|---|---|---|---|")
    for each in races:
        last, final = each["points"][-1], each["final"]
        print(
            f"| {each['contestant']} {each['weighting']} | {last['steps']:,} | {last['tokens']:,}"
            f" | {each['points'][0]['seconds']:.1f} | {final['greedy']['length_by_request']:.3f}"
            f" | {final['t1']['length_by_request']:.3f} | {final['greedy']['speedup']:.2f} |"
        )
    print("\n| to the length that ... ended with | " + " | ".join(_name(r) for r in races) + " |")
    print("|---|" + "---|" * len(races))
    for goal in races:
        bar = goal["points"][-1]["length_by_round"]
        reached = [
            next((f"{p['seconds']:.0f} s" for p in r["points"] if p["length_by_round"] >= bar), "-")
            for r in races
        ]
        print(f"| {_name(goal)}: {bar:.3f} | " + " | ".join(reached) + " |")


def _name(race_: dict[str, object]) -> str:
    return f"{race_['contestant']} {race_['weighting']}"


def _versions() -> dict[str, str]:
    found = {"python": platform.python_version(), "torch": str(torch.__version__)}
    for name in ("transformers", "triton", "speculators"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "absent"
    if torch.cuda.is_available():
        found["gpu"] = torch.cuda.get_device_name()
    return found


def _stop(loaded: HuggingFaceBackbone) -> int:
    stop = loaded.model.config.eos_token_id
    return int(stop[0] if isinstance(stop, list) else stop)


def _mask_token(loaded: HuggingFaceBackbone) -> int:
    """SmolLM2's ``<empty_output>``: reserved, and never in a conversation."""
    del loaded
    return 16


def _arguments(given: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    one = commands.add_parser("prepare")
    for name in ("conversations", "model", "out"):
        one.add_argument(name, type=Path)
    one.add_argument("--longest", type=int, default=256)
    one = commands.add_parser("regenerate")
    for name in ("model", "prompts", "out"):
        one.add_argument(name, type=Path)
    one.add_argument("--tokens", type=int, default=10_000_000)
    one.add_argument("--texts", type=int, default=2048)
    one.add_argument("--length", type=int, default=704)
    one.add_argument("--held-out", type=int, default=128)
    one = commands.add_parser("race")
    one.add_argument("model", type=Path)
    one.add_argument("out", type=Path)
    one.add_argument("shards", type=Path, nargs="+")
    one.add_argument("--contestant", choices=sorted(CONTESTANTS), required=True)
    one.add_argument("--seconds", type=float, default=300)
    one.add_argument("--row-tokens", type=int, default=8192)
    one.add_argument("--anchors", type=int, default=512)
    one.add_argument("--held-out", type=int, default=64)
    one.add_argument("--block", type=int, default=16)
    one.add_argument("--weighting", choices=("decay", "dpace"), default="decay")
    one = commands.add_parser("finish")
    for name in ("model", "result"):
        one.add_argument(name, type=Path)
    one.add_argument("shards", type=Path, nargs="+")
    one.add_argument("--held-out", type=int, default=64)
    one = commands.add_parser("report")
    one.add_argument("results", type=Path, nargs="+")
    one.add_argument("--plot-to", type=Path, help="an SVG file")
    return parser.parse_args(given)


def main(given: Sequence[str], *, started: float = STARTED) -> None:
    """Run one command; a race's seconds count from ``started``."""
    options = vars(_arguments(given))
    match options.pop("command"):
        case "prepare":
            prepare(**options)
        case "regenerate":
            regenerate(**options)
        case "race":
            race(**options, started=started)
        case "finish":
            finish(**options)
        case _:
            report(**options)


if __name__ == "__main__":
    main(sys.argv[1:])
