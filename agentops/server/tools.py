"""The closed set of tools: name, words, arguments, what each may do, and who carries it out.

Reads and writes never share a name. Here: the table, schemas for clients, and one call with its
faults turned into answers. Not here: a protocol (``agentops.server.protocol``).
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from agentops.commands.deploy import DeployFiles
from agentops.commands.files import TailLog
from agentops.commands.inspecting import InspectProcess
from agentops.commands.launch import Launch
from agentops.commands.observing import Observe
from agentops.commands.run_argv import RunArgv
from agentops.commands.signals import SignalProcess
from agentops.commands.waiting import WaitUntil
from agentops.errors import AgentopsError
from agentops.server import acting, arguments, checking, looking, reading
from agentops.server.answer import BRIEF_TOKENS, FULL_TOKENS, Answer, Fault
from agentops.server.arguments import SLICE_S, Arguments
from agentops.server.desk import Caller, Desk, Refused
from agentops.server.schemas import flat_schema
from agentops.server.waiting import patiently
from agentops.server.works import Works
from journal import JournalError
from journal.events import Effect, JsonObject


@dataclass(frozen=True, slots=True)
class Bench:
    """What a tool works with: the common ground, and what is under way on it."""

    desk: Desk
    works: Works


_Run = Callable[[Bench, Caller, Any], Awaitable[Answer]]


@dataclass(frozen=True, slots=True)
class Tool:
    """One tool. commands are those that it may send; none reaches a host where it is empty.

    repeatable says that the very same call made again has no further effect.
    """

    name: str
    says: str
    model: type[Arguments]
    run: _Run
    effect: Effect
    commands: tuple[str, ...] = ()
    repeatable: bool = True

    def schema(self) -> JsonObject:
        """The arguments' JSON schema: flat, closed, without references."""
        return flat_schema(self.model)


_SIGNALS = ("stop_processes", SignalProcess.name)

