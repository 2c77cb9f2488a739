"""Who is of the job, who restarts it, who only looks like it.

Here: positive role evidence. A name selects candidates to look at and makes nobody a victim; what
makes a member is the job's own heartbeat (pid and start ticks), a launch id, descent from a
member, the session of a member that leads it, or the cgroup that the operator declared. Not here:
whether a member may be signalled now (``agentops.policy.guards``).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from agentops.policy.canonical import digest
from agentops.policy.config import Job, Match, PolicyConfig
from agentops.policy.learning import beat_value
from agentops.policy.ledger import Member, Role
from agentops.policy.process import Process
from agentops.policy.processes import ProcessTable
from agentops.policy.state import PolicyState

ENDED = frozenset({"Z", "X"})
PROTECTED_COMM = (
    "sshd",
    "systemd",
    "init",
    "dbus",
    "networkd-dispat",
    "cron",
    "dockerd",
    "containerd",
    "lxc",
    "tmux",
    "screen",
    "agetty",
    "login",
    "rsyslogd",
    "polkitd",
    "udevd",
)
SUPERVISOR: Role = "supervisor"
TRAINER: Role = "trainer"
WORKER: Role = "worker"
SHELLS = ("sh", "bash", "dash", "zsh", "ash", "busybox")


@dataclass(frozen=True, slots=True)
class Roles:
    """The newest table, sorted by role. All living; a zombie has ended and is in none of them.

    trainers are the roots (whom an interrupt is meant for), workers the rest of their trees;
    suspects look exactly like the job, or are in a session that it left behind; candidates match
    the job's selector without any proof; reasons tell, by process, what made it a member.
    """

    trainers: tuple[Process, ...] = ()
    workers: tuple[Process, ...] = ()
    supervisors: tuple[Process, ...] = ()
    suspects: tuple[Process, ...] = ()
    candidates: tuple[Process, ...] = ()
    reasons: Mapping[tuple[int, int], str] | None = None

    @property
    def members(self) -> tuple[Process, ...]:
        """Everybody proven to be of the job, supervisors first."""
        return (*self.supervisors, *self.trainers, *self.workers)

    def reason(self, process: Process) -> str:
        """What proved *process* to be of the job."""
        return (self.reasons or {}).get(process.key, "")


def is_protected(process: Process, config: PolicyConfig) -> bool:
    """Whether *process* belongs to the host itself and is never a victim."""
    names = (*PROTECTED_COMM, *config.protected.comm)
    program = process.exe.rsplit("/", 1)[-1]
    return process.pid <= 1 or any(
        process.comm.startswith(name) or program.startswith(name) for name in names
    )


def selects(match: Match, process: Process) -> bool:
    """Whether *process* is worth a look under *match*."""
    return (
        (match.cmd_contains is None or match.cmd_contains in process.command_line)
        and (match.exe is None or match.exe == process.exe)
        and (match.cwd is None or match.cwd == process.cwd)
        and (match.uid is None or match.uid == process.uid)
    )


def cmdline_digest(process: Process) -> str:
    """A digest of command line, folder and user to compare by, so that none enters a decision."""
    return digest([*process.cmdline, process.cwd, process.uid])


def find_roles(
    state: PolicyState, job: Job, config: PolicyConfig, table: ProcessTable | None
) -> Roles:
    """Sort the newest table by role; without a table nobody has one."""
    if table is None:
        return Roles()
    living = sorted(
        (
            process
            for process in table
            if process.state not in ENDED and job.role_match.uid in {None, process.uid}
        ),
        key=_place,
    )
    reasons = _seeds(state, job, config, table, living)
    _spread(reasons, living, config)
    inside = {process.key: process for process in living if process.key in reasons}
    supervisors = _supervisors(job, config, table, inside)
    for process in supervisors:
        reasons.setdefault(process.key, "supervises a member and matches the declared supervisor")
    lead = {process.key for process in supervisors}
    rest = [process for process in inside.values() if process.key not in lead]
    trainers = _roots(rest, state)
    roots = {process.key for process in trainers}
    others = [process for process in living if process.key not in reasons]
    suspected = {
        process.key
        for process in (*_lookalikes(state, job, others), *_orphans(state, living, others))
    }
    return Roles(
        trainers=trainers,
        workers=tuple(process for process in rest if process.key not in roots),
        supervisors=supervisors,
        suspects=tuple(
            process
            for process in others
            if process.key in suspected and not is_protected(process, config)
        ),
        candidates=tuple(
            process
            for process in others
            if selects(job.role_match, process) and not is_protected(process, config)
        ),
        reasons=reasons,
    )


def _place(process: Process) -> tuple[int, int]:
    return (process.start_ticks, process.pid)


def _seeds(
    state: PolicyState,
    job: Job,
    config: PolicyConfig,
    table: ProcessTable,
    living: Sequence[Process],
) -> dict[tuple[int, int], str]:
    """Members by evidence of their own."""
    known = {
        (member.identity.pid, member.identity.start_ticks): member.reason
        for member in state.members
        if table.covers(member.identity)
    }
    beat = (beat_value(state.facts, "pid"), beat_value(state.facts, "start_ticks"))
    launches = launch_ids(state)
    reasons: dict[tuple[int, int], str] = {}
    for process in living:
        reason = known.get(process.key)
        if beat == process.key:
            reason = "heartbeat names its pid and start ticks"
        elif process.launch_id is not None and process.launch_id in launches:
            reason = "carries the launch id"
        elif reason is None and job.cgroup is not None and job.cgroup in process.cgroup:
            reason = "is in the declared cgroup"
        if reason is not None and not is_protected(process, config):
            reasons[process.key] = reason
    return reasons


def launch_ids(state: PolicyState) -> frozenset[str]:
    """Launch ids of this job: those that we drew, and the one that its heartbeat states."""
    ours = {
        str(act.arguments.get("launch_id"))
        for act in state.acts
        if act.command == "launch" and act.arguments.get("launch_id")
    }
    stated = beat_value(state.facts, "launch_id")
    return frozenset(ours | ({stated} if isinstance(stated, str) and stated else set()))


def _spread(
    reasons: dict[tuple[int, int], str], living: Sequence[Process], config: PolicyConfig
) -> None:
    """Descendants of members, and sessions that a member leads."""
    if not reasons:
        return
    below: dict[int, list[Process]] = {}
    beside: dict[int, list[Process]] = {}
    for process in living:
        below.setdefault(process.ppid, []).append(process)
        if process.sid != process.pid:
            beside.setdefault(process.sid, []).append(process)
    queue = sorted(pid for pid, _ in reasons)
    while queue:
        pid = queue.pop(0)
        for how, found in (
            ("descends from a member", below.get(pid, ())),
            ("is in a session that a member leads", beside.get(pid, ())),
        ):
            for process in found:
                if process.key not in reasons and not is_protected(process, config):
                    reasons[process.key] = how
                    queue.append(process.pid)


def _supervisors(
    job: Job,
    config: PolicyConfig,
    table: ProcessTable,
    inside: Mapping[tuple[int, int], Process],
) -> tuple[Process, ...]:
    """Outermost first: ancestors of a member that are members themselves or match the selector."""
    found: dict[tuple[int, int], Process] = {}
    for member in inside.values():
        declared = job.supervisor is not None and selects(job.supervisor, member)
        if declared and is_shell(member):
            found[member.key] = member
        for ancestor in table.ancestors(member):
            matched = job.supervisor is not None and selects(job.supervisor, ancestor)
            ours = ancestor.key in inside and is_shell(ancestor)
            lives = ancestor.state not in ENDED and job.role_match.uid in {None, ancestor.uid}
            if (matched or ours) and lives and not is_protected(ancestor, config):
                found[ancestor.key] = ancestor
    return tuple(sorted(found.values(), key=_place))


def is_shell(process: Process) -> bool:
    """Whether *process* is a shell: it waits for its child and holds an interrupt back."""
    return process.comm in SHELLS or process.exe.rsplit("/", 1)[-1] in SHELLS


def _roots(inside: Iterable[Process], state: PolicyState) -> tuple[Process, ...]:
    """Members whose parent is no member; the heartbeat's own process is always one."""
    listed = list(inside)
    pids = {process.pid for process in listed}
    workers = {
        (member.identity.pid, member.identity.start_ticks)
        for member in state.members
        if member.role == "worker"
    }
    beat = (beat_value(state.facts, "pid"), beat_value(state.facts, "start_ticks"))
    roots = [
        process
        for process in listed
        if process.key == beat or (process.ppid not in pids and process.key not in workers)
    ]
    return tuple(sorted(roots, key=_place))


