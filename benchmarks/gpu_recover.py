"""A pipeline that hangs on its GPUs: found, stopped, memory released, mended, resumed. By agentops.

    python -m benchmarks.gpu_recover OUT_FOLDER [--device cuda|cpu] [--hidden 1024]

One incident on this machine. The job is the real trainer with its pipeline, targets and drafters on
all GPUs, under a launcher whose storage stops answering after some steps; it holds its memory and
does nothing. ``recover`` does the rest; then the job is stopped again, to show every card at its
baseline. Journal, report and a summary go to OUT_FOLDER. With ``cpu`` the same happens without
cards.
"""

import argparse
import json
import sys
import time
from importlib.resources import files
from pathlib import Path

from agentops.training import trainer_archive
from benchmarks.gpu_stop import TOLERANCE_MIB, Cli, used_mib

LAUNCHER = "train_dflash_pipeline.py"
STALL_AT = 40
POLICY = """
[job.dflash]
role_match = {{ cmd_contains = "{launcher}" }}
gpu = {gpu}
[job.dflash.progress]
heartbeat = "{job}/out/heartbeat.json"
log = "{job}/train.log"
stall_s = 5
watch_s = 4
[job.dflash.stop]
grace = {{ interrupt_s = 8, terminate_s = 6, kill_s = 6 }}
[job.dflash.launch]
argv = {argv}
cwd = "{job}"
log = "{job}/train.log"
env = {env}
start_s = 45
advance_steps = 5
[[job.dflash.repair]]
id = "corrected-launcher"
when = {{ need = "stalled" }}
files = [{{ path = "{job}/{launcher}", source = "patch/{launcher}" }}]
"""


