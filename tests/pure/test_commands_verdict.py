"""What an answer comes to: so, not so, or nothing that could be said."""

import pytest

from agentops.commands import COMMANDS, Completed, Observation
from agentops.commands.gpu import GpuStatusSeen
from agentops.commands.kernel_log import KernelLogSeen
from agentops.commands.launch import Launched
from agentops.commands.waiting import WaitEnded
from tests.support.goldens import GOLDENS, load

WAITED = {"elapsed_ms": 1, "polls": 1, "series": (), "alive": (), "unreaped": ()}
CARDS = {
    "exit_status": None, "text": "", "kernel_devices": None, "devices": (), "mig_devices": (),
    "unified_memory": False, "memory_available_kib": 1, "dropped_fields": (), "stuck_pids": (),
}  # fmt: skip
RING = {"problem": None, "ring_messages": 0, "first_us": None, "now_us": None, "messages": ()}
START = {"identity": None, "detail": "", "pane_id": None, "unit": None}


@pytest.mark.parametrize(
    ("model", "values", "holds"),
    [
        (WaitEnded, WAITED | {"met": True, "blind": None}, True),
        (WaitEnded, WAITED | {"met": False, "blind": None}, False),
        (WaitEnded, WAITED | {"met": False, "blind": "nvidia_smi"}, None),
        (GpuStatusSeen, CARDS | {"state": "ok"}, True),
        (GpuStatusSeen, CARDS | {"state": "no_devices"}, True),
        (GpuStatusSeen, CARDS | {"state": "hung"}, None),
        (GpuStatusSeen, CARDS | {"state": "no_tool"}, None),
        (KernelLogSeen, RING | {"readable": False}, None),
        (KernelLogSeen, RING | {"readable": True}, True),
        (Launched, START | {"started": False, "refusal": "already_running"}, True),
        (Launched, START | {"started": False, "refusal": "not_observed"}, None),
        (Launched, START | {"started": False, "refusal": "no_tmux"}, False),
    ],
)
def test_an_answer_that_says_nothing_is_neither_yes_nor_no(
    model: type[Observation], values: dict[str, object], *, holds: bool | None
) -> None:
    assert model.model_validate(values).holds() is holds


def test_every_recorded_answer_comes_to_something() -> None:
    seen = {}
    for path in GOLDENS:
        command, completed, _ = load(path)
        parsed = command.parse(Completed(completed.exit_status, completed.stdout, b""))
        assert isinstance(parsed, Observation)
        seen[command.name] = parsed.holds()
    assert set(seen) == set(COMMANDS)
    # The program of that golden ended with status 7.
    assert seen["run_argv"] is False
    assert seen["stop_processes"] is True
