"""The demo: the whole loop on a real process, on a trap box of its own.

Here: setting the stage (box, innocents, trainer with a fault) and calling the same ``recover`` that
works on a user's host. Not here: printing (``agentops.cli``), and no knowledge of the outcome: the
engine is fed by typed observations alone, and the innocents' fate is read from outside.
"""

import importlib.util
import json
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from agentops.box import Box
from agentops.box.oracle import Oracle
from agentops.box.workloads import (
    LAUNCHER,
    LOG,
    WRAPPER,
    Fault,
    Workload,
    install,
    start_innocents,
    workload,
)
from agentops.commands import Command
from agentops.commands.deploy import DeployFiles, FileToDeploy
from agentops.commands.launch import Launch
from agentops.commands.waiting import WaitUntil
from agentops.errors import AgentopsError, ConfigError
from agentops.executor import Executor
from agentops.hosts import Host, Layer
from agentops.policy import PolicyConfig, PolicyState, parse_policy
from agentops.policy.ledger import Terms
from agentops.recover import Recovery, Sources, engine_for, read_sources, recover
from agentops.training import trainer_archive
from agentops.transport import open_transport
from journal import Clock, Event, Journal

JOB = "dflash"
CONTAINER = "200"
HOST = "trap-box"
# The fault "hang" strikes at the step after this one; a checkpoint is there by then, so that every
# fault shows a resumption.
_UNDER_WAY_STEP = 4
_CHECKPOINT_EVERY = 3


@dataclass(frozen=True, slots=True)
class DemoEnded:
    """What came of it. innocents_touched is read by the box's oracle, not by the engine."""

    fault: Fault
    recovery: Recovery
    innocents_touched: tuple[str, ...]
    box: str


class StageFailed(AgentopsError):  # noqa: N818 - the stage failed, not an error of its own
    """The demo could not set its stage on this machine; says what was missing."""


async def run_demo(
    fault: Fault,
    box: Box,
    oracle: Oracle,
    *,
    journal: Journal,
    clock: Clock,
    policy_text: str,
    say: Callable[[str], None],
    on_event: Callable[[Event], None],
) -> DemoEnded:
    """Stage *fault* in *box*, then let the engine recover the job.

    Raises:
        StageFailed: the trainer did not get under way.
        journal.JournalError: something could not be made durable.
    """
    stage = Stage.of(workload(fault, python=sys.executable), box)
    config, sources = stage.policy(policy_text)
    executor = Executor(
        journal, clock=clock, config=config, connect=open_transport, actor=engine_for(journal.actor)
    )
    try:
        say(f"The box: {box.account}")
        start_innocents(box, oracle, container=CONTAINER, python=sys.executable)
        say("Beside the job run a stale model download and a root daemon that look like it.")
        say(f"Shipping the trainer and launching it with the fault {fault} …")
        await stage.launch(executor)
        say("The trainer is under way. The engine takes over.")
        recovery = await recover(
            JOB,
            stage.host,
            executor=executor,
            journal=journal,
            clock=clock,
            config=config,
            sources=sources,
            source="demo",
            on_event=on_event,
        )
    finally:
        await executor.close()
    return DemoEnded(fault, recovery, oracle.touched(), box.account)