_ALL: tuple[Tool, ...] = (
    Tool(
        "hosts",
        "Hosts, how each is reached, its tier; and the jobs known. Start here.",
        arguments.Hosts,
        lambda b, _, a: reading.hosts(b.desk, a),
        "observes",
    ),
    Tool(
        "observe",
        "Processes, GPUs, heartbeat, disk, tmux of a host in one round trip. Give job to see that"
        " job only. Its event id names what stop and check act on.",
        arguments.ObserveHost,
        lambda b, c, a: looking.observe(b.desk, c, a),
        "observes",
        (Observe.name,),
    ),
    Tool(
        "inspect_process",
        "One process: tree, files, ports, GPUs, and what would restart it.",
        arguments.Inspect,
        lambda b, c, a: looking.inspect_process(b.desk, c, a),
        "observes",
        (InspectProcess.name,),
    ),
    Tool(
        "tail",
        "The end of a log, with known failures found in it.",
        arguments.Tail,
        lambda b, c, a: looking.tail(b.desk, c, a),
        "observes",
        (TailLog.name,),
    ),
    Tool(
        "check",
        "A verdict on one condition now: confirmed only by positive proof, else refuted or"
        " inconclusive. job_absent: is it gone? job_advances: does it train (10 s)?",
        arguments.Check,
        lambda b, c, a: checking.check(b.desk, c, a),
        "observes",
        (WaitUntil.name, "list_processes", "check_model", "read_heartbeat"),
    ),
    Tool(
        "wait_until",
        "Waits on the host for a condition, 45 s a call, with progress.",
        arguments.WaitFor,
        lambda b, c, a: patiently(
            checking.wait_until(b.desk, c, a), c, min(a.timeout_s, SLICE_S), "waiting"
        ),
        "observes",
        (WaitUntil.name, "read_heartbeat"),
    ),
    Tool(
        "next_step",
        "What policy would do next about a job, by which rules, and what is missing.",
        arguments.NextStep,
        lambda b, _, a: reading.next_step(b.desk, b.works, a),
        "observes",
    ),
    Tool(
        "stop",
        "Stops a job by the gentlest rung that works and proves that it is gone; or victims of one"
        " observation. Call again with the same arguments to go on; nothing is done twice.",
        arguments.Stop,
        lambda b, c, a: acting.stop(b.desk, b.works, c, a),
        "destroys",
        _SIGNALS,
    ),
    Tool(
        "deploy",
        "Writes text files, all or none, each only over what is expected there; keeps backups.",
        arguments.Deploy,
        lambda b, c, a: acting.deploy(b.desk, c, a),
        "changes",
        (DeployFiles.name,),
    ),
    Tool(
        "launch",
        "Brings a job to train: finds out, stops what hangs, mends, starts, proves progress. Or"
        " starts an argv once. Call again with the same arguments to go on.",
        arguments.LaunchJob,
        lambda b, c, a: acting.launch(b.desk, b.works, c, a),
        "destroys",
        (*_SIGNALS, DeployFiles.name, Launch.name),
    ),
    Tool(
        "run_argv",
        "Runs any argv, without a shell. A person is asked every time; prefer the other tools.",
        arguments.RunFree,
        lambda b, c, a: acting.run_argv(b.desk, c, a),
        "destroys",
        (RunArgv.name,),
        repeatable=False,
    ),
    Tool(
        "journal",
        "Recorded events, the latest page first.",
        arguments.ReadJournal,
        lambda b, _, a: reading.journal(b.desk, a),
        "observes",
    ),
    Tool(
        "blob",
        "A slice of a recorded output, or its lines with a text.",
        arguments.ReadBlob,
        lambda b, _, a: reading.blob(b.desk, a),
        "observes",
    ),
    Tool(
        "report",
        "An incident's report; each sentence is bound to events.",
        arguments.ReadReport,
        lambda b, _, a: reading.report(b.desk, a),
        "observes",
    ),
    Tool(
        "approvals",
        "Questions that wait for a person. Only a person can answer, outside these tools.",
        arguments.Approvals,
        lambda b, _, a: reading.approvals(b.desk, a),
        "observes",
    ),
)
TOOLS: Mapping[str, Tool] = {tool.name: tool for tool in _ALL}


async def call(bench: Bench, caller: Caller, name: str, given: JsonObject) -> Answer:
    """Call a tool; what a caller can mend, and what the world refuses, is an answer."""
    tool = TOOLS.get(name)
    if tool is None:
        return Refused("BAD_ARGS", f"no tool {name!r}; one of {', '.join(TOOLS)}").answer()
    try:
        asked = _asked(tool, given)
        answer = await tool.run(bench, caller, asked)
    except Refused as refused:
        return refused.answer()
    except AgentopsError as error:
        return Refused("BAD_ARGS", str(error)).answer()
    except JournalError as error:
        return _unwritten(error)
    full = getattr(asked, "detail", "brief") == "full" or name in {"report", "blob"}
    return answer.fitted(FULL_TOKENS if full else BRIEF_TOKENS)


def _asked(tool: Tool, given: JsonObject) -> Arguments:
    # Some clients must fill every argument in and say null for those that they leave out.
    said = {key: value for key, value in given.items() if value is not None}
    try:
        return tool.model.model_validate(said)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(str(part) for part in first["loc"]) or tool.name
        fields = ", ".join(tool.model.model_fields) or "none"
        raise Refused(
            "BAD_ARGS", f"{tool.name}: {place}: {first['msg']} (arguments: {fields})"
        ) from error


def _unwritten(error: JournalError) -> Answer:
    """The journal would not take it: nothing is sent after that, but something may have been."""
    fault = Fault(code="JOURNAL", detail=str(error)[:500], may_have_run=True)
    return Answer(
        ok=False,
        verdict="inconclusive",
        summary=fault.detail,
        changed="unknown",
        error=fault,
        next=("journal shows what is recorded; a person must look at the journal",),
    )
