"""A running process becomes a job entry that policy can read."""

import sys
import tomllib

import pytest

from agentops.box import Box
from agentops.box.waiting import wait_for
from agentops.commands.adopting import job_entry, job_name
from agentops.commands.inspecting import InspectProcess, ProcessInspected
from agentops.policy.config import Job
from agentops.transport import SshTransport
from tests.support.boxes import observe

pytestmark = pytest.mark.needs("sshd", "root-namespaces")
SCRIPT = "import signal\nsignal.pause()\n"


async def test_an_observed_process_is_written_as_a_job(box: Box, inside: SshTransport) -> None:
    folder = box.directory / "job"
    (folder / "out").mkdir(parents=True)
    (folder / "out" / "heartbeat.json").write_text("{}")
    (folder / "train_x.py").write_text(SCRIPT)
    loop = f'while :; do "{sys.executable}" -P train_x.py "run 1.json"; done'
    (folder / "run.sh").write_text(loop)
    log = folder / "train.log"
    box.start_inside(("sh", "run.sh"), container="200", cwd=folder, log=log)
    who = wait_for(
        lambda: next((t for t in box.processes("200") if "train_x.py" in t.cmdline), None),
        5,
        "the script's process",
    )
    seen = await observe(inside, InspectProcess(pid=who.identity.pid), ProcessInspected)
    assert seen.process is not None
    assert job_name(seen.process) == "train_x"
    entry = job_entry("train_x", seen)
    job = Job.model_validate(tomllib.loads(entry)["job"]["train_x"])
    assert job.role_match.cmd_contains == "train_x.py"
    assert job.role_match.cwd == str(folder)
    assert job.supervisor is not None
    assert job.supervisor.cmd_contains == "run.sh"
    assert job.progress.heartbeat == str(folder / "out" / "heartbeat.json")
    assert job.launch is not None
    assert job.launch.argv == (sys.executable, "-P", "train_x.py", "run 1.json")
    assert job.launch.log == str(log)


async def test_a_process_that_is_gone_gives_no_entry(inside: SshTransport) -> None:
    seen = await observe(inside, InspectProcess(pid=4_000_000), ProcessInspected)
    with pytest.raises(ValueError, match="gone"):
        job_entry("x", seen)
