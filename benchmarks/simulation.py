"""The long run of simulated seeds: in chunks that a cut leaves whole, and what they add up to.

Here: running chunks that nobody has claimed, adding up their counts, and the tables in
``docs/stopbench.md``. Not here: seeds (``agentops.bench.seeds``). Run in the repository's root as

    python benchmarks/simulation.py run FOLDER --from 0 --to 100000
    python benchmarks/simulation.py steps FOLDER --from 0 --to 4
    python benchmarks/simulation.py sum FOLDER

Any number of the first may share a folder; each works in one process. The second writes
``benchmarks/simulated_seeds.json`` and the tables.
"""

import argparse
import gc
import json
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from importlib.resources import files
from multiprocessing import get_context
from pathlib import Path

from agentops.bench.drawing import simulated_config
from agentops.bench.seeds import SeedTally, run_seeds
from agentops.bench.whole import simulate_whole
from agentops.policy import parse_policy

CHUNK = 250
COUNTS = Path("benchmarks/simulated_seeds.json")
BREAKS = Path("benchmarks/simulation_breaks.json")
PAGE = Path("docs/stopbench.md")
NUMBERS = Path("docs/benchmarks.md")
BEGIN, END = "<!-- simulation.py sum, from here -->\n", "<!-- to here -->\n"
BEGIN_ROW = "<!-- simulated seeds, from here -->\n"
BEGIN_BREAKS = "<!-- simulation_breaks.json, from here -->\n"
LINE = ("not sent", "lost before", "lost after", "answer cut", "died before the effect",
        "died after the effect", "clock jumped", "pid reused", "container restarted",
        "host restarted")  # fmt: skip
DISK = ("died while writing", "died before the sync", "died after the sync", "disk full",
        "power cut, end lost", "power cut, holes")  # fmt: skip


def run_chunks(folder: Path, first: int, last: int) -> None:
    """Run each chunk that nobody has claimed, and leave its counts under its first seed."""
    folder.mkdir(parents=True, exist_ok=True)
    for seed in range(first, last, CHUNK):
        try:
            (folder / f"{seed}.claimed").mkdir()
        except FileExistsError:
            continue
        chunk = get_context("fork").Process(target=run_chunk, args=(folder, seed, last))
        chunk.start()
        chunk.join()
        if chunk.exitcode != 0:
            raise SystemExit(f"the chunk from seed {seed} on ended with {chunk.exitcode}")


def run_chunk(folder: Path, seed: int, last: int) -> None:
    """Run the chunk that begins with this seed, in a process of its own."""
    # What stays is not walked again, and what a seed leaves goes in heaps: 7 % of the CPU.
    gc.freeze()
    gc.disable()
    rules = (files("agentops.policy") / "files" / "dev.toml").read_text(encoding="utf-8")
    commit = _git("rev-parse", "--short", "HEAD")
    config, tally, began_s = parse_policy(rules, "dev.toml"), SeedTally(), time.process_time()
    for number, run in enumerate(
        run_seeds(config, range(seed, min(seed + CHUNK, last)), side_by_side=1)
    ):
        tally.add(run)
        if run.findings:
            print(f"RED {run.seed} at {commit}: {'; '.join(run.findings)}", file=sys.stderr)
        if number % 50 == 0:
            gc.collect()
    cpu_s = round(time.process_time() - began_s)
    told = {"first": seed, "commit": commit, "cpu_s": cpu_s} | tally.json()
    (folder / f"{seed}.json").write_text(json.dumps(told) + "\n", encoding="utf-8")


def run_steps(folder: Path, first: int, last: int) -> None:
    """For each seed, let the controller die at each of its steps in turn, once a run."""
    rules = (files("agentops.policy") / "files" / "dev.toml").read_text(encoding="utf-8")
    config = simulated_config(parse_policy(rules, "dev.toml"))
    commit = _git("rev-parse", "--short", "HEAD")
    folder.mkdir(parents=True, exist_ok=True)
    for seed in range(first, last):
        tally, began_s = SeedTally(), time.process_time()
        steps = simulate_whole(seed, config, dies_at=0).steps
        for step in range(1, steps + 1):
            run = simulate_whole(seed, config, dies_at=step)
            tally.add(run)
            if run.findings:
                said = "; ".join(run.findings)
                print(f"RED --seed {seed} --dies-at {step}, {commit}: {said}", file=sys.stderr)
        cpu_s = round(time.process_time() - began_s)
        told = {"first": seed, "commit": commit, "cpu_s": cpu_s} | tally.json()
        (folder / f"{seed}.json").write_text(json.dumps(told) + "\n", encoding="utf-8")


