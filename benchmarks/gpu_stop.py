"""Stop real processes that hold a GPU's memory, by agentops' own command line, and time it.

    python benchmarks/gpu_stop.py OUT_FOLDER [--gib 64] [--holder torch|none]

Two incidents: a holder that takes the first interrupt, and one that ignores interrupt and
terminate. Each is launched, stopped by the engine with its ladder, and waited for until
the card is back at its recorded
baseline. Journal, reports and a summary go to OUT_FOLDER.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path

AGENTOPS = (sys.executable, "-m", "agentops")
TOLERANCE_MIB = 512
HOLD = """
import json, os, signal, sys, threading, time
name, gib, kind, beat = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4]
if name == "ignores-interrupt":
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
if kind == "torch":
    import torch
    held = [torch.empty(1 << 30, dtype=torch.uint8, device="cuda").fill_(1) for _ in range(gib)]
    torch.cuda.synchronize()
ticks = int(open("/proc/self/stat").read().rsplit(")", 1)[1].split()[19])
step = 0
print("holding", gib, "GiB", flush=True)
try:
    while True:
        step += 1
        row = dict(schema=1, run_id=name, launch_id=os.environ.get("AGENTOPS_LAUNCH_ID"),
                   pid=os.getpid(), start_ticks=ticks, state="training", step=step, steps=10**6,
                   loss="4.0", tokens_per_s="1", sequence=step, checkpoint_step=None,
                   updated_unix_ms=time.time_ns() // 10**6, checkpoint_writing=False,
                   resumed_from_step=None, detail=None)
        open(beat + ".new", "w").write(json.dumps(row))
        os.replace(beat + ".new", beat)
        threading.Event().wait(0.2)
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""
JOB = """
[job.{name}]
role_match = {{ cmd_contains = "{name}" }}
gpu = true
stop = {{ grace = {{ request_s = 2, interrupt_s = 3, terminate_s = 3, kill_s = 5 }} }}
[job.{name}.progress]
heartbeat = "{beat}"
log = "{log}"
"""


class Cli:
    """agentops in one folder, with one journal."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.env = {
            **os.environ,
            "HOME": str(folder / "home"),
            "XDG_CONFIG_HOME": str(folder / "home/config"),
            "XDG_STATE_HOME": str(folder / "home/state"),
            "PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[1]), *sys.path[1:]]),
        }

    def run(self, *words: str) -> str:
        """One call; its standard output. Prints the words and the status."""
        start = time.perf_counter()
        done = subprocess.run(
            [*AGENTOPS, *words],
            cwd=self.folder,
            env=self.env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        took_ms = (time.perf_counter() - start) * 1000
        print(f"$ agentops {' '.join(words)[:150]}  -> {done.returncode}, {took_ms:.0f} ms")
        if done.returncode:
            print(done.stdout[-1500:], done.stderr[-1500:])
        return done.stdout

    def do(self, command: str, incident: str, **arguments: object) -> dict[str, object]:
        """One typed command; its observation."""
        pairs = [
            word
            for key, value in arguments.items()
            for word in ("--arg", f"{key}={value if isinstance(value, str) else json.dumps(value)}")
        ]
        said = self.run("do", command, "--host", "gpu", "--incident", incident, "--json", *pairs)
        answer = json.loads(said)
        if answer["observation"] is None:
            raise SystemExit(f"{command}: {answer}")
        observation: dict[str, object] = answer["observation"]
        return observation


def used_mib(status: dict[str, object]) -> list[int]:
    """Used memory of each card."""
    return [device["memory_used_mib"]["value"] for device in status["devices"]]  # type: ignore[attr-defined] # JSON


def stop_one(cli: Cli, name: str, holder: tuple[str, ...]) -> dict[str, object]:
    """One incident from baseline to baseline."""
    log = cli.folder / f"{name}.log"
    title = f"{name} must give back the GPU"
    said = cli.run("incident", "open", title, "--job", name, "--json")
    incident = json.loads(said)["incident"]
    baseline = used_mib(cli.do("gpu_status", incident))
    job = {
        "argv": list(holder),
        "cwd": str(cli.folder),
        "log": str(log),
        "launch_id": f"holder-{name}",
    }
    launched = cli.do("launch", incident, **job)
    if not launched["started"]:
        raise SystemExit(f"not launched: {launched}")
    identity = launched["identity"]
    deadline = time.monotonic() + 180
    while "holding" not in log.read_text():
        if time.monotonic() > deadline:
            raise SystemExit(log.read_text()[-2000:])
        cli.do("tail_log", incident, path=str(log))
    held = used_mib(cli.do("gpu_status", incident))
    owners = cli.do("gpu_processes", incident)
    inspected = cli.do("inspect_process", incident, pid=identity["pid"])  # type: ignore[index] # JSON
    stopped = json.loads(
        cli.run("recover", name, "--host", "gpu", "--stop", "--incident", incident, "--json")
    )
    limits = [mib + TOLERANCE_MIB for mib in baseline]
    condition = {"kind": "gpu_memory_at_most", "limits_mib": limits}
    waited = cli.do("wait_until", incident, condition=condition, timeout_ms=45000, poll_ms=100)
    after = used_mib(cli.do("gpu_status", incident))
    left = cli.do("gpu_processes", incident)
    cli.do("shared_memory", incident)
    for kind in ("md", "html"):
        path = str(cli.folder / f"{name}.{kind}")
        cli.run("report", incident, "--format", kind, "--output", path)
    return {
        "incident": incident, "baseline_mib": baseline, "held_mib": held, "after_mib": after,
        "owners": owners["processes"], "holders": owners["holders"],
        "gpu_devices_open": inspected["gpu_devices"], "stopped": stopped, "waited": waited,
        "left": left["processes"],
    }  # fmt: skip


def main() -> None:
    """See the module's docstring."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--gib", type=int, default=64)
    parser.add_argument("--holder", choices=("torch", "none"), default="torch")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    cli = Cli(options.folder.resolve())
    cli.run("init")
    cli.run("hosts", "add", "gpu", "--local", "--tier", "dev")
    summary = {}
    names = ("takes-interrupt", "ignores-interrupt")
    with (cli.folder / "policy.toml").open("a") as policy:
        for name in names:
            log, beat = cli.folder / f"{name}.log", cli.folder / f"{name}.json"
            policy.write(JOB.format(name=name, beat=beat, log=log))
    for name in names:
        shown = str(cli.folder / f"{name}.json")
        holder = (sys.executable, "-c", HOLD, name, str(options.gib), options.holder, shown)
        summary[name] = stop_one(cli, name, holder)
    cli.run("verify")
    cli.run("replay")
    (options.folder / "summary.json").write_text(json.dumps(summary, indent=1) + "\n")
    print(json.dumps(summary, indent=1)[:6000])


if __name__ == "__main__":
    main()
