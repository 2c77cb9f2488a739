"""The command line: ``python -m trainer {data,preflight,train,eval,generate,export,plan}``.

Arguments become settings here; errors become one line and an exit status (0 done, 1 the run failed,
2 cannot be used, 3 preflight found a fault, 4 a file cannot be written or read, 5 an alarm). What a
command does is in ``trainer.commands``, imported only when asked for: a run must start fast.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from trainer.errors import TrainerError


def main(arguments: Sequence[str]) -> int:
    """Run one command; gives its exit status."""
    chosen = parser().parse_args(arguments)
    from trainer import commands  # noqa: PLC0415 - torch starts slowly, --help should not

    try:
        status: int = getattr(commands, chosen.function)(chosen)
    except TrainerError as error:
        sys.stderr.write(f"trainer: {error}\n")
        return error.exit_status
    return status


def parser() -> argparse.ArgumentParser:
    """All commands and their arguments; the tests compare the documentation with it."""
    top = argparse.ArgumentParser(prog="trainer", description="Train a DFlash drafter.")
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    _data(commands.add_parser("data", help="prepare conversations, or look at prepared data"))
    preflight = commands.add_parser("preflight", help="prove what training relies on")
    _run(preflight, "preflight")
    train = commands.add_parser("train", help="train, from the newest checkpoint if there is one")
    _run(train, "train")
    train.add_argument(
        "--log",
        choices=("auto", "bar", "lines", "json"),
        default="auto",
        help="form of the logged steps; auto: a bar on a terminal, else lines",
    )
    evaluate = commands.add_parser("eval", help="decode held-out prompts and count")
    _run(evaluate, "evaluate")
    _decoding(evaluate)
    evaluate.add_argument("--prompts", type=int, help="how many held-out prompts")
    generate = commands.add_parser("generate", help="answer prompts with the drafter")
    _run(generate, "generate")
    _decoding(generate)
    generate.add_argument("--prompt", action="append", default=[], help="text of a user's turn")
    generate.add_argument("--prompts-file", type=Path, help="JSON Lines: messages or input_ids")
    generate.add_argument("--plain", action="store_true", help="without drafting")
    generate.add_argument("--output", type=Path, help="write training samples here")
    export = commands.add_parser("export", help="write the drafter as others load it")
    _run(export, "export")
    export.add_argument("--to", choices=("z-lab",), required=True, help="the layout")
    export.add_argument("--output", type=Path, required=True, help="directory to write")
    _checkpoint(export)
    plan = commands.add_parser("plan", help="predict memory and time, pick batch sizes")
    _run(plan, "plan")
    plan.add_argument("--memory-gib", type=float, help="memory to plan for; else the device's")
    plan.add_argument("--tflops", type=float, help="matrix speed to plan for; else measured")
    return top


def _data(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    prepare = actions.add_parser("prepare", help="conversations to a directory for training")
    prepare.set_defaults(function="prepare")
    prepare.add_argument("sources", type=Path, nargs="+", help="JSON Lines files")
    prepare.add_argument("--output", type=Path, required=True, help="directory to write")
    prepare.add_argument("--config", type=Path, help="a run whose target model's tokenizer to use")
    prepare.add_argument("--max-length", type=int, default=2048, help="tokens of a document")
    prepare.add_argument(
        "--template-options",
        type=json.loads,
        default={},
        metavar="JSON",
        help='given to the chat template, as when serving; e.g. {"enable_thinking": false}',
    )
    stats = actions.add_parser("stats", help="shares of each domain; alarm when one dominates")
    stats.set_defaults(function="stats")
    stats.add_argument("directory", type=Path, help="made by 'data prepare'")
    stats.add_argument("--dominance", type=float, default=0.6, help="share that raises the alarm")


def _run(parser: argparse.ArgumentParser, function: str) -> None:
    parser.set_defaults(function=function)
    parser.add_argument("config", type=Path, help="run.json or run.toml")


def _checkpoint(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--checkpoint", default="latest", help="latest, best, or a checkpoint's directory"
    )


def _decoding(parser: argparse.ArgumentParser) -> None:
    _checkpoint(parser)
    parser.add_argument("--new-tokens", type=int, help="most new tokens a prompt")
    parser.add_argument("--temperature", type=float, help="0 is greedy")
    parser.add_argument("--top-p", type=float, default=1.0)
    parser.add_argument("--top-k", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