def added(folder: Path) -> dict[str, object]:
    """All chunks of a folder as one, with the seeds that each commit ran."""
    whole: dict[str, object] = {}
    commits: dict[str, int] = {}
    ranges: list[tuple[int, int]] = []
    for path in sorted(folder.glob("*.json"), key=lambda path: int(path.name.partition(".")[0])):
        chunk = json.loads(path.read_text(encoding="utf-8"))
        first, commit = chunk.pop("first"), chunk.pop("commit")
        commits[commit] = commits.get(commit, 0) + chunk["seeds"]
        ranges.append((first, first + chunk["seeds"]))
        whole = _sum(whole, chunk)
    return {"ranges": list(_joined(ranges)), "commits": commits} | whole


def _joined(ranges: list[tuple[int, int]]) -> Iterator[list[int]]:
    """Ranges of seeds, first and last, with neighbours as one."""
    begin, end = ranges[0]
    for first, after in ranges[1:]:
        if first > end:
            yield [begin, end - 1]
            begin = first
        end = after
    yield [begin, end - 1]


def _sum(one: Mapping[str, object], other: Mapping[str, object]) -> dict[str, object]:
    """Counts added key by key, lists one after the other."""
    whole: dict[str, object] = dict(one)
    for key, value in other.items():
        known = whole.get(key)
        if isinstance(value, int):
            whole[key] = value + (known if isinstance(known, int) else 0)
        elif isinstance(value, list):
            whole[key] = [*(known if isinstance(known, list) else []), *value]
        elif isinstance(value, dict):
            whole[key] = _sum(known if isinstance(known, dict) else {}, value)
    return {key: whole[key] for key in sorted(whole)}


def tables(counts: Mapping[str, object]) -> str:
    """The counts as the page shows them."""
    whole = _mapping(counts["whole"])
    commits = ", ".join(f"{name} ({n:,})" for name, n in _mapping(whole["commits"]).items())
    ranges = whole["ranges"]
    spans = ", ".join(f"{a:,} to {b:,}" for a, b in (ranges if isinstance(ranges, list) else []))
    red = whole["red"]
    ended = ", ".join(f"{name} {n:,}" for name, n in _mapping(whole["resolutions"]).items())
    rows = [
        ("seeds", f"{whole['seeds']:,} ({spans})"),
        ("at commit (seeds)", commits),
        ("red", str(len(red) if isinstance(red, list) else red)),
        ("false kills, false greens", f"{whole['false_kills']}, {whole['false_greens']}"),
        ("ended as", ended),
        ("decisions", f"{whole['decisions']:,}"),
        ("commands carried out", f"{sum(_numbers(whole['acts'])):,}"),
        ("of them signals", f"{_mapping(whole['acts']).get('signal_process', 0):,}"),
        ("controllers died", f"{whole['controller_deaths']:,}"),
        ("faults of all kinds", f"{sum(_numbers(whole['faults'])):,}"),
        ("CPU s", f"{whole['cpu_s']:,}"),
    ]
    told = "".join(f"| {name} | {value} |\n" for name, value in rows)
    by_step = {step: _mapping(by) for step, by in _mapping(whole["faults_by_step"]).items()}
    return (
        f"| {counts['date']} | |\n|---|---|\n{told}\n{_every_step(counts)}"
        "Which fault struck which command on its way:\n\n"
        f"{_table(by_step, LINE)}\n"
        "Which fault of the controller or its disk struck what was being written:\n\n"
        f"{_table(by_step, DISK)}"
    )


def _every_step(counts: Mapping[str, object]) -> str:
    """What came of dying at each single step; empty where that was not run."""
    if "every_step" not in counts:
        return ""
    steps = _mapping(counts["every_step"])
    red = steps["red"]
    return (
        f"A death at each single step of some seeds in turn: {steps['seeds']:,} runs, "
        f"{len(red) if isinstance(red, list) else red} red, "
        f"at commit {', '.join(_mapping(steps['commits']))}.\n\n"
    )


