"""Record goldens from a real host: ``python -m tests.support.record_goldens [COMMAND…]``.

Each command is run in the trap box, in Python and, where it has one, in sh; a golden holds what the
host said and what the parser made of it. Run it after a script or a parser changed on purpose.
"""

import asyncio
import hashlib
import json
import os
import platform
import struct
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from agentops.box import Box
from agentops.box.waiting import wait_for
from agentops.commands import COMMANDS, Command, Completed, Malformed
from agentops.commands.tmux import TmuxSeen
from agentops.transport import SshTransport
from journal.events import Identity
from tests.support.boxes import host_of, run_argv
from tests.support.twins import shell_twin_argv

FOLDER = Path(__file__).parents[1] / "golden" / "commands"
IDLE = ("sleep", "1000")
# Of the file that deploy_files writes on the stage.
DEPLOYED_SHA256 = hashlib.sha256(b"print(7)\n").hexdigest()
# A pid that no process has: the kernel gives the highest numbers away last.
ENDED = 4_194_000
SEGMENT = f"torch_{ENDED}_1_0"
CGROUPS = Path("/proc/self/cgroup")


def stage(box: Box) -> dict[str, object]:
    """Put processes, a heartbeat, a log and a model where the commands look."""
    folder = box.directory / "stage"
    folder.mkdir()
    contract = Path(__file__).parents[1] / "golden" / "trainer_contract"
    (folder / "heartbeat.json").write_bytes((contract / "heartbeat_training.json").read_bytes())
    (folder / "train.log").write_bytes(b"step=1 loss=4.2\nstep=2 loss=\xff\x1b[31m4.1\npartial")
    (folder / "config.json").write_text("{}")
    (folder / "stale.lock").write_text(f"{ENDED}\n")
    header = json.dumps({"w": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}).encode()
    shard = struct.pack("<Q", len(header)) + header + b"\0" * 8
    (folder / "model.safetensors").write_bytes(shard)
    smi = box.directory / "bin" / "nvidia-smi"
    smi.write_text(FAKE_SMI)
    smi.chmod(0o755)
    # Made in the box: /dev/shm is where its commands look.
    box.run_inside(("sh", "-c", f"head -c 4096 /dev/zero > /dev/shm/{SEGMENT}"))
    victim = box.start_inside(IDLE, env={"AGENTOPS_LAUNCH_ID": "launch-7"})
    others = [box.start_inside(IDLE).identity for _ in range(2)]
    terminal = {"TMUX_TMPDIR": str(folder)}
    box.start_inside(("tmux", "-D"), env=terminal)
    run = ("tmux", "new-session", "-d", "-s", "train", "sh", "-c", "echo step=7; exec sleep 999")
    wait_for(lambda: box.run_inside(run, env=terminal).returncode == 0 or None, 5, "tmux session")
    inode = int(box.run_inside(("stat", "-c", "%i", f"/dev/shm/{SEGMENT}")).stdout)
    return {
        "folder": str(folder),
        "victim": victim.identity,
        "others": others,
        "inode": inode,
    }


# Devices as measured on an H200 with driver 580 (uuid replaced), processes as from the same run.
FAKE_SMI = """#!/bin/sh
case $1 in
--query-gpu=*) echo '0, GPU-00000000-0000-0000-0000-000000000000, NVIDIA H200, 4623, 143771, 0, \
132.51, 42, 0, Disabled, Enabled, 580.159.04' ;;
--query-compute-apps=*) echo 'GPU-00000000-0000-0000-0000-000000000000, 439, python3, 4614' ;;
esac
"""