def run_file(job: Path, options: argparse.Namespace) -> dict[str, object]:
    """A drafter for a random target model large enough to be seen on a card."""
    is_cpu = options.device == "cpu"
    layers, heads = (6, 4) if is_cpu else (16, options.hidden // 64)
    return {
        "run_id": "gpu-recover", "output_dir": str(job / "out"), "steps": 1_000_000,
        "device": options.device, "threads": 1 if is_cpu else None, "row_tokens": 512,
        "checkpoint_every": 20, "log_every": 10, "heartbeat_ms": 0, "anchors": {"per_row": 32},
        "target": {
            "kind": "random", "hidden_size": 64 if is_cpu else options.hidden,
            "intermediate_size": 128 if is_cpu else 4 * options.hidden,
            "num_hidden_layers": layers, "num_attention_heads": heads,
            "num_key_value_heads": heads // 2, "head_dim": 16 if is_cpu else 64,
            "vocab_size": 128 if is_cpu else 32_768,
        },
        "drafter": {"block_size": 8, "num_hidden_layers": 2, "tap_count": 3},
        "data": {"kind": "synthetic", "documents": 512, "length": 128},
        "optimizer": {"learning_rate": 0.0006, "schedule": "constant"},
        "pipeline": {"pool_bytes": 1 << (24 if is_cpu else 28), "min_ready": 16,
                     "token_budget": 2048},
    }  # fmt: skip


def stage(cli: Cli, options: argparse.Namespace) -> tuple[Path, tuple[str, ...], dict[str, str]]:
    """The job's folder as its owner left it, and the policy that describes the job."""
    job = cli.folder / "job"
    job.mkdir()
    launchers = files("agentops.box") / "files" / "launchers"
    (job / LAUNCHER).write_bytes((launchers / "hang.py").read_bytes())
    (cli.folder / "patch").mkdir()
    (cli.folder / "patch" / LAUNCHER).write_bytes((launchers / "corrected.py").read_bytes())
    (job / "run.json").write_text(json.dumps(run_file(job, options), indent=1))
    for name, content in trainer_archive().files.items():
        (job / "archive" / name).parent.mkdir(parents=True, exist_ok=True)
        (job / "archive" / name).write_bytes(content)
    argv = (sys.executable, "-P", LAUNCHER, "run.json")
    env = {
        "PYTHONPATH": str(job / "archive"),
        "PYTHONUNBUFFERED": "1",
        "STALL_AT_STEP": str(STALL_AT),
    }
    table = ", ".join(f'{key} = "{value}"' for key, value in env.items())
    with (cli.folder / "policy.toml").open("a") as policy:
        policy.write(
            POLICY.format(
                launcher=LAUNCHER, job=job, argv=json.dumps(argv), env=f"{{ {table} }}",
                gpu=str(options.device == "cuda").lower(),
            )
        )  # fmt: skip
    return job, argv, env


def wait_for_step(cli: Cli, incident: str, job: Path, step: int) -> None:
    """Wait until the job has trained so far."""
    deadline = time.monotonic() + 120
    condition = {
        "kind": "heartbeat_step", "path": str(job / "out/heartbeat.json"), "at_least_step": step,
    }  # fmt: skip
    while not cli.do(
        "wait_until", incident, condition=condition, timeout_ms=40_000, poll_ms=100
    )["met"]:  # fmt: skip
        if time.monotonic() > deadline:
            log = (job / "train.log").read_text() if (job / "train.log").exists() else "no log"
            raise SystemExit(log[-3000:])


def main() -> None:
    """See the module's docstring."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--hidden", type=int, default=1024)
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    cli = Cli(options.folder.resolve())
    cli.run("init")
    cli.run("hosts", "add", "gpu", "--local", "--tier", "dev")
    summary = tell(cli, options, *stage(cli, options))
    summary["verify"] = cli.run("verify").splitlines()
    summary["replay"] = cli.run("replay").splitlines()
    (options.folder / "summary.json").write_text(json.dumps(summary, indent=1) + "\n")
    print(json.dumps(summary, indent=1)[:6000])


def tell(
    cli: Cli, options: argparse.Namespace, job: Path, argv: tuple[str, ...], env: dict[str, str]
) -> dict[str, object]:
    """The whole story; what was seen at each of its stations."""
    title = "the pipeline must go on training"
    said = cli.run("incident", "open", title, "--job", "dflash", "--json")
    incident = json.loads(said)["incident"]
    summary: dict[str, object] = {"incident": incident, "stall_at_step": STALL_AT}
    beat = str(job / "out/heartbeat.json")

    def cards(name: str) -> list[int]:
        if options.device == "cpu":
            return []
        used = used_mib(cli.do("gpu_status", incident))
        summary[f"{name}_mib"] = used
        summary[f"{name}_owners"] = cli.do("gpu_processes", incident)["processes"]
        return used

    limits = [mib + TOLERANCE_MIB for mib in cards("baseline")]
    summary["first"] = cli.do(
        "launch", incident, argv=list(argv), cwd=str(job), log=str(job / "train.log"),
        launch_id="first-start", env=env,
    )  # fmt: skip
    wait_for_step(cli, incident, job, STALL_AT - 5)
    cards("hung")
    start = time.monotonic()
    said = cli.run("recover", "dflash", "--host", "gpu", "--incident", incident, "--json")
    summary |= {
        "recovered": json.loads(said),
        "recovered_s": round(time.monotonic() - start, 1),
        "heartbeat": cli.do("read_heartbeat", incident, path=beat),
    }
    cards("resumed")
    for kind in ("md", "html"):
        path = str(cli.folder / f"recovered.{kind}")
        cli.run("report", incident, "--format", kind, "--output", path)
    stopped = cli.run("recover", "dflash", "--host", "gpu", "--stop", "--json")
    summary["stopped"] = json.loads(stopped)
    if limits:
        condition = {"kind": "gpu_memory_at_most", "limits_mib": limits}
        summary["released"] = cli.do(
            "wait_until", incident, condition=condition, timeout_ms=45_000, poll_ms=100
        )
    cards("end")
    return summary


if __name__ == "__main__":
    main()
