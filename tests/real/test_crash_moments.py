"""The controller is killed in the middle of its work; the next one finishes it, once.

A real SIGKILL of a real process, at seeded moments. The job, its box and its container live on.
All twenty-five moments of a seed are run by ``make torture``.
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from agentops.box.box import Box
from tests.support.crash_driver import PHASES, Moment
from tests.support.crashes import ACTS, check_crash

pytestmark = [pytest.mark.needs("sshd", "root-namespaces"), pytest.mark.timeout(900)]
# One moment for each phase, each of another act; the probe stands before any act.
MOMENTS = (
    Moment("before_intent", *ACTS[3], delay_ms=0),
    Moment("intent_durable", *ACTS[0], delay_ms=0),
    Moment("under_way", *ACTS[2], delay_ms=20),
    Moment("answered", *ACTS[1], delay_ms=0),
    Moment("outcome_durable", "list_processes", 1, delay_ms=0),
)


@pytest.fixture(scope="module")
def box() -> Iterator[Box]:
    """One box; each crash has a container of its own."""
    with Box(containers=()) as opened:
        yield opened


def test_the_moments_cover_every_phase() -> None:
    assert {moment.phase for moment in MOMENTS} == set(PHASES)


def test_a_killed_controller_loses_nothing_and_repeats_nothing(box: Box, tmp_path: Path) -> None:
    """Two crashes at once, each with its own journal, job and container: they mostly wait."""

    def crash(number: int) -> None:
        folder = tmp_path / str(number)
        folder.mkdir()
        check_crash(box, folder, str(200 + number), MOMENTS[number])

    for number in range(len(MOMENTS)):
        box.start_container(str(200 + number))
    with ThreadPoolExecutor(2) as pool:
        for done in [pool.submit(crash, number) for number in range(len(MOMENTS))]:
            done.result()
