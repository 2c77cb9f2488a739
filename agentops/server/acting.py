"""The tools that change a host: stop, deploy, launch, run_argv.

Toward a goal (a job stopped, a job training) they run the loop and go on where a call before left
off; a single command is carried out only after what is unknown about that host has been settled, so
that a repeated call has one effect. Here: these orders. Not here: whether it may be done
(``agentops.policy``), putting questions (``agentops.server.questions``).
"""

import asyncio
import hashlib
import json

from agentops.approvals import Waits, Wish, carry_out
from agentops.commands import Command
from agentops.commands.deploy import DeployFiles
from agentops.commands.launch import Launch
from agentops.commands.run_argv import RunArgv
from agentops.commands.stopping import StopProcesses
from agentops.hosts import Host
from agentops.policy.cards import Card
from agentops.recover.approving import open_questions
from agentops.server.answer import Answer, Fault, ToolCall
from agentops.server.arguments import SLICE_S, Arguments, Deploy, LaunchJob, RunFree, Stop
from agentops.server.desk import Caller, Desk
from agentops.server.effects import effect_of
from agentops.server.naming import identities, typed
from agentops.server.outcomes import deadline_of, fault_answer, ids, proof_of
from agentops.server.settling import SettledAct, settle
from agentops.server.stories import told
from agentops.server.works import Goal, Works
from journal.events import JsonObject, ObservationParsed, ProposalReceived

_LADDER = ({"signal": "INT", "grace_ms": 10_000}, {"signal": "TERM", "grace_ms": 10_000},
           {"signal": "KILL", "grace_ms": 5_000})  # fmt: skip
_MS_PER_S = 1000


async def stop(desk: Desk, works: Works, caller: Caller, asked: Stop) -> Answer:
    """Stop a job by its ladder, or processes by identity, and prove that they are gone."""
    host = desk.host(asked.host)
    if asked.job is not None:
        if asked.plan_only:
            return _job_plan(desk, host, asked.job, "stop")
        return await _toward(desk, works, caller, (asked.job, host, "stop"), asked)
    named = identities(desk.reader, str(asked.seen), asked.victims or (), host.name)
    victims = [victim.model_dump(mode="json") for victim in named]
    command = typed(StopProcesses, {"victims": victims, "ladder": _LADDER})
    if asked.plan_only:
        return _plan(command, host)
    return await _act(desk, caller, Wish(command, host, asked.reason), _same("stop", asked))


async def launch(desk: Desk, works: Works, caller: Caller, asked: LaunchJob) -> Answer:
    """Bring a job to train again, or start an argv once for each attempt."""
    host = desk.host(asked.host)
    if asked.job is not None:
        if asked.plan_only:
            return _job_plan(desk, host, asked.job, "recover")
        return await _toward(desk, works, caller, (asked.job, host, "recover"), asked)
    command = typed(
        Launch,
        {
            "argv": asked.argv,
            "cwd": asked.cwd,
            "log": asked.log,
            "env": asked.env,
            "launch_id": _launch_id(asked),
        },
    )
    if asked.plan_only:
        return _plan(command, host)
    before = await asyncio.to_thread(_started_before, desk, command)
    if before is not None:
        return before
    return await _act(desk, caller, Wish(command, host, asked.reason), _same("launch", asked))


async def deploy(desk: Desk, caller: Caller, asked: Deploy) -> Answer:
    """Put files in place, all or none, each only over what is expected there."""
    host = desk.host(asked.host)
    files = [
        {
            "path": file.path,
            "content": file.content.encode(),
            "expects": file.expects,
            "mode": file.mode,
            "check_python": file.path.endswith(".py"),
        }
        for file in asked.files
    ]
    command = typed(DeployFiles, {"files": files})
    if asked.plan_only:
        return _plan(command, host)
    return await _act(desk, caller, Wish(command, host, asked.reason), _same("deploy", asked))


async def run_argv(desk: Desk, caller: Caller, asked: RunFree) -> Answer:
    """Run an argv that nobody can vouch for; a person is asked every time."""
    host = desk.host(asked.host)
    command = typed(
        RunArgv,
        {
            "argv": asked.argv,
            "stdin": asked.stdin,
            "timeout_ms": min(asked.timeout_s, SLICE_S) * _MS_PER_S,
        },
    )
    wish = Wish(command, host, asked.reason)
    look = ToolCall(tool="observe", arguments={"host": host.name})
    return await _act(desk, caller, wish, look, asked.timeout_s * _MS_PER_S)


def _same(tool: str, asked: Arguments) -> ToolCall:
    """The very same call: made again it looks first and repeats nothing."""
    return ToolCall(tool=tool, arguments=asked.model_dump(mode="json", exclude_defaults=True))


async def _toward(
    desk: Desk,
    works: Works,
    caller: Caller,
    aim: tuple[str, Host, Goal],
    asked: Stop | LaunchJob,
) -> Answer:
    """Work toward a goal for one slice; the same call again goes on."""
    job, host, goal = aim
    desk.job(job)
    tool = "stop" if goal == "stop" else "launch"
    if works.under_way(job, host) is None:
        wished: JsonObject = {"host": host.name, "job": job}
        proposal = ProposalReceived(command=tool, arguments=wished, words=asked.reason)
        await desk.record(host, proposal, desk.actor(caller))
    work = await works.start(job, host, goal, caller)
    ended = await works.wait(work, min(asked.wait_s, SLICE_S), caller)
    if ended and work.failed is not None:
        raise work.failed
    says = works.says(work)
    answer = told(tool, job, work.events, work.ended if ended else None, says)
    return answer.model_copy(update={"untrusted": ("data.verdicts[].reason",)})