@dataclass(frozen=True, slots=True)
class Stage:
    """Where the job's files are in the box, and how a user would have described the job."""

    job: Workload
    folder: Path
    host: Host
    device: str = "cpu"

    @classmethod
    def of(cls, job: Workload, box: Box, *, device: str = "cpu") -> "Stage":
        """The stage for *job*; the job's own files are there before we come.

        Raises:
            ConfigError: no torch in this environment.
        """
        if importlib.util.find_spec("torch") is None:
            raise ConfigError(
                "package torch: not installed; the demo trains for real: pip install"
                " 'agentops-journal[trainer]'"
            )
        folder = box.directory / "job"
        install(job, folder)
        host = Host(
            name=HOST,
            **asdict(box.address),
            layers=(Layer(kind="pct", argument=CONTAINER),),
            tier="dev",
        )
        return cls(job, folder, host, device)

    @property
    def output(self) -> Path:
        """The trainer's output folder."""
        return self.folder / "out"

    @property
    def environment(self) -> dict[str, str]:
        """What the job's launch needs beside its own."""
        return {
            **self.job.env,
            "PYTHONPATH": str(self.folder / "archive"),
            "PYTHONUNBUFFERED": "1",
            "OMP_NUM_THREADS": "1",
        }

    def policy(self, shipped: str) -> tuple[PolicyConfig, Sources]:
        """The shipped policy with this job in it, and the patch's contents."""
        table: dict[str, object] = {
            "role_match": {"cmd_contains": LAUNCHER},
            "progress": {
                "heartbeat": str(self.output / "heartbeat.json"),
                "log": str(self.folder / LOG),
                "stall_s": 5,
                "watch_s": 4,
            },
            "stop": {"grace": {"interrupt_s": 8, "terminate_s": 6, "kill_s": 6}},
            "launch": {
                "argv": list(self.job.argv),
                "cwd": str(self.folder),
                "log": str(self.folder / LOG),
                "env": self.environment,
                "start_s": 40,
                "advance_steps": 2,
            },
        }
        if WRAPPER in self.job.files:
            table["supervisor"] = {"cmd_contains": WRAPPER}
        if self.job.patch:
            patch = self.folder.parent / "patch"
            patch.mkdir(exist_ok=True)
            for name, content in self.job.patch.items():
                (patch / name).write_bytes(content)
            table["repair"] = [
                {
                    "id": "corrected-launcher",
                    # A hang is to be found by what the job does, not by what it is made of.
                    "when": {"need": "stalled"} if self.job.fault == "hang" else {"differs": True},
                    "files": [
                        {"path": str(self.folder / name), "source": str(patch / name)}
                        for name in self.job.patch
                    ],
                }
            ]
        parsed = parse_policy(shipped, "dev.toml")
        body = parsed.body() | {"job": {JOB: table}}
        return read_sources(PolicyConfig.model_validate(body), self.folder)

    async def launch(self, executor: Executor) -> None:
        """Ship trainer and run file, start the job, and wait until it trains.

        Raises:
            StageFailed: one of these steps did not come true.
        """
        files = {f"archive/{name}": text for name, text in trainer_archive().files.items()}
        files["run.json"] = json.dumps(self._run(), indent=1).encode()
        await self._do(
            executor,
            DeployFiles(
                files=tuple(
                    FileToDeploy(path=str(self.folder / name), content=text, expects="anything")
                    for name, text in sorted(files.items())
                )
            ),
            "ship the bundled trainer",
        )
        await self._do(
            executor,
            Launch(
                argv=self.job.argv,
                env=self.environment,
                cwd=str(self.folder),
                log=str(self.folder / LOG),
                launch_id="demo-first-start",
            ),
            "start the job with its fault",
        )
        await self._do(
            executor,
            WaitUntil.model_validate(
                {
                    "condition": {
                        "kind": "heartbeat_step",
                        "path": str(self.output / "heartbeat.json"),
                        "at_least_step": _UNDER_WAY_STEP,
                    },
                    "timeout_ms": 40_000,
                    "poll_ms": 100,
                }
            ),
            "let the job get under way",
        )

    async def _do(self, executor: Executor, command: Command, reason: str) -> None:
        state = PolicyState(terms=Terms(tier=self.host.tier))
        executed = await executor.execute(command, self.host, state=state, reason=reason)
        said = executed.observation
        verdicts = ("deployed", "started", "met")
        if said is None or not any(getattr(said, name, False) for name in verdicts):
            told = executed.outcome.payload
            why = getattr(told, "detail", "") or getattr(told, "reason", "") or self._last_words()
            raise StageFailed(f"demo: could not {reason}: {executed.outcome.kind}; {why}")

    def _last_words(self) -> str:
        """The last line of the job's log: it says more than what the host saw of it."""
        log = self.folder / LOG
        lines = log.read_text("utf-8", "replace").split("\n") if log.exists() else []
        return next((line for line in reversed(lines) if line.strip()), "the job's log is empty")

    def _run(self) -> dict[str, object]:
        """``run.json``: a small drafter on a small random target, longer than the demo lasts."""
        return {
            "run_id": "demo",
            "output_dir": str(self.output),
            "steps": 100_000,
            "device": self.device,
            "threads": 1,
            "checkpoint_every": _CHECKPOINT_EVERY,
            "heartbeat_ms": 0,
            "drafter": {"block_size": 4, "target_layer_ids": [1, 2, 3], "num_hidden_layers": 2},
            "data": {"kind": "synthetic", "documents": 256, "length": 64},
            "optimizer": {"learning_rate": 0.003, "schedule": "constant"},
            # Threads for reading, copying, feeding and training: a job like those that get stuck.
            "pipeline": {"pool_bytes": 1 << 23, "min_ready": 8, "token_budget": 1024},
        }
