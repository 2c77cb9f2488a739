"""Who is of the job, who restarts it, who only looks like it.

Here: positive role evidence. A name selects candidates to look at and makes nobody a victim; what
makes a member is the job's own heartbeat (pid and start ticks), a launch id, descent from a
member, the session of a member that leads it, or the cgroup that the operator declared. Not here:
whether a member may be signalled now (``agentops.policy.guards``).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from agentops.policy.canonical import digest
from agentops.policy.config import Job, Match, PolicyConfig
from agentops.policy.learning import beat_value
from agentops.policy.ledger import Member, Role
from agentops.policy.processes import Process, ProcessTable
from agentops.policy.state import PolicyState

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
    suspects look exactly like a member that ended and may be its successor; candidates match the
    job's selector without any proof; reasons tell, by process, what made it a member.
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
    joined = " ".join(process.cmdline)
    return (
        (match.cmd_contains is None or match.cmd_contains in joined)
        and (match.exe is None or match.exe == process.exe)
        and (match.cwd is None or match.cwd == process.cwd)
        and (match.uid is None or match.uid == process.uid)
    )


def cmdline_digest(process: Process) -> str:
    """A digest to compare command lines by, so that none is copied into a decision."""
    return digest(process.cmdline)


def find_roles(
    state: PolicyState, job: Job, config: PolicyConfig, table: ProcessTable | None
) -> Roles:
    """Sort the newest table by role; without a table nobody has one."""
    if table is None:
        return Roles()
    allowed = {
        process.key: process
        for process in sorted(table, key=_place)
        if not process.zombie
        and not is_protected(process, config)
        and job.role_match.uid in {None, process.uid}
    }
    reasons = _seeds(state, job, table, allowed)
    _spread(reasons, allowed)
    supervisors = _supervisors(job, table, allowed, reasons)
    for process in supervisors:
        reasons.setdefault(process.key, "supervises a member and matches the declared supervisor")
    inside = [process for process in allowed.values() if process.key in reasons]
    lead = {process.key for process in supervisors}
    rest = [process for process in inside if process.key not in lead]
    trainers = _roots(rest, state)
    roots = {process.key for process in trainers}
    others = [process for process in allowed.values() if process.key not in reasons]
    return Roles(
        trainers=trainers,
        workers=tuple(sorted((p for p in rest if p.key not in roots), key=_place)),
        supervisors=supervisors,
        suspects=_suspects(state, others),
        candidates=tuple(sorted((p for p in others if selects(job.role_match, p)), key=_place)),
        reasons=reasons,
    )


def _place(process: Process) -> tuple[int, int]:
    return (process.start_ticks, process.pid)


def _seeds(
    state: PolicyState,
    job: Job,
    table: ProcessTable,
    allowed: Mapping[tuple[int, int], Process],
) -> dict[tuple[int, int], str]:
    """Members by evidence of their own."""
    reasons: dict[tuple[int, int], str] = {}
    for member in state.members:
        process = table.find(member.identity)
        if process is not None and process.key in allowed:
            reasons[process.key] = member.reason
    beat = (beat_value(state.facts, "pid"), beat_value(state.facts, "start_ticks"))
    launches = launch_ids(state)
    for key, process in allowed.items():
        if beat == key:
            reasons[key] = "heartbeat names its pid and start ticks"
        elif process.launch_id is not None and process.launch_id in launches:
            reasons[key] = "carries the launch id"
        elif job.cgroup is not None and job.cgroup in process.cgroup:
            reasons[key] = "is in the declared cgroup"
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
    reasons: dict[tuple[int, int], str], allowed: Mapping[tuple[int, int], Process]
) -> None:
    """Descendants of members, and sessions that a member leads."""
    changed = True
    while changed:
        changed = False
        pids = {key[0] for key in reasons}
        for key, process in allowed.items():
            if key in reasons:
                continue
            if process.ppid in pids:
                reasons[key] = "descends from a member"
                changed = True
            elif process.sid in pids and process.sid != process.pid:
                reasons[key] = "is in a session that a member leads"
                changed = True


def _supervisors(
    job: Job,
    table: ProcessTable,
    allowed: Mapping[tuple[int, int], Process],
    reasons: Mapping[tuple[int, int], str],
) -> tuple[Process, ...]:
    """Outermost first: ancestors of a member that are members themselves or match the selector."""
    found: dict[tuple[int, int], Process] = {}
    for key in reasons:
        for ancestor in table.ancestors(allowed[key]):
            if ancestor.key not in allowed:
                continue
            matched = job.supervisor is not None and selects(job.supervisor, ancestor)
            if matched or (ancestor.key in reasons and is_shell(ancestor)):
                found[ancestor.key] = ancestor
    for key in reasons:
        member = allowed[key]
        if job.supervisor is not None and is_shell(member) and selects(job.supervisor, member):
            found[key] = member
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


def _suspects(state: PolicyState, others: Iterable[Process]) -> tuple[Process, ...]:
    """Non-members with the very command line of a member that was started before them."""
    known = {
        member.cmdline_sha256: member.identity.start_ticks
        for member in state.members
        if member.role != "worker"
    }
    found = [
        process
        for process in others
        if process.cmdline and process.start_ticks > known.get(cmdline_digest(process), 1 << 62)
    ]
    return tuple(sorted(found, key=_place))


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
