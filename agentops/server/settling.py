"""Before acting again: settle what an earlier call left unknown, by a look and never by a repeat.

Here: unknown outcomes of commands that somebody wished for directly, or that a closed incident left
behind. Those of an open incident are settled by its own loop (``agentops.policy.reconciling``).
"""

from dataclasses import dataclass

from agentops.commands import Command
from agentops.commands.files import FileDigest, FileDigested
from agentops.commands.processes import ListProcesses, ProcessTable
from agentops.commands.waiting import WaitEnded, WaitUntil
from agentops.executor import Executed
from agentops.hosts import Host
from agentops.policy.fold import SETTLED
from agentops.policy.reconciling import TOOK_EFFECT
from agentops.server.desk import Caller, Desk, Refused
from agentops.server.outcomes import ids
from journal import Event
from journal.events import CommandIntended, CommandReconciled, JsonObject, Verdict, VerdictReached

_ASKED_AGAIN = "what an earlier call did"


@dataclass(frozen=True, slots=True)
class SettledAct:
    """An act whose outcome was unknown, what a look says now, and the events that show it."""

    intent: CommandIntended
    verdict: Verdict
    reason: str
    event_ids: tuple[str, ...]

    def is_of(self, command: Command) -> bool:
        """Whether it is the very command that is wished for again."""
        return (self.intent.command, self.intent.arguments) == (command.name, command.arguments())


async def settle(desk: Desk, caller: Caller, host: Host) -> tuple[SettledAct, ...]:
    """Look at everything on *host* whose outcome nobody knows.

    Raises:
        Refused: an open incident's act is among them; its own tool goes on with it.
    """
    settled = []
    reader = desk.reader
    looked_at = {
        event.payload.command_id
        for event in reader.events(kinds={"command_reconciled"})
        if isinstance(event.payload, CommandReconciled)
    }
    unsettled = reader.unreconciled()
    going_on = {found.id for found in reader.incidents() if found.resolution is None}
    for open_ in unsettled:
        elsewhere = open_.host is None or open_.host.name != host.name
        if elsewhere or open_.command_id in looked_at:
            continue
        event = reader.event(open_.event_id)
        if event.incident in going_on:
            raise Refused(
                "BUSY",
                f"incident {event.incident} left {open_.command} with an unknown outcome; call"
                " stop or launch with its job: that settles it first",
            )
        if isinstance(event.payload, CommandIntended):
            settled.append(await _settle(desk, caller, host, event, event.payload))
    return tuple(settled)


async def _settle(
    desk: Desk, caller: Caller, host: Host, event: Event, intent: CommandIntended
) -> SettledAct:
    verdict, reason, seen = await _look(desk, caller, host, intent)
    evidence = (event.id, *seen)
    condition: JsonObject = {
        "kind": TOOK_EFFECT,
        "command_id": intent.command_id,
        "command": intent.command,
        "status": "unknown",
    }
    actor = desk.actor(caller)
    reached = VerdictReached(condition=condition, verdict=verdict, reason=reason, evidence=evidence)
    said = await desk.record(host, reached, actor)
    known = CommandReconciled(
        command_id=intent.command_id, settled=SETTLED[verdict], evidence=evidence
    )
    last = await desk.record(host, known, actor)
    return SettledAct(intent, verdict, reason, (*evidence, said.id, last.id))


async def _look(
    desk: Desk, caller: Caller, host: Host, intent: CommandIntended
) -> tuple[Verdict, str, tuple[str, ...]]:
    """A verdict on whether the act took effect, why, and the looks that it rests on."""
    match intent.command:
        case "stop_processes" | "signal_process":
            return await _victims(desk, caller, host, intent)
        case "launch":
            return await _launched(desk, caller, host, intent)
        case "deploy_files":
            return await _deployed(desk, caller, host, intent)
        case _:
            executed = await desk.look(caller, ListProcesses(), host, _ASKED_AGAIN)
            return "inconclusive", f"no look can tell what {intent.command} did", ids(executed)


async def _victims(
    desk: Desk, caller: Caller, host: Host, intent: CommandIntended
) -> tuple[Verdict, str, tuple[str, ...]]:
    named = [victim.model_dump(mode="json") for victim in intent.victims]
    condition = {"kind": "process_absent", "identities": named}
    command = WaitUntil.model_validate({"condition": condition, "timeout_ms": 0})
    executed = await desk.look(caller, command, host, _ASKED_AGAIN)
    seen = executed.observation
    if isinstance(seen, WaitEnded) and seen.met:
        return "confirmed", "its victims have ended", ids(executed)
    if isinstance(seen, WaitEnded) and seen.alive:
        pids = ", ".join(map(str, seen.alive))
        reason = f"pid {pids} lives on, which tells nothing about delivery"
        return "inconclusive", reason, ids(executed)
    return "inconclusive", _blind(executed), ids(executed)


async def _launched(
    desk: Desk, caller: Caller, host: Host, intent: CommandIntended
) -> tuple[Verdict, str, tuple[str, ...]]:
    launch_id = intent.arguments.get("launch_id")
    executed = await desk.look(caller, ListProcesses(), host, _ASKED_AGAIN)
    seen = executed.observation
    if not isinstance(seen, ProcessTable):
        return "inconclusive", _blind(executed), ids(executed)
    if any(row.launch_id == launch_id for row in seen.processes):
        return "confirmed", "a process carries the launch id", ids(executed)
    reason = "no process carries the launch id: it never began, or it has ended"
    return "inconclusive", reason, ids(executed)


async def _deployed(
    desk: Desk, caller: Caller, host: Host, intent: CommandIntended
) -> tuple[Verdict, str, tuple[str, ...]]:
    files = intent.arguments.get("files")
    seen: list[str] = []
    for file in files if isinstance(files, list) else []:
        if not isinstance(file, dict):
            continue
        command = FileDigest(path=str(file.get("path")))
        executed = await desk.look(caller, command, host, _ASKED_AGAIN)
        seen += ids(executed)[-1:]
        digest = executed.observation
        if not isinstance(digest, FileDigested):
            return "inconclusive", _blind(executed), tuple(seen)
        if digest.sha256 != file.get("sha256"):
            return "refuted", f"{command.path} does not show the wanted digest", tuple(seen)
    return "confirmed", "each file shows the wanted digest", tuple(seen)


def _blind(executed: Executed) -> str:
    return f"the look could not be read: {executed.outcome.kind}"
