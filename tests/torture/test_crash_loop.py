"""All drawn moments of a seed: each phase of each act of the loop, one crash after another.

The seed stands in AGENTOPS_TORTURE_SEED, by default 1; each moment is printed before it is run.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentops.box.box import Box
from tests.support.crashes import check_crash, drawn

pytestmark = [
    pytest.mark.needs("sshd", "root-namespaces"),
    pytest.mark.skipif(
        os.environ.get("AGENTOPS_TORTURE") != "1", reason="a long loop; run make torture"
    ),
]
MOMENTS = drawn(int(os.environ.get("AGENTOPS_TORTURE_SEED", "1")))


@pytest.fixture(scope="module")
def box() -> Iterator[Box]:
    """One box; each crash has a container of its own."""
    with Box(containers=()) as opened:
        yield opened


@pytest.mark.parametrize("number", range(len(MOMENTS)))
def test_a_controller_killed_at_any_moment_is_finished_by_the_next(
    box: Box, tmp_path: Path, number: int
) -> None:
    moment = MOMENTS[number]
    print(f"moment {number + 1} of {len(MOMENTS)}: {moment}")  # noqa: T201 - a log to keep
    check_crash(box, tmp_path, str(200 + number), moment)
