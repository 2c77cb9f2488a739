"""What runs in the box: the real trainer under a launcher with a fault, and the innocents.

The launcher is the job's own code; each fault is one that such launchers have. The patch is the
corrected launcher. The trainer itself is not here: it is shipped, and found by PYTHONPATH.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Literal, get_args

from agentops.box.box import Box
from agentops.box.oracle import Oracle, Watched
from agentops.box.processes import Truth
from agentops.box.waiting import wait_for

Fault = Literal[
    "threads-survive-interrupt", "ignores-interrupt", "respawning-wrapper", "hang", "none"
]
FAULTS: tuple[Fault, ...] = get_args(Fault)
LAUNCHER = "train_dflash_pipeline.py"
WRAPPER = "run.sh"
LOG = "train.log"
_READY_TIMEOUT_S = 10.0
_LAUNCHERS: Mapping[Fault, str] = {
    "threads-survive-interrupt": "threads_survive_interrupt.py",
    "ignores-interrupt": "ignores_interrupt.py",
    "respawning-wrapper": "corrected.py",
    "hang": "hang.py",
    "none": "corrected.py",
}


@dataclass(frozen=True, slots=True)
class Workload:
    """A job as its owner runs it: its files by relative path, its argv, and the patch for it.

    argv is for the job's folder as working directory; env is what it needs beside PYTHONPATH.
    """

    fault: Fault
    files: Mapping[str, bytes]
    argv: tuple[str, ...]
    env: Mapping[str, str]
    patch: Mapping[str, bytes]


def workload(fault: Fault, *, python: str) -> Workload:
    """The job with that fault, run by the interpreter *python* (which has torch)."""
    job_files = {LAUNCHER: _file(_LAUNCHERS[fault])}
    if fault == "respawning-wrapper":
        job_files[WRAPPER] = _file("respawning_run.sh")
        return Workload(
            fault=fault,
            files=job_files,
            argv=("sh", WRAPPER),
            env={"PYTHON": python},
            patch={WRAPPER: _file("corrected_run.sh")},
        )
    patch = {} if fault == "none" else {LAUNCHER: _file("corrected.py")}
    argv = (python, "-P", LAUNCHER, "run.json")
    return Workload(fault=fault, files=job_files, argv=argv, env={}, patch=patch)


def install(job: Workload, folder: Path) -> None:
    """Write the job's files, as its owner did before we came."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in job.files.items():
        (folder / name).write_bytes(content)


def start(
    box: Box, job: Workload, folder: Path, *, container: str | None, env: Mapping[str, str]
) -> Truth:
    """Start the job inside, as its owner did; its output goes to ``train.log`` in the folder."""
    return box.start_inside(
        job.argv,
        container=container,
        env={**env, **job.env},
        cwd=folder,
        log=folder / LOG,
    )


def start_innocents(
    box: Box, oracle: Oracle, *, container: str | None, python: str
) -> tuple[Watched, ...]:
    """Start the processes that look like the job and are not, and watch them.

    One is a stale model download whose command line names the job's script; one is a daemon of
    root's, run by Python as well.
    """
    folder = box.directory / "innocents"
    folder.mkdir(exist_ok=True)
    script = (files("agentops.box") / "files" / "snapshot_download.py").read_bytes()
    stages = (
        ("snapshot_download.py", ("Qwen/Qwen3.6-27B", "--for", LAUNCHER)),
        ("networkd-dispatcher", ("--run-startup-triggers",)),
    )
    innocents = []
    for name, words in stages:
        (folder / name).write_bytes(script)
        argv = (python, str(folder / name), str(folder), *words)
        truth = box.start_inside(argv, container=container, log=folder / f"{name}.log")
        stem = Path(name).stem
        ready = folder / f"{stem}.ready"
        wait_for(partial(_exists, ready), _READY_TIMEOUT_S, f"innocent {name}")
        innocents.append(oracle.watch(name, truth, folder / f"{stem}.signals"))
    return tuple(innocents)


def _exists(path: Path) -> bool | None:
    return path.exists() or None


def _file(name: str) -> bytes:
    return (files("agentops.box") / "files" / "launchers" / name).read_bytes()
