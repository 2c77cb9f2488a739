"""The commands that policy asks for, each written down in one place.

Here: names and arguments, exactly as ``agentops.commands`` takes them. Not here: when.
"""

from pydantic import JsonValue

from agentops.policy.config import Purpose, Repair
from agentops.policy.decision import Run
from agentops.policy.learning import file_subject
from agentops.policy.view import View
from journal.events import Identity, JsonObject

WAIT_MAX_MS = 45_000
WAIT_MIN_MS = 200
POLL_MS = 200


def list_processes(purpose: Purpose = "probe") -> Run:
    """Look at all processes."""
    return Run(purpose, "list_processes", {})


def read_heartbeat(view: View, purpose: Purpose = "probe") -> Run:
    """Look at the job's heartbeat."""
    return Run(purpose, "read_heartbeat", {"path": view.job.progress.heartbeat})


def tail_log(view: View) -> Run:
    """Look at the end of the job's log."""
    return Run("probe", "tail_log", {"path": view.job.progress.log, "max_bytes": 65_536})


def file_digest(path: str, purpose: Purpose = "probe") -> Run:
    """Look at one file's digest."""
    return Run(purpose, "file_digest", {"path": path})


def gpu_status() -> Run:
    """Look at the GPUs."""
    return Run("probe", "gpu_status", {})


def signal(victim: Identity, name: str) -> Run:
    """Send one signal to one identity."""
    return Run("signal", "signal_process", {"victim": identity(victim), "signal": name})


def wait_absent(victims: tuple[Identity, ...], timeout_us: int) -> Run:
    """Wait until *victims* are gone, one slice at most."""
    condition: JsonObject = {
        "kind": "process_absent",
        "identities": [identity(victim) for victim in victims],
    }
    return wait_for(condition, timeout_us)


def wait_step(view: View, at_least_step: int, timeout_us: int, launch_id: str | None = None) -> Run:
    """Wait until the heartbeat (of *launch_id*) shows *at_least_step*, one slice at most."""
    condition: JsonObject = {
        "kind": "heartbeat_step",
        "path": view.job.progress.heartbeat,
        "at_least_step": at_least_step,
    }
    if launch_id is not None:
        condition["launch_id"] = launch_id
    return wait_for(condition, timeout_us)


def deploy(view: View, repair: Repair) -> Run:
    """Put a repair's files in place of what was seen there, and of nothing else.

    The bytes are read, and their digests compared, where the command is built.
    """
    files: list[JsonValue] = []
    for file in repair.files:
        seen = view.state.facts.value(file_subject(file.path), "sha256")
        expects = seen if isinstance(seen, str) else "absent"
        files.append({"path": file.path, "sha256": file.sha256, "expects": expects})
    listed: JsonObject = {"repair": repair.id, "files": files}
    return Run("deploy", "deploy_files", listed)


def listening_ports() -> Run:
    """Look at which ports are taken, and by whom."""
    return Run("probe", "ports", {})


def locks(view: View, purpose: Purpose = "probe") -> Run:
    """Look at the job's lock files."""
    paths: list[JsonValue] = [lock.path for lock in view.job.lock]
    return Run(purpose, "locks", {"paths": paths})


def shared_memory(purpose: Purpose = "probe") -> Run:
    """Look at what lies in shared memory, and who holds it."""
    return Run(purpose, "shared_memory", {})


def inspect_process(pid: int) -> Run:
    """Look at one process closely: where it waits in the kernel, its files and sockets."""
    return Run("probe", "inspect_process", {"pid": pid})


def check_model(path: str) -> Run:
    """Look whether a model's files are whole."""
    return Run("probe", "check_model", {"path": path})


def launch(job_name: str, launch_id: str, port: int | None) -> Run:
    """Start the job again as its configuration says."""
    arguments: JsonObject = {"job": job_name, "launch_id": launch_id}
    if port is not None:
        arguments["port"] = port
    return Run("relaunch", "launch", arguments)


def request_stop(view: View) -> Run:
    """Ask the job to stop by the file that it watches."""
    listed: JsonObject = {
        "repair": "stop request",
        "files": [
            {"path": view.job.stop.request_file, "sha256": EMPTY_SHA256, "expects": "anything"}
        ],
    }
    return Run("deploy", "deploy_files", listed)


EMPTY_SHA256 = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"


def identity(who: Identity) -> JsonObject:
    """An identity as an argument."""
    dumped: JsonObject = who.model_dump(mode="json")
    return dumped


def wait_for(condition: JsonObject, timeout_us: int) -> Run:
    """Wait for *condition*, one slice at most."""
    timeout_ms = max(WAIT_MIN_MS, min(WAIT_MAX_MS, timeout_us // 1_000))
    return Run(
        "wait",
        "wait_until",
        {"condition": condition, "timeout_ms": timeout_ms, "poll_ms": POLL_MS},
    )
