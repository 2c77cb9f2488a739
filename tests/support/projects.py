"""A user's project folder for the stub job in a container: agentops.toml, policy.toml, the patch.

Here: writing the files that a user would have written. Not here: running anything on them.
"""

import sys
from dataclasses import dataclass
from pathlib import Path

from agentops.box.box import Box
from agentops.box.processes import Truth
from agentops.box.waiting import wait_for
from agentops.hosts import toml_entry
from tests.support.boxes import host_of
from tests.support.command_line import User, user
from tests.support.recovering import STUB, policy_text

JOB = "stub"
HOST = "box"
SETTINGS = """\
[journal]
path = "ops.journal"
anchor = "{anchor}"

[policy]
file = "policy.toml"

"""


@dataclass(frozen=True, slots=True)
class Project:
    """One user's project, and the place in the box where its job lives."""

    user: User
    box: Box
    container: str
    job: Path

    @property
    def journal(self) -> Path:
        """The project's journal."""
        return self.user.folder / "ops.journal"

    def start(self, *faults: str, at_step: int = 3) -> Truth:
        """Start the stub as its owner would, and wait until it is under way."""
        argv = (sys.executable, "-P", str(STUB), str(self.job), *faults)
        log = self.job / "train.log"
        truth = self.box.start_inside(argv, container=self.container, cwd=self.job, log=log)
        beat = self.job / "heartbeat.json"

        def trains() -> bool | None:
            return (beat.exists() and f'"step": {at_step}' in beat.read_text()) or None

        wait_for(trains, 20, f"step {at_step}")
        return truth

    def world(self) -> list[str]:
        """Starts and signals that the job itself noted, in order."""
        return (self.job / "world").read_text().splitlines()

    def living(self) -> tuple[Truth, ...]:
        """The job's processes by the kernel's word."""
        return tuple(
            truth
            for truth in self.box.processes(self.container)
            if str(self.job) in truth.cmdline and truth.state not in {"Z", "X"}
        )


def project(
    box: Box, place: Path, container: str, *, repair: bool = True, extra: str = ""
) -> Project:
    """Write the files; the container is started if it is not there yet."""
    if container not in box.containers:
        box.start_container(container)
    who = user(place)
    job = box.directory / f"job-{container}-{place.name}"
    job.mkdir()
    (job / "code.py").write_text("VERSION = 1\n")
    (who.folder / "code.py").write_text("VERSION = 2\n")
    host = host_of(box, f"pct:{container}", name=HOST)
    settings = SETTINGS.format(anchor=who.home / "anchor.jsonl")
    (who.folder / "agentops.toml").write_text(settings + toml_entry(host))
    (who.folder / "policy.toml").write_text(policy_text(job, repair=repair, extra=extra))
    return Project(who, box, container, job)


def agents_may_act(place: Project) -> None:
    """Let the standing approval of tier dev cover what an agent itself wishes for."""
    policy = place.user.folder / "policy.toml"
    stands = 'tier = "dev"\ncommands'
    assert stands in policy.read_text()
    policy.write_text(policy.read_text().replace(stands, f"agents = true\n{stands}"))
