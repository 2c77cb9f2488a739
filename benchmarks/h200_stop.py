"""Stop a real CUDA trainer that holds 42 GiB, and wait until the driver gives the memory back.

Run on a machine with an NVIDIA GPU: ``python benchmarks/h200_stop.py OUTPUT_FOLDER [cuda|cpu]``;
``cpu`` is a rehearsal with whatever nvidia-smi is on the PATH, and holds nothing. It stages a trap
box on this machine, starts the bundled trainer on the GPU under the launcher that survives its
first interrupt, lets the engine stop it, waits for the memory by polling on the host, then lets the
engine start it again. Journal and reports are left in OUTPUT_FOLDER.
"""

import asyncio
import shutil
import sys
from dataclasses import replace
from importlib.resources import files
from pathlib import Path

from agentops.box import Box
from agentops.box.oracle import Oracle
from agentops.box.workloads import Workload, start_innocents, workload
from agentops.cli.account import Account
from agentops.cli.printing import console
from agentops.commands import Command, Observation
from agentops.commands.gpu import GpuProcesses, GpuStatus, GpuStatusSeen
from agentops.commands.waiting import WaitUntil
from agentops.demo import CONTAINER, JOB, Stage
from agentops.executor import Executor
from agentops.policy import PolicyState
from agentops.policy.ledger import Terms as StateTerms
from agentops.recover import Terms, engine_for, recover
from agentops.transport import open_transport
from journal import Actor, Journal, KeyStore, SystemClock, verify
from reports import build_report, render_html, render_markdown

HOLD_GIB = 42
TOLERANCE_MIB = 512
_HOLD = f"""\
import torch
HELD = torch.empty({HOLD_GIB} << 30, dtype=torch.uint8, device="cuda").fill_(1)
"""


def holding(job: Workload) -> Workload:
    """The same job, that also holds GPU memory from its start, before and after the patch."""

    def hold(name: str, content: bytes) -> bytes:
        if not name.endswith(".py"):
            return content
        docstring, _, rest = content.decode().partition('"""\n')
        return f'{docstring}"""\n{_HOLD}{rest}'.encode()

    return replace(
        job,
        files={name: hold(name, content) for name, content in job.files.items()},
        patch={name: hold(name, content) for name, content in job.patch.items()},
    )


async def run(output: Path, device: str, box: Box, oracle: Oracle, journal: Journal) -> None:
    """The whole story, in order."""
    clock = SystemClock()
    account = Account(console())
    job = workload("threads-survive-interrupt", python=sys.executable)
    stage = Stage.of(holding(job) if device == "cuda" else job, box, device=device)
    shipped = (files("agentops.policy") / "files" / "dev.toml").read_text()
    config, sources = stage.policy(shipped)
    executor = Executor(
        journal, clock=clock, config=config, connect=open_transport, actor=engine_for(journal.actor)
    )

    async def do(command: Command, reason: str) -> Observation:
        state = PolicyState(terms=StateTerms(tier="dev"))
        executed = await executor.execute(command, stage.host, state=state, reason=reason)
        assert executed.observation is not None, executed.outcome
        return executed.observation

    async def settle(goal: Terms) -> None:
        recovery = await recover(
            JOB, stage.host, executor=executor, journal=journal, clock=clock, config=config,
            sources=sources, terms=goal, source="benchmark", on_event=account.tell,
        )  # fmt: skip
        print(f"{goal.goal}: {recovery.resolution}: {recovery.reason}")

    baseline = used(await do(GpuStatus(), "the idle baseline of each card"))
    print(f"baseline {baseline} MiB")
    start_innocents(box, oracle, container=CONTAINER, python=sys.executable)
    await stage.launch(executor)
    print(f"under way, {used(await do(GpuStatus(), 'what the job holds'))} MiB")
    await do(GpuProcesses(), "who holds it")
    await settle(Terms(goal="stop"))
    limits = [card + TOLERANCE_MIB for card in baseline]
    released = await do(
        WaitUntil.model_validate(
            {
                "condition": {"kind": "gpu_memory_at_most", "limits_mib": limits},
                "timeout_ms": 45_000,
                "poll_ms": 100,
            }
        ),
        "the memory must be back before the next start",
    )
    print(f"released: {released.model_dump_json()}")
    print(f"after the stop, {used(await do(GpuStatus(), 'after the stop'))} MiB")
    await settle(Terms())
    print(f"running again, {used(await do(GpuStatus(), 'after the start'))} MiB")
    print(f"innocents touched: {len(oracle.touched())}")
    await executor.close()
    for number, incident in enumerate(journal.reader().incidents(), 1):
        report = build_report(journal.reader(), incident.id)
        (output / f"incident-{number}.md").write_text(render_markdown(report))
        (output / f"incident-{number}.html").write_text(render_html(report))


def used(seen: Observation) -> list[int]:
    """Memory in use per card, MiB; a card without a number stops the run."""
    assert isinstance(seen, GpuStatusSeen)
    assert seen.state == "ok", seen
    assert seen.devices, "nvidia-smi lists no card"
    numbers = []
    for device in seen.devices:
        assert device.memory_used_mib.value is not None, device
        numbers.append(device.memory_used_mib.value)
    return numbers


def main() -> None:
    """Stage, run, verify."""
    output = Path(sys.argv[1])
    device = sys.argv[2] if len(sys.argv) > 2 else "cuda"
    output.mkdir(parents=True, exist_ok=True)
    place = output / "gpu-stop.journal"
    keys = KeyStore(output / "keys")
    journal = Journal.create(
        place,
        clock=SystemClock(),
        actor=Actor("human", "operator@gpu-box"),
        keys=keys,
        anchor=output / "anchors.jsonl",
    )
    with journal, Box() as box, Oracle() as oracle:
        print(box.account)
        # The box's PATH is a plain one; drivers put their tool elsewhere at times.
        tool = shutil.which("nvidia-smi")
        assert tool is not None, "no nvidia-smi on this machine"
        (box.directory / "containers" / CONTAINER / "bin" / "nvidia-smi").symlink_to(tool)
        asyncio.run(run(output, device, box, oracle, journal))
    print(verify(place, keys=keys).status)


if __name__ == "__main__":
    main()
