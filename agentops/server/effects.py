"""What a completed act says it changed, as an answer: each victim, each file, each start.

Pure but for reading an output from the journal. Not here: acts that did not complete
(``agentops.server.outcomes``).
"""

from agentops.commands import Command
from agentops.commands.deploy import FilesDeployed
from agentops.commands.launch import Launched
from agentops.commands.run_argv import ArgvRan
from agentops.commands.stopping import ProcessesStopped
from agentops.executor import Executed
from agentops.server.answer import Answer, Changed, Code, Fault, output_of
from journal import Reader
from journal.events import JsonObject


def effect_of(reader: Reader, command: Command, done: Executed) -> Answer:
    """What a completed act says, by the kind of its observation."""
    seen = done.observation
    match seen:
        case ProcessesStopped():
            return _stopped(seen)
        case FilesDeployed():
            return _deployed(seen)
        case Launched():
            return _launched(seen)
        case ArgvRan():
            return _ran(reader, done, seen)
        case _:
            return Answer(ok=True, summary=f"{command.name} completed", changed="unknown")


def _stopped(seen: ProcessesStopped) -> Answer:
    gone = [v for v in seen.victims if v.verdict == "gone" or v.refusal in {"gone", "zombie"}]
    rows: JsonObject = {
        "rows": [
            {
                "pid": v.identity.pid,
                "start": v.identity.start_ticks,
                "verdict": v.verdict,
                "refusal": v.refusal,
                "signals": list(v.signals),
                "gone_ms": v.gone_ms,
            }
            for v in seen.victims
        ]
    }
    signalled = any(v.signals for v in seen.victims)
    changed: Changed = "yes" if signalled else "no"
    summary = f"{len(gone)} of {len(seen.victims)} victims gone"
    if len(gone) == len(seen.victims):
        return Answer(ok=True, verdict="confirmed", summary=summary, changed=changed, data=rows)
    changed_identity = any(v.refusal == "identity_changed" for v in seen.victims)
    code: Code = "IDENTITY_CHANGED" if changed_identity else "FAILED"
    if any(v.verdict == "unstoppable" for v in seen.victims):
        code = "UNKILLABLE"
    fault = Fault(code=code, detail=summary, may_have_run=signalled)
    return Answer(
        ok=False, verdict="refuted", summary=summary, changed=changed, data=rows, error=fault,
        next=("observe anew; name victims by what stands there now",),
    )  # fmt: skip


def _deployed(seen: FilesDeployed) -> Answer:
    rows: JsonObject = {"rows": [file.model_dump(mode="json") for file in seen.files]}
    wrote = any(file.changed for file in seen.files)
    changed: Changed = "yes" if wrote else "no"
    if seen.deployed:
        summary = "all files stand as wanted" + ("" if wrote else "; nothing had to be written")
        return Answer(ok=True, verdict="confirmed", summary=summary, changed=changed, data=rows)
    fault = Fault(code="FAILED", detail=str(seen.problem))
    return Answer(
        ok=False, verdict="refuted", summary=fault.detail, changed=changed, data=rows, error=fault
    )


def _launched(seen: Launched) -> Answer:
    data: JsonObject = seen.model_dump(mode="json", exclude_none=True)
    if seen.started:
        pid = seen.identity.pid if seen.identity is not None else "?"
        return Answer(
            ok=True, verdict="confirmed", summary=f"started as pid {pid}", changed="yes", data=data,
            next=("a process that was started may end: check it",),
        )  # fmt: skip
    running = seen.refusal == "already_running"
    changed: Changed = "unknown" if seen.refusal == "not_observed" else "no"
    if running:
        summary = "it runs already, by this launch id; nothing was started"
        return Answer(ok=True, verdict="confirmed", summary=summary, changed="no", data=data)
    fault = Fault(
        code="FAILED", detail=f"{seen.refusal}: {seen.detail}"[:500], may_have_run=changed != "no"
    )
    return Answer(
        ok=False, verdict="refuted", summary=fault.detail, changed=changed, data=data, error=fault,
        untrusted=("error.detail", "summary", "data.detail"),
    )  # fmt: skip


def _ran(reader: Reader, done: Executed, seen: ArgvRan) -> Answer:
    kept = done.outcome.out.get("stdout")
    data: JsonObject = {"exit_status": seen.exit_status, "stderr": seen.stderr[-500:]}
    output = None
    if kept is not None:
        stored = reader.attachment(done.outcome, "stdout")
        output = output_of(
            stored if isinstance(stored, bytes) else b"",
            length=kept.length_bytes,
            truncated=kept.truncated,
            handle=f"agentops://blob/{done.outcome.id}/stdout",
            full=False,
        )
    return Answer(
        ok=True, summary=f"ended with exit status {seen.exit_status}", changed="unknown",
        data=data, output=output, untrusted=("data.stderr", "output"),
        next=("an exit status is no proof of an effect: check what it should have done",),
    )  # fmt: skip
