"""How soon the simulation turns red when the product is broken on purpose.

A copy of the last commit is made for each break, one or two lines in it are changed, and whole
seeds are run from 0 on until an oracle objects or something raises. Run in the repository's root as

    python benchmarks/simulation_breaks.py OUT.json [--seeds N] [NAME…]
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

_RUN = """
import json, sys
from importlib.resources import files
from agentops.bench.drawing import simulated_config
from agentops.bench.whole import simulate_whole
from agentops.policy import parse_policy
text = (files("agentops.policy") / "files" / "dev.toml").read_text(encoding="utf-8")
config = simulated_config(parse_policy(text, "dev.toml"))
for seed in range(int(sys.argv[1])):
    try:
        found = simulate_whole(seed, config).findings
    except Exception as error:
        found = (f"raised {type(error).__name__}: {error}"[:200],)
    if found:
        print(json.dumps([seed, found]))
        break
"""


@dataclass(frozen=True, slots=True)
class Break:
    """One break: its name, what it means, and the text that is replaced, by file."""

    name: str
    meaning: str
    changes: tuple[tuple[str, str, str], ...]


BREAKS = (
    Break(
        "stale-identity",
        "any listing, however old, counts as fresh and as newer than the last act",
        (
            (
                "agentops/policy/view.py",
                "self.table.complete and self.table.order > order",
                "self.table.complete",
            ),
            (
                "agentops/policy/view.py",
                "and self.now_us - self.table.at_us <= within_s * SECOND_US",
                "",
            ),
        ),
    ),
    Break(
        "pid-alone",
        "the host signals by pid, whoever has it now (in the simulated host)",
        (
            (
                "agentops/bench/answers.py",
                'if not same or process.start_ticks != start:\n        return _refused("identity',
                'if not (same or process):\n        return _refused("identity',
            ),
        ),
    ),
    Break(
        "act-before-durable",
        "append returns before its lines are on stable storage",
        (
            (
                "journal/writer.py",
                "        segment.wait_durable(upto)\n        if full",
                "        if full",
            ),
        ),
    ),
    Break(
        "act-before-intent",
        "the request leaves first, and its intent is written when the answer is there",
        (
            (
                "agentops/executor.py",
                "            before, given_up = await self._append_whole(\n",
                (
                    "            await self._connect(host).run(\n"
                    "                Request(command.argv(), b'', 1_000, self._draw()),\n"
                    "                _Streams(self._journal.capture(), self._journal.capture()),\n"
                    "            )\n"
                    "            before, given_up = await self._append_whole(\n"
                ),
            ),
        ),
    ),
    Break(
        "answer-lost-is-no",
        "an act that ended without its answer did nothing",
        (
            (
                "agentops/policy/ledger.py",
                "        return self.status in MAYBE or not answered\n",
                "        return self.status in MAYBE\n",
            ),
        ),
    ),
    Break(
        "one-look",
        "one listing without members proves that the job has stopped",
        (
            (
                "agentops/policy/stopping.py",
                "    again = _second_look(view, table, first)\n",
                "    again = None\n",
            ),
        ),
    ),
    Break(
        "silence-is-absence",
        "an answer without its last line is taken as whole",
        (
            (
                "agentops/commands/script.py",
                'return Malformed("the last line of the answer is missing")',
                "return rows",
            ),
            (
                "agentops/commands/script.py",
                'return Malformed("a line of the answer is not JSON", number)',
                "return rows",
            ),
            (
                "agentops/policy/processes.py",
                'about.get("complete") is True and about.get("rows") == len(rows)',
                'about.get("complete") is True',
            ),
        ),
    ),
    Break(
        "lost-is-unsent",
        "a connection that broke after the request counts as one that was never made",
        (
            (
                "agentops/executor.py",
                "        case NotSent():\n",
                "        case NotSent() | Lost():\n",
            ),
            ("agentops/executor.py", "        case Lost():\n", "        case int():\n"),
        ),
    ),
    Break(
        "no-grace",
        "the next rung comes at once, and no guard holds it back",
        (
            (
                "agentops/policy/ladder.py",
                "return _patience(view, rung).seconds * SECOND_US",
                "return 0",
            ),
        ),
    ),
    Break(
        "doubt-forgotten",
        "an opener does not mark what a dead writer left in doubt",
        (
            (
                "journal/recovery.py",
                "    if repair is None and not in_doubt:\n        return []\n",
                "    return []\n",
            ),
        ),
    ),
    Break(
        "hole-kept",
        "zeros within a line, which a power cut left, are not looked for",
        (
            (
                "journal/streams.py",
                '    if b"\\x00" in stored.line:\n        said',
                '    if b"\\x00" in b"":\n        said',
            ),
        ),
    ),
    Break(
        "wall-clock",
        "the engine's time is the wall clock, jumps and all",
        (
            (
                "agentops/policy/reckoning.py",
                "return passed if abs(passed) > JUMP_US else 0",
                "return 0",
            ),
        ),
    ),
)


def broken(one: Break, folder: Path) -> None:
    """Lay a copy of the last commit in *folder* and break it there.

    Raises:
        SystemExit: the text to replace is not there exactly once.
    """
    archive = subprocess.run(["git", "archive", "HEAD"], capture_output=True, check=True)
    subprocess.run(["tar", "x", "-C", str(folder)], input=archive.stdout, check=True)
    for name, old, new in one.changes:
        path = folder / name
        text = path.read_text(encoding="utf-8")
        if text.count(old) != 1:
            raise SystemExit(f"{one.name}: {name} holds {old!r} {text.count(old)} times, not once")
        path.write_text(text.replace(old, new), encoding="utf-8")


def first_red(one: Break, seeds: int) -> dict[str, object]:
    """The first red seed of a break, and what was found; seed is None where all are green."""
    with tempfile.TemporaryDirectory(prefix="agentops-broken-") as place:
        broken(one, Path(place))
        ran = subprocess.run(
            [sys.executable, "-P", "-c", _RUN, str(seeds)],
            cwd=place,
            env=os.environ | {"PYTHONPATH": place},
            capture_output=True,
            text=True,
            check=False,
        )
    if ran.returncode != 0:
        raise SystemExit(f"{one.name}: {ran.stderr[-2_000:]}")
    seed, found = json.loads(ran.stdout) if ran.stdout else (None, [])
    return {"meaning": one.meaning, "first_red_seed": seed, "found": found, "seeds_at_most": seeds}


def main() -> None:
    """Run the breaks that are named, or all, and write what became of them."""
    parser = argparse.ArgumentParser(description="How soon does the simulation turn red?")
    parser.add_argument("out", type=Path)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--seeds", type=int, default=400)
    asked = parser.parse_intermixed_args()
    chosen = [one for one in BREAKS if not asked.names or one.name in asked.names]
    results = {one.name: first_red(one, asked.seeds) for one in chosen}
    asked.out.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