def _lookalikes(state: PolicyState, job: Job, others: Iterable[Process]) -> tuple[Process, ...]:
    """Non-members with the very command line, folder and user of a member.

    A younger one may be a successor; an older one that the job's selector finds may be a second
    start of the same job. Where no member was ever known, the declared launch is the likeness: such
    a process may not have written its heartbeat yet.
    """
    known: dict[str, int] = {}
    for member in state.members:
        if member.role != "worker":
            known[member.cmdline_sha256] = member.identity.start_ticks
    if known:
        oldest = min(known.values())
        return tuple(
            process
            for process in others
            if (process.start_ticks > oldest or selects(job.role_match, process))
            and process.cmdline
            and cmdline_digest(process) in known
        )
    launch = job.launch
    if launch is None:
        return ()
    return tuple(p for p in others if (p.cmdline, p.cwd) == (launch.argv, launch.cwd))


def _orphans(
    state: PolicyState, living: Iterable[Process], others: Iterable[Process]
) -> tuple[Process, ...]:
    """Non-members in the session or group of the process that wrote the heartbeat and is gone.

    The kernel gives no number away while a session or group bears it, yet the number may have been
    somebody else's since: this makes them suspects and not members.
    """
    pid = beat_value(state.facts, "pid")
    if not isinstance(pid, int) or any(process.pid == pid for process in living):
        return ()
    return tuple(process for process in others if pid in {process.sid, process.pgid})


def as_members(roles: Roles, table: ProcessTable) -> tuple[Member, ...]:
    """Everybody proven, in the form that a decision remembers."""
    named: tuple[tuple[Role, Process], ...] = (
        *((SUPERVISOR, process) for process in roles.supervisors),
        *((TRAINER, process) for process in roles.trainers),
        *((WORKER, process) for process in roles.workers),
    )
    return tuple(
        Member(
            identity=table.identity(process),
            role="supervisor"
            if role == "supervisor"
            else "trainer"
            if role == "trainer"
            else "worker",
            reason=roles.reason(process),
            cmdline_sha256=cmdline_digest(process),
        )
        for role, process in named
    )
