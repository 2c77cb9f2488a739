"""How long deciding takes, how many simulated worlds a second, how fast a log is read.

Prints one JSON object. CPU time is this process's own, so that a busy machine shows in the wall
time only. Run as ``python -P benchmarks/policy.py``.
"""

import json
import platform
import time
from collections.abc import Callable
from dataclasses import replace
from importlib.resources import files

from agentops.bench.drawing import simulated_config
from agentops.bench.simulate import Loop, simulate
from agentops.diagnosis import diagnose
from agentops.policy import PolicyConfig, PolicyState, Run, decide, parse_policy
from agentops.policy.facts import Fact
from agentops.policy.process import Process
from agentops.policy.processes import TABLE

FACTS = 1_000
REPEATS = 50
SEEDS = 40
LINES = 200_000


def main() -> None:
    """Measure and print."""
    text = (files("agentops.policy") / "files" / "dev.toml").read_text(encoding="utf-8")
    config = simulated_config(parse_policy(text, "dev.toml"))
    state, now_us = widened(*acting_state(config))
    decide_ms = timed(lambda: decide(state, config, now_us), REPEATS)
    log = [b"2026-11-30 10:00:00,123 INFO [rank0]: step=%d loss=3.4567\n" % n for n in range(LINES)]
    chunks = [b"".join(log[at : at + 10_000]) for at in range(0, LINES, 10_000)]
    size_mb = sum(map(len, chunks)) / 1e6
    read_s = timed(lambda: diagnose(chunks), 3)["best_cpu_ms"] / 1_000
    began = time.process_time()
    decisions = sum(simulate(seed, config).decisions for seed in range(SEEDS))
    spent_s = time.process_time() - began
    print(
        json.dumps(
            {
                "machine": platform.processor() or platform.machine(),
                "python": platform.python_version(),
                "facts": len(state.facts),
                "decide": decide_ms,
                "simulated_seeds_per_cpu_s": round(SEEDS / spent_s, 1),
                "simulated_decisions_per_cpu_s": round(decisions / spent_s),
                "diagnose_mb_per_cpu_s": round(size_mb / read_s, 1),
            },
            indent=1,
        )
    )


def timed(work: Callable[[], object], repeats: int) -> dict[str, float]:
    """Milliseconds of *work*: best CPU time, median and best wall time."""
    wall: list[float] = []
    cpu: list[float] = []
    for _ in range(repeats):
        began, began_cpu = time.perf_counter(), time.process_time()
        work()
        wall.append((time.perf_counter() - began) * 1e3)
        cpu.append((time.process_time() - began_cpu) * 1e3)
    wall.sort()
    return {
        "best_cpu_ms": round(min(cpu), 3),
        "median_ms": round(wall[len(wall) // 2], 3),
        "best_ms": round(wall[0], 3),
    }


def acting_state(config: PolicyConfig) -> tuple[PolicyState, int]:
    """The first state of seed 3 on which a signal is decided."""
    run = Loop(3, config)
    run.begin()
    while True:
        state, now_us = run.state, run.now_us()
        run.step()
        action = run.decisions[-1].action
        if isinstance(action, Run) and action.purpose == "signal":
            return state, now_us


def widened(state: PolicyState, now_us: int) -> tuple[PolicyState, int]:
    """The state among so many strangers' processes that it holds ``FACTS`` facts."""
    row = next(fact for fact in state.facts.values() if isinstance(fact.value, Process))
    table = state.facts[TABLE]
    more: list[Fact] = []
    for number in range(FACTS - len(state.facts)):
        pid = 10_000 + number
        assert isinstance(row.value, Process)
        stranger = replace(
            row.value,
            pid=pid,
            ppid=1,
            sid=pid,
            start_ticks=5 + number,
            launch_id=None,
            cmdline=("python3", f"job{number}.py"),
            command_line=f"python3 job{number}.py",
        )
        more.append(replace(row, subject=f"process:{pid}:{5 + number}", value=stranger))
    assert isinstance(table.value, dict)
    listed = sum(isinstance(fact.value, Process) for fact in state.facts.values())
    about = {**table.value, "rows": len(more) + listed}
    more.append(replace(table, value=about))
    return replace(state, facts=state.facts.with_facts(more)), now_us


if __name__ == "__main__":
    main()
