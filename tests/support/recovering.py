"""A stage for the loop: a box, a stub job with a fault in it, a journal, an executor.

Here: setting up and running. What is asserted stands in the tests.
"""

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from agentops.box.box import Box
from agentops.box.processes import Truth
from agentops.executor import Executor
from agentops.hosts import Host, Tier
from agentops.policy import PolicyConfig, parse_policy
from agentops.recover import Recovery, Sources, Terms, read_sources, recover
from agentops.transport import Transport, open_transport
from journal import Actor, Clock, Event, Journal, KeyStore, SystemClock
from journal.events import CommandIntended
from tests.support.boxes import host_of

STUB = Path(__file__).with_name("stub_job.py")
SHIPPED = Path(str(files("agentops.policy"))) / "files" / "dev.toml"
CONTAINER = "200"


@dataclass(frozen=True, slots=True)
class Stage:
    """One job's place: its folder in the box, the policy for it, the journal."""

    box: Box
    folder: Path
    journal: Path
    config: PolicyConfig
    sources: Sources
    tier: Tier = "dev"

    @property
    def host(self) -> Host:
        """The container as an inventory entry."""
        return host_of(self.box, f"pct:{CONTAINER}", tier=self.tier)

    def start(self, *faults: str, launch_id: str | None = None, wrapper: bool = False) -> Truth:
        """Start the stub as its owner would."""
        argv: Sequence[str] = (sys.executable, "-P", str(STUB), str(self.folder), *faults)
        if wrapper:
            loop = 'while :; do "$@"; sleep 0.2; done'
            script = self.folder / "run.sh"
            script.write_text(loop)
            argv = ("sh", str(script), *argv)
        env = {} if launch_id is None else {"AGENTOPS_LAUNCH_ID": launch_id}
        return self.box.start_inside(
            argv, container=CONTAINER, env=env, cwd=self.folder, log=self.folder / "train.log"
        )

    def living(self) -> tuple[Truth, ...]:
        """The stub's processes by the kernel's word."""
        return tuple(
            truth
            for truth in self.box.processes(CONTAINER)
            if str(self.folder) in truth.cmdline and truth.state not in {"Z", "X"}
        )

    async def recover(
        self, terms: Terms | None = None, incident: str | None = None
    ) -> tuple[Recovery, list[Event]]:
        """Run the loop to its end; gives its events too."""
        return await run_loop(
            self.journal, self.host, self.config, self.sources, terms=terms, incident=incident
        )


def journal_at(path: Path, clock: Clock, actor: Actor, keys: KeyStore) -> Journal:
    """The journal at *path*, made where there is none."""
    way = Journal.open if path.exists() else Journal.create
    return way(path, clock=clock, actor=actor, keys=keys, anchor=None)


async def run_loop(
    path: Path,
    host: Host,
    config: PolicyConfig,
    sources: Sources,
    *,
    connect: Callable[[Host], Transport] = open_transport,
    terms: Terms | None = None,
    incident: str | None = None,
) -> tuple[Recovery, list[Event]]:
    """Open or make the journal and run the loop over the stub's incident."""
    events: list[Event] = []
    clock = SystemClock()
    actor = Actor("human", "tester")
    keys = KeyStore(path.parent / "keys")
    with journal_at(path, clock, actor, keys) as journal:
        executor = Executor(journal, clock=clock, config=config, connect=connect)
        try:
            ended = await recover(
                "stub",
                host,
                executor=executor,
                journal=journal,
                clock=clock,
                config=config,
                sources=sources,
                terms=terms,
                incident=incident,
                on_event=events.append,
            )
        finally:
            await executor.close()
    return ended, events


def signals(events: Sequence[Event]) -> list[tuple[str, int]]:
    """The signals that were intended, in order, with the victim's pid."""
    return [
        (str(event.payload.arguments["signal"]), event.payload.victims[0].pid)
        for event in events
        if isinstance(event.payload, CommandIntended) and event.payload.command == "signal_process"
    ]


def policy_text(
    folder: Path, *, repair: bool = True, stall_s: int = 3, extra: str = "", stop: str = ""
) -> str:
    """The shipped rules, with the stub as a job."""
    wanted = (
        f"""
[[job.stub.repair]]
id = "corrected"
when = {{ differs = true }}
files = [{{ path = "{folder}/code.py", source = "code.py" }}]
"""
        if repair
        else ""
    )
    return f"""{SHIPPED.read_text()}
[job.stub]
role_match = {{ cmd_contains = "stub_job.py" }}
supervisor = {{ cmd_contains = "run.sh" }}
[job.stub.progress]
heartbeat = "{folder}/heartbeat.json"
log = "{folder}/train.log"
stall_s = {stall_s}
watch_s = 3
[job.stub.stop]
respawn_s = 1
{stop}
[job.stub.stop.grace]
interrupt_s = 2
terminate_s = 1
kill_s = 1
graceful_max_s = 30
[job.stub.launch]
argv = ["{sys.executable}", "-P", "{STUB}", "{folder}"]
cwd = "{folder}"
log = "{folder}/relaunched.log"
start_s = 20
settle_s = 1
{wanted}{extra}"""


def stage(
    box: Box,
    place: Path,
    *,
    repair: bool = True,
    stall_s: int = 3,
    extra: str = "",
    tier: Tier = "dev",
    stop: str = "",
) -> Stage:
    """Set the stage: a folder in the box, old code in it, new code beside the policy."""
    folder = box.directory / place.name
    folder.mkdir()
    (folder / "code.py").write_text("VERSION = 1\n")
    (place / "code.py").write_text("VERSION = 2\n")
    text = policy_text(folder, repair=repair, stall_s=stall_s, extra=extra, stop=stop)
    (place / "policy.toml").write_text(text)
    config, sources = read_sources(parse_policy(text, "policy.toml"), place)
    return Stage(box, folder, place / "test.journal", config, sources, tier)
