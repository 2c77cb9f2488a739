"""The command line: ``python -m trainer {train}``.

Arguments become settings here, errors become one line and an exit status. What a command does is in
the module of its name, imported only when asked for: a run must start fast.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from trainer.errors import TrainerError


def main(arguments: Sequence[str]) -> int:
    """Run one command; gives its exit status."""
    parser = argparse.ArgumentParser(prog="trainer", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    training = commands.add_parser("train", help="train a drafter")
    training.add_argument("config", type=Path, help="run.json or run.toml")
    chosen = parser.parse_args(arguments)
    try:
        return _train(chosen)
    except TrainerError as error:
        sys.stderr.write(f"trainer: {error}\n")
        return error.exit_status


def _train(chosen: argparse.Namespace) -> int:
    from trainer.config import read_config  # noqa: PLC0415 - torch starts slowly
    from trainer.train import train  # noqa: PLC0415

    result = train(read_config(chosen.config))
    return 1 if result.status == "failed" else 0