def broken_table(breaks: Mapping[str, object]) -> str:
    """The product's breaks on purpose, each with the seed that showed it."""
    rows = [("what is broken", "first red seed", "what was found")]
    for told in map(_mapping, breaks.values()):
        found = told["found"]
        first = str(found[0]) if isinstance(found, list) and found else ""
        seed = told["first_red_seed"]
        none = f"none of {told['seeds_at_most']}"
        rows.append((str(told["meaning"]), none if seed is None else str(seed), first[:120]))
    head, *rest = (f"| {' | '.join(row)} |\n" for row in rows)
    return f"{head}|---|---|---|\n{''.join(rest)}"


def _table(by_step: Mapping[str, Mapping[str, object]], faults: tuple[str, ...]) -> str:
    lines = [f"| | {' | '.join(faults)} |", f"|---|{'---|' * len(faults)}"]
    for step, by in by_step.items():
        if set(by) & set(faults):
            lines.append(f"| {step} | {' | '.join(str(by.get(f, 0)) for f in faults)} |")
    return "".join(line + "\n" for line in lines)


def _mapping(value: object) -> Mapping[str, object]:
    return value if isinstance(value, dict) else {}


def _numbers(value: object) -> list[int]:
    return [number for number in _mapping(value).values() if isinstance(number, int)]


def summary(counts: Mapping[str, object], breaks: Mapping[str, object]) -> str:
    """The counts in one row for the page of all numbers."""
    whole, steps = _mapping(counts["whole"]), _mapping(counts.get("every_step", {}))
    red = [len(r) if isinstance(r := part.get("red"), list) else 0 for part in (whole, steps)]
    firsts = [_mapping(told)["first_red_seed"] for told in breaks.values()]
    shown = [seed for seed in firsts if isinstance(seed, int)]
    cells = (
        str(counts["date"]),
        ", ".join(_mapping(whole["commits"])),
        f"{whole['seeds']:,}",
        str(red[0]),
        f"{whole['false_kills']}, {whole['false_greens']}",
        f"{steps.get('seeds', 0):,}, {red[1]} red",
        f"{len(shown)} of {len(firsts)}, the last at seed {max(shown, default=0):,}",
    )
    return (
        "| date | commits | whole seeds | red | false kills, false greens "
        "| deaths at each step of a seed | breaks on purpose that are seen |\n"
        f"|---|---|---|---|---|---|---|\n| {' | '.join(cells)} |\n"
    )


def with_tables(page: str, tables_by_mark: Mapping[str, str]) -> str:
    """The page with what stands behind each of its marks made anew."""
    for begin, table in tables_by_mark.items():
        before, mark, rest = page.partition(begin)
        if mark:
            _, _, after = rest.partition(END)
            page = f"{before}{begin}{table}{END}{after}"
    return page


def made(counts: Mapping[str, object], breaks: Mapping[str, object]) -> Mapping[str, str]:
    """All tables by the marks before them."""
    return {
        BEGIN: tables(counts),
        BEGIN_BREAKS: broken_table(breaks),
        BEGIN_ROW: summary(counts, breaks),
    }


def _git(*words: str) -> str:
    return subprocess.run(
        ["git", *words], capture_output=True, check=True, text=True
    ).stdout.strip()


def main() -> None:
    """Run, or add up."""
    parser = argparse.ArgumentParser(description="The long run of simulated seeds.")
    parser.add_argument("verb", choices=("run", "steps", "sum"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--from", dest="first", type=int, default=0)
    parser.add_argument("--steps", type=Path, help="sum: the folder that `steps` wrote")
    parser.add_argument("--to", dest="last", type=int, default=100_000)
    asked = parser.parse_args()
    if asked.verb == "run":
        run_chunks(asked.folder, asked.first, asked.last)
        return
    if asked.verb == "steps":
        run_steps(asked.folder, asked.first, asked.last)
        return
    counts = json.loads(COUNTS.read_text(encoding="utf-8"))
    counts |= {"date": time.strftime("%Y-%m-%d"), "whole": added(asked.folder)}
    if asked.steps is not None:
        counts["every_step"] = added(asked.steps)
    COUNTS.write_text(json.dumps(counts, indent=1) + "\n", encoding="utf-8")
    breaks = json.loads(BREAKS.read_text(encoding="utf-8"))
    for page in (PAGE, NUMBERS):
        text = page.read_text(encoding="utf-8")
        page.write_text(with_tables(text, made(counts, breaks)), encoding="utf-8")


if __name__ == "__main__":
    main()
