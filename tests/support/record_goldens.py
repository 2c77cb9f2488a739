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
# The file that deploy_files writes on the stage, as it travels, and its digest.
RUN_PY = "cHJpbnQoNykK"
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
    arguments = {**looks(folder, victim), **acts(folder, victim, place)}
    order = [*arguments, "tmux_interrupt"]
    for name in [*order, *sorted(set(COMMANDS) - set(order))]:
        if name == "tmux_interrupt":
            if "pane" not in place:
                continue
            arguments[name] = {"pane_id": "%0", "foreground": place["pane"]}
        given = json.dumps(arguments[name], default=lambda value: value.model_dump())
        yield name, COMMANDS[name].model_validate_json(given)


def looks(folder: str, victim: Identity) -> dict[str, dict[str, object]]:
    """Arguments of the commands that leave the stage as it is."""
    heartbeat = f"{folder}/heartbeat.json"
    everything = ["host", "processes", "gpus", "gpu_processes", "disk", "tmux", "heartbeat"]
    meant = [
        {"path": f"{folder}/config.json", "content": "e30K"},
        {"path": f"{folder}/run.py", "content": RUN_PY},
    ]
    return {
        "observe": {"what": everything, "heartbeat_path": heartbeat, "disk_paths": ["/"]},
        "inspect_process": {"pid": victim.pid},
        "shared_memory": {},
        "disk_free": {"paths": ["/", "/nope"]},
        "ports": {},
        "locks": {"paths": [f"{folder}/train.log", "/nope"]},
        "kernel_log": {},
        "host_history": {},
        "transfer": {"path": f"{folder}/train.log", "offset": 7, "max_bytes": 20},
        "tmux_sessions": {},
        "tmux_capture": {"pane_id": "%0", "lines_above": 10},
        "probe_host": {},
        "list_processes": {},
        "read_heartbeat": {"path": heartbeat},
        "tail_log": {"path": f"{folder}/train.log", "max_bytes": 40},
        "file_digest": {"path": f"{folder}/train.log"},
        "check_model": {"path": folder, "with_hash": True},
        "gpu_status": {},
        "gpu_processes": {},
        "compare_files": {"files": meant},
    }


def acts(
    folder: str, victim: Identity, place: Mapping[str, object]
) -> dict[str, dict[str, object]]:
    """Arguments of the commands that change or destroy; what one needs, those before it made."""
    heartbeat = Path(folder) / "heartbeat.json"
    script = f"{folder}/run.py"
    old = heartbeat.read_bytes()
    diff = "@@ -1 +1 @@\n-" + old.decode().splitlines()[0] + "\n+{}\n"
    if not old.endswith(b"\n"):
        diff = diff.replace("\n+", "\n\\ No newline at end of file\n+")
    patch = {"path": str(heartbeat), "expects": hashlib.sha256(old).hexdigest()}
    deploy = {"path": script, "content": RUN_PY, "expects": "absent", "check_python": True}
    segment = {"name": SEGMENT, "inode": place["inode"], "creator_pid": ENDED}
    ladder = [{"signal": "INT", "grace_ms": 50}, {"signal": "TERM", "grace_ms": 2000}]
    absent = {"kind": "process_absent", "identities": [victim]}
    return {
        "remove_segments": {"segments": [segment]},
        "move_aside": {"path": f"{folder}/stale.lock", "text": str(ENDED), "owner_pid": ENDED},
        "run_argv": {"argv": ["sh", "-c", "echo out; echo err >&2; exit 7"]},
        "apply_patch": {**patch, "diff": diff, "plan": True},
        "stop_processes": {"victims": place["others"], "ladder": ladder},
        "deploy_files": {"files": [deploy]},
        "roll_back": {"files": [{"path": script, "backup": None, "expects": DEPLOYED_SHA256}]},
        "launch": {
            "argv": IDLE, "cwd": folder, "log": f"{folder}/out.log", "launch_id": "launch-8",
            "env": {"OMP_NUM_THREADS": "1"},
        },
        "wait_until": {"condition": absent, "timeout_ms": 100, "poll_ms": 50},
        "signal_process": {"victim": victim, "signal": "TERM"},
    }  # fmt: skip


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
