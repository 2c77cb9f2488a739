"""An incident's story so far as an answer: what was done, what was found, how it stands.

Pure. Here: facts drawn from the incident's events. Not here: reports for people (``reports``).
"""

from collections.abc import Sequence

from agentops.recover import Recovery
from agentops.server.answer import Answer, Changed, Fault
from journal import Event
from journal.events import (
    CommandCompleted,
    CommandIntended,
    CommandOutcomeUnknown,
    CommandReconciled,
    IncidentClosed,
    JsonObject,
    ObservationParsed,
    Resolution,
    Verdict,
    VerdictReached,
)

_EVENTS_MAX = 12
_VERDICTS_MAX = 8
_VERDICT_OF: dict[Resolution, Verdict] = {
    "RECOVERED": "confirmed",
    "STOPPED": "confirmed",
    "NOTHING_TO_DO": "confirmed",
    "HANDED_OVER": "inconclusive",
}


def story(events: Sequence[Event]) -> JsonObject:
    """Acts with what became of each, and the last verdicts."""
    acts: dict[str, JsonObject] = {}
    verdicts: list[JsonObject] = []
    for event in events:
        payload = event.payload
        match payload:
            case CommandIntended() if payload.effect != "observes":
                acts[payload.command_id] = _act(payload)
            case CommandCompleted() if payload.command_id in acts:
                acts[payload.command_id]["outcome"] = "completed"
            case CommandOutcomeUnknown() if payload.command_id in acts:
                acts[payload.command_id]["outcome"] = "unknown"
            case CommandReconciled() if payload.command_id in acts:
                acts[payload.command_id]["settled"] = payload.settled
            case ObservationParsed() if payload.command_id in acts:
                said = payload.observation
                if isinstance(said, dict) and said.get("refusal"):
                    acts[payload.command_id]["refusal"] = said["refusal"]
            case VerdictReached():
                verdicts.append(
                    {
                        "condition": payload.condition.get("kind"),
                        "verdict": payload.verdict,
                        "reason": payload.reason,
                    }
                )
            case _:
                pass
    return {"acts": list(acts.values()), "verdicts": list(verdicts[-_VERDICTS_MAX:])}


def _act(intent: CommandIntended) -> JsonObject:
    act: JsonObject = {"command": intent.command, "outcome": "in_doubt"}
    if intent.victims:
        act["pids"] = [victim.pid for victim in intent.victims]
    for key in ("signal", "launch_id"):
        if key in intent.arguments:
            act[key] = intent.arguments[key]
    files = intent.arguments.get("files")
    if isinstance(files, list):
        act["paths"] = [str(f.get("path")) for f in files if isinstance(f, dict)]
    return act


def changed_by(events: Sequence[Event]) -> Changed:
    """Whether anything was changed on the host: yes, no, or not known yet."""
    acts = story(events)["acts"]
    rows = [act for act in acts if isinstance(act, dict)] if isinstance(acts, list) else []
    if any(act["outcome"] == "completed" and "refusal" not in act for act in rows):
        return "yes"
    if any(act.get("settled") == "done" for act in rows):
        return "yes"
    open_ = any(act["outcome"] in {"unknown", "in_doubt"} and "settled" not in act for act in rows)
    return "unknown" if open_ else "no"


def told(tool: str, job: str, events: Sequence[Event], ended: Recovery | None, says: str) -> Answer:
    """The answer of a call that works on a job: ended, waiting for a person, or still under way."""
    incident = events[0].incident if events else None
    whole = Answer(
        ok=True,
        summary="",
        changed=changed_by(events),
        incident=incident,
        event_ids=_telling(events),
        data=story(events),
    )
    if ended is None:
        summary = f"{job} is still being worked on; last: {says}"
        again = f"call {tool} again with the same arguments: it goes on with this incident"
        return whole.model_copy(
            update={"verdict": "inconclusive", "summary": summary, "next": (again,)}
        )
    if ended.resolution is None:
        return whole.model_copy(update={"ok": False, **_waits(tool, ended)})
    data = {"resolution": ended.resolution, "decisions": ended.decisions, **whole.data}
    update: dict[str, object] = {
        "verdict": _VERDICT_OF[ended.resolution],
        "summary": f"{ended.resolution}: {ended.reason}",
        "data": data,
        "next": ("report tells the incident's whole story",),
    }
    if ended.resolution == "HANDED_OVER":
        update["ok"] = False
        update["error"] = Fault(code="HANDED_OVER", detail=ended.reason)
        update["next"] = ("a person must decide; say so, and do not go around it",)
    return whole.model_copy(update=update)


def _waits(tool: str, ended: Recovery) -> dict[str, object]:
    approval = ended.waits_for[0]
    fault = Fault(
        code="NEEDS_APPROVAL",
        detail=f"a person must say yes to {approval}: agentops approve {approval}",
        rule="G12",
        approval=approval,
    )
    return {
        "verdict": "inconclusive",
        "summary": fault.detail,
        "error": fault,
        "next": (
            f"ask a person to run: agentops approve {approval}",
            f"then call {tool} again with the same arguments",
        ),
    }


def _telling(events: Sequence[Event]) -> tuple[str, ...]:
    """The ids that the story rests on: acts, and the end, which names its evidence.

    While there is no end, the last verdict stands for it.
    """
    acts = [
        event.id
        for event in events
        if isinstance(event.payload, CommandIntended) and event.payload.effect != "observes"
    ]
    ends = [event.id for event in events if isinstance(event.payload, IncidentClosed)]
    verdicts = [event.id for event in events if isinstance(event.payload, VerdictReached)]
    return tuple((*acts, *(ends or verdicts[-1:]))[-_EVENTS_MAX:])
