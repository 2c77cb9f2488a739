"""Many worlds, a few at a time.

Here: the order of runs and how many go side by side. Each run has a box, a journal and an oracle of
its own, so that they share nothing but the machine. Not here: one run (``agentops.bench.running``).
"""

import signal
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor

from agentops.bench.judging import Run
from agentops.bench.scenario import Written

Runner = Callable[[Written, int], Run]


def run_all(
    scenarios: Sequence[Written],
    seeds: Iterable[int],
    *,
    runner: Runner,
    side_by_side: int,
    on_run: Callable[[Run], None],
) -> tuple[Run, ...]:
    """Every scenario under every seed; on_run hears of each run as it ends, in the order asked.

    Called from the main thread: it sets how interrupts are taken.
    """
    # A shell's background job inherits an ignored SIGINT; the staged jobs must not.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    asked = [(scenario, seed) for seed in seeds for scenario in scenarios]
    done = []
    with ThreadPoolExecutor(max_workers=side_by_side, thread_name_prefix="run") as pool:
        for run in pool.map(lambda pair: runner(*pair), asked):
            done.append(run)
            on_run(run)
    return tuple(done)