async def _act(
    desk: Desk, caller: Caller, wish: Wish, again: ToolCall, asked_ms: int | None = None
) -> Answer:
    """Settle what is unknown, then carry the wish out unless it turned out to be done.

    again is the call that tells more after an unknown outcome.
    """
    with desk.acting(wish.host):
        return await _act_alone(desk, caller, wish, again, asked_ms)


async def _act_alone(
    desk: Desk, caller: Caller, wish: Wish, again: ToolCall, asked_ms: int | None
) -> Answer:
    for known in await settle(desk, caller, wish.host):
        if known.is_of(wish.command):
            return _known(known, wish)
    ground = desk.ground
    done = await carry_out(
        Wish(wish.command, wish.host, wish.reason, wish.incident, desk.actor(caller)),
        executor=await desk.door(caller),
        journal=ground.journal,
        clock=ground.clock,
        config=ground.config,
    )
    if isinstance(done, Waits):
        return _waits(desk, done)
    fault = fault_answer(wish.command, wish.host, done, again)
    if fault is not None:
        return fault
    answer = effect_of(desk.reader, wish.command, done)
    deadline = deadline_of(wish.command, done.outcome, asked_ms)
    return answer.model_copy(
        update={
            "event_ids": ids(done),
            "proof": proof_of(done.outcome, wish.host),
            "deadline": deadline,
        }
    )


def _waits(desk: Desk, waits: Waits) -> Answer:
    approval = waits.question.approval_id
    card = card_named(desk, approval)
    fault = Fault(
        code="NEEDS_APPROVAL",
        detail=f"{waits.authorization.reason}; a person answers with: agentops approve {approval}",
        rule=waits.authorization.rule,
        approval=approval,
    )
    return Answer(
        ok=False,
        summary=fault.detail,
        event_ids=() if waits.asked is None else (waits.asked.id,),
        data={} if card is None else {"card": list(card.lines())},
        error=fault,
        next=(
            f"ask a person to run: agentops approve {approval}",
            "then make the same call again; nothing was sent",
        ),
    )


def card_named(desk: Desk, approval_id: str) -> Card | None:
    """The open question of that id, as a person sees it."""
    cards = open_questions(desk.reader, desk.ground.clock.wall_us())
    return next((card for card in cards if card.approval_id == approval_id), None)


def _known(known: SettledAct, wish: Wish) -> Answer:
    """The answer to a repeated call whose first outcome was unknown."""
    done = known.verdict == "confirmed"
    what = "was done by the earlier call" if done else "cannot be told from not done"
    fault = None
    if not done:
        fault = Fault(code="UNKNOWN", detail=known.reason, may_have_run=True)
    return Answer(
        ok=done,
        verdict=known.verdict,
        summary=f"{wish.command.name} on {wish.host.name} {what}: {known.reason}; not sent again",
        changed="yes" if done else "unknown",
        event_ids=known.event_ids,
        error=fault,
        next=() if done else ("look first; the same call again acts anew",),
    )


def _launch_id(asked: LaunchJob) -> str:
    """The same for the same start and attempt, so that a repeated call starts nothing twice."""
    start = [asked.host, asked.argv, asked.cwd, asked.log, sorted(asked.env.items())]
    digest = hashlib.sha256(json.dumps(start).encode()).hexdigest()
    return f"mcp-{digest[:16]}-{asked.attempt}"


def _started_before(desk: Desk, command: Launch) -> Answer | None:
    """The answer where the journal shows that this very attempt was started."""
    mine: dict[str, str] = {}
    kinds = {"command_intended", "observation_parsed"}
    for event in desk.reader.events(kinds=kinds):
        payload = event.payload
        if getattr(payload, "command", "") != command.name:
            continue
        arguments = getattr(payload, "arguments", {})
        if arguments.get("launch_id") == command.launch_id:
            mine[payload.command_id] = event.id  # type: ignore[attr-defined]
        if isinstance(payload, ObservationParsed) and payload.command_id in mine:
            said = desk.reader.observation(event)
            if isinstance(said, dict) and said.get("started") is True:
                return Answer(
                    ok=True, verdict="confirmed", changed="no",
                    summary="this attempt was started before; nothing was sent",
                    event_ids=(mine[payload.command_id], event.id), data={"launched": said},
                    next=("check whether it still runs", "a higher attempt starts it once more"),
                )  # fmt: skip
    return None


def _plan(command: Command, host: Host) -> Answer:
    plan: JsonObject = {
        "command": command.name,
        "route": list(host.route()),
        "tier": host.tier,
        "effect": command.effect,
        "arguments": command.arguments(),
        "deadline_ms": command.deadline(),
    }
    return Answer(ok=True, summary=f"would run {command.name}; nothing was sent", data=plan)


def _job_plan(desk: Desk, host: Host, name: str, goal: Goal) -> Answer:
    job = desk.job(name)
    plan: JsonObject = {
        "goal": goal,
        "tier": host.tier,
        "rungs": list(job.stop.rungs),
        "grace": job.stop.grace.model_dump(mode="json"),
        "repairs": [repair.id for repair in job.repair],
        "launch": None if job.launch is None else list(job.launch.argv),
    }
    return Answer(
        ok=True,
        summary=f"would work on {name} to the goal {goal!r}; nothing was sent",
        data=plan,
        next=("observe shows who would be looked at", "the policy chooses each step by evidence"),
    )