def staged(place: Mapping[str, object]) -> Iterator[tuple[str, Command]]:
    """Every command with arguments for the stage; the order is the one they are run in."""
    folder, victim = str(place["folder"]), place["victim"]
    assert isinstance(victim, Identity)
    absent = {"kind": "process_absent", "identities": [victim]}
    launch: dict[str, object] = {
        "argv": IDLE, "cwd": folder, "log": f"{folder}/out.log", "launch_id": "launch-8",
        "env": {"OMP_NUM_THREADS": "1"},
    }  # fmt: skip
    deploy = {"path": f"{folder}/run.py", "content": "cHJpbnQoNykK", "expects": "absent"}
    old = (Path(folder) / "heartbeat.json").read_bytes()
    diff = "@@ -1 +1 @@\n-" + old.decode().splitlines()[0] + "\n+{}\n"
    if not old.endswith(b"\n"):
        diff = diff.replace("\n+", "\n\\ No newline at end of file\n+")
    patch = {"path": f"{folder}/heartbeat.json", "expects": hashlib.sha256(old).hexdigest()}
    everything = ["host", "processes", "gpus", "gpu_processes", "disk", "tmux", "heartbeat"]
    heartbeat = f"{folder}/heartbeat.json"
    ladder = [{"signal": "INT", "grace_ms": 50}, {"signal": "TERM", "grace_ms": 2000}]
    arguments: dict[str, dict[str, object]] = {
        "observe": {"what": everything, "heartbeat_path": heartbeat, "disk_paths": ["/"]},
        "inspect_process": {"pid": victim.pid},
        "shared_memory": {},
        "remove_segments": {
            "segments": [{"name": SEGMENT, "inode": place["inode"], "creator_pid": ENDED}]
        },
        "move_aside": {"path": f"{folder}/stale.lock", "text": str(ENDED), "owner_pid": ENDED},
        "disk_free": {"paths": ["/", "/nope"]},
        "ports": {},
        "locks": {"paths": [f"{folder}/train.log", "/nope"]},
        "kernel_log": {},
        "host_history": {},
        "transfer": {"path": f"{folder}/train.log", "offset": 7, "max_bytes": 20},
        "run_argv": {"argv": ["sh", "-c", "echo out; echo err >&2; exit 7"]},
        "tmux_sessions": {},
        "tmux_capture": {"pane_id": "%0", "lines_above": 10},
        "apply_patch": {**patch, "diff": diff, "plan": True},
        "stop_processes": {"victims": place["others"], "ladder": ladder},
        "probe_host": {},
        "list_processes": {},
        "read_heartbeat": {"path": f"{folder}/heartbeat.json"},
        "tail_log": {"path": f"{folder}/train.log", "max_bytes": 40},
        "file_digest": {"path": f"{folder}/train.log"},
        "check_model": {"path": folder, "with_hash": True},
        "gpu_status": {},
        "gpu_processes": {},
        "compare_files": {
            "files": [
                {"path": f"{folder}/config.json", "content": "e30K"},
                {"path": f"{folder}/run.py", "content": "cHJpbnQoNykK"},
            ]
        },
        "deploy_files": {"files": [{**deploy, "check_python": True}]},
        "roll_back": {
            "files": [{"path": f"{folder}/run.py", "backup": None, "expects": DEPLOYED_SHA256}]
        },
        "launch": launch,
        "wait_until": {"condition": absent, "timeout_ms": 100, "poll_ms": 50},
        "signal_process": {"victim": victim, "signal": "TERM"},
    }
    order = [*arguments, "tmux_interrupt"]
    for name in [*order, *sorted(set(COMMANDS) - set(order))]:
        if name == "tmux_interrupt":
            if "pane" not in place:
                continue
            pane = json.loads(json.dumps(place["pane"], default=lambda value: value.model_dump()))
            arguments[name] = {"pane_id": "%0", "foreground": pane}
        yield (
            name,
            COMMANDS[name].model_validate_json(
                json.dumps(arguments[name], default=lambda value: value.model_dump())
            ),
        )


async def record(wanted: Sequence[str]) -> None:
    """Run all commands by both scripts, each on a stage of its own; write those that are wanted."""
    source = f"{platform.freedesktop_os_release()['PRETTY_NAME']}, trap box over ssh"
    for variant in ("python", "sh"):
        # Every session of the box finds the stage's tmux, and not this machine's.
        terminal = {"TMUX_TMPDIR": "@box@/stage"}
        with Box(containers=(), environment=terminal) as box:
            transport = SshTransport(host_of(box))
            place = stage(box)
            for name, command in staged(place):
                argv = command.argv() if variant == "python" else shell_twin_argv(command)
                if argv is None:
                    continue
                ran = await run_argv(transport, *argv, stdin=command.stdin())
                if name == "tmux_sessions":
                    seen = command.parse(ran.completed)
                    assert isinstance(seen, TmuxSeen)
                    place["pane"] = seen.panes[0].foreground
                if not wanted or name in wanted:
                    path = FOLDER / name / f"debian_12_{variant}.json"
                    write(path, source, command, ran.completed)
            await transport.close()


def scrubbed(stdout: bytes) -> bytes:
    """Without the names of the machine that recorded: its checkout, its own control groups."""
    groups = {line.partition(":")[2].partition(":")[2] for line in CGROUPS.read_text().splitlines()}
    names = {str(Path(__file__).parents[2]): "/srv/agentops"}
    names |= {group: "/box" for group in groups if group.strip("/")}
    names[platform.node()] = "box"
    for old, new in names.items():
        stdout = stdout.replace(old.encode().hex().encode(), new.encode().hex().encode())
        stdout = stdout.replace(f'"{old}'.encode(), f'"{new}'.encode())
        stdout = stdout.replace(f":{old}".encode(), f":{new}".encode())
    return stdout


def write(path: Path, source: str, command: Command, completed: Completed) -> None:
    """One golden file."""
    completed = replace(completed, stdout=scrubbed(completed.stdout))
    parsed = command.parse(completed)
    if isinstance(parsed, Malformed):
        raise TypeError(f"{command.name}: {parsed}")
    path.parent.mkdir(parents=True, exist_ok=True)
    golden = {
        "source": source,
        "parser_version": command.parser_version,
        "arguments": json.loads(command.model_dump_json(by_alias=True)),
        "exit_status": completed.exit_status,
        "stdout": completed.stdout.decode("utf-8", "surrogateescape"),
        "stderr": completed.stderr.decode("utf-8", "surrogateescape"),
        "result": parsed.model_dump(mode="json"),
    }
    path.write_text(json.dumps(golden, indent=1) + "\n")
    sys.stdout.write(f"{os.path.relpath(path)}\n")


if __name__ == "__main__":
    asyncio.run(record(sys.argv[1:]))
