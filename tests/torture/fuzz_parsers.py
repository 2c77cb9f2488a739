"""Coverage-guided fuzzing of all that reads a host's bytes (atheris).

    python tests/torture/fuzz_parsers.py [-max_total_time=600] [CORPUS]

The targets stand in ``tests.support.parser_targets``. Without atheris they are driven by mutations
of the seeds, for as many seconds.
"""

import importlib.util
import random
import shutil
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.support.parser_targets import ParserTargets

SECONDS_DEFAULT = 600.0


def without_atheris(targets: "ParserTargets", seconds: float) -> int:
    """Mutate the seeds for so long; gives the number of inputs."""
    from tests.torture.fuzz_journal import mutated  # noqa: PLC0415 - not under instruments

    chance = random.Random()  # noqa: S311 - fuzzing
    pool = list(targets.seeds())
    last = Path("parser-input-that-failed")
    end = time.monotonic() + seconds
    count = 0
    while time.monotonic() < end:
        data = mutated(chance.choice(pool), chance)
        last.write_bytes(data)
        targets.one(data)
        count += 1
    last.unlink(missing_ok=True)
    return count


def main() -> None:
    """Fuzz with atheris if it is there."""
    if importlib.util.find_spec("atheris") is None:
        from tests.support.parser_targets import ParserTargets, scratch  # noqa: PLC0415 - see below

        asked = [one for one in sys.argv if one.startswith("-max_total_time=")]
        seconds = float(asked[0].partition("=")[2]) if asked else SECONDS_DEFAULT
        folder = scratch()
        count = without_atheris(ParserTargets(folder), seconds)
        print(f"{count} inputs in {seconds:.0f} s, no crash (without atheris)")  # noqa: T201
        shutil.rmtree(folder)
        return
    import atheris  # type: ignore[import-untyped]  # noqa: PLC0415 - optional, untyped

    # What is imported in here is under instruments.
    with atheris.instrument_imports(include=["agentops"]):
        from tests.support.parser_targets import ParserTargets, scratch  # noqa: PLC0415
    targets = ParserTargets(scratch())
    corpus = scratch()
    for number, data in enumerate(targets.seeds()):
        (corpus / f"seed-{number}").write_bytes(data)
    atheris.Setup([*sys.argv, str(corpus)], targets.one)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
