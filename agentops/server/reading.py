"""The tools that read what is known here: hosts, next_step, journal, blob, report, approvals.

None of them reaches a host. Here: bounded pages of the journal. Not here: granting anything; a
person does that elsewhere.
"""

import asyncio

from pydantic import JsonValue

from agentops.approvals import card_lines
from agentops.policy import decide
from agentops.policy.decision import Run
from agentops.recover.approving import open_questions
from agentops.recover.following import Following
from agentops.server.answer import Answer, Output, compact, shown
from agentops.server.arguments import (
    Approvals,
    Hosts,
    NextStep,
    ReadBlob,
    ReadJournal,
    ReadReport,
)
from agentops.server.desk import Desk, Refused
from agentops.server.works import Works
from journal import Event, Reader, Shredded
from journal.errors import EventNotFound
from journal.events import JsonObject
from journal.kinds import PAYLOADS

_RULES_MAX = 6
# What leaves a page of the journal within a brief answer's budget; the next page takes the rest.
_PAGE_CHARS = 5_000
_FROM_THE_START = "0"


async def hosts(desk: Desk, asked: Hosts) -> Answer:
    """The inventory, and the jobs that the policy file knows."""
    rows: list[JsonValue] = [
        {
            "name": host.name,
            "route": " → ".join(host.route()),
            "tier": host.tier,
            "labels": ", ".join(host.labels),
            "key_pinned": host.fingerprint is not None or host.transport == "local",
        }
        for host in desk.ground.inventory
        if asked.filter is None or any(asked.filter in word for word in (host.name, *host.labels))
    ]
    jobs = desk.ground.config.job
    data: JsonObject = {"rows": rows, "jobs": [*sorted(jobs)], "policy": desk.ground.source}
    return Answer(ok=True, summary=f"{len(rows)} hosts, {len(jobs)} jobs", data=data)


async def next_step(desk: Desk, works: Works, asked: NextStep) -> Answer:
    """What policy would do next for a job's open incident; nothing is recorded or sent."""
    host = desk.host(asked.host)
    desk.job(asked.job)
    return await asyncio.to_thread(_next_step, desk, works, asked, host.name)


def _next_step(desk: Desk, works: Works, asked: NextStep, host: str) -> Answer:
    incident = _open_incident(desk.reader, asked.job, host)
    if incident is None:
        return Answer(
            ok=True,
            summary=f"no incident is open for {asked.job} on {host}",
            next=(
                "observe or check tells how it is",
                "launch brings it to train, stop ends it; both open an incident",
            ),
        )
    following = Following(desk.reader, incident)
    following.refresh()
    state = following.state
    config = desk.ground.config
    decision = decide(state, config, desk.ground.clock.wall_us())
    action = decision.action
    running = works.under_way(asked.job, desk.host(host))
    what = f"{action.purpose} {action.command}" if isinstance(action, Run) else action.kind
    body = decision.body()
    data: JsonObject = {
        "phase": decision.phase,
        "goal": state.terms.goal,
        "action": body["action"],
        "because": [{"rule": h.rule, "text": h.text} for h in decision.because[:_RULES_MAX]],
        "failed_guards": [
            {"guard": g.guard, "note": g.note} for g in decision.guards if not g.passed
        ],
        "rejected": [
            {"candidate": r.candidate, "rule": r.rule, "text": r.text}
            for r in decision.rejected[:_RULES_MAX]
        ],
        "open_approvals": [a.approval_id for a in state.approvals if a.answer == "open"],
        "under_way": running is not None,
    }
    return Answer(
        ok=True,
        summary=f"phase {decision.phase}: {what}",
        incident=incident,
        event_ids=tuple(e for hit in decision.because for e in hit.events)[-_RULES_MAX:],
        data=data,
        next=(f"{'stop' if state.terms.goal == 'stop' else 'launch'} with the job carries it on",),
    )


def _open_incident(reader: Reader, job: str, host: str) -> str | None:
    places = {
        event.incident: event.host.name
        for event in reader.events(kinds={"incident_opened"})
        if event.host is not None
    }
    return next(
        (
            found.id
            for found in reversed(reader.incidents())
            if found.job == job and found.resolution is None and places.get(found.id, host) == host
        ),
        None,
    )


async def journal(desk: Desk, asked: ReadJournal) -> Answer:
    """A page of events, oldest first, one line each."""
    for kind in asked.kinds or ():
        if kind not in PAYLOADS:
            known = ", ".join(sorted(PAYLOADS))
            raise Refused("BAD_ARGS", f"kind {kind!r} is not a kind of event; one of {known}")
    return await asyncio.to_thread(_page, desk, asked)


def _page(desk: Desk, asked: ReadJournal) -> Answer:
    reader = desk.reader
    incident = None if asked.incident is None else incident_named(reader, asked.incident)
    kinds = None if asked.kinds is None else set(asked.kinds)
    events = list(reader.events(incident=incident, kinds=kinds, host=asked.host))
    start = max(0, len(events) - asked.limit)
    if asked.after == _FROM_THE_START:
        start = 0
    elif asked.after is not None:
        last = _event(reader, asked.after).id
        start = next((n + 1 for n, e in enumerate(events) if e.id == last), len(events))
    rows: list[JsonValue] = []
    room = _PAGE_CHARS
    for event in events[start : start + asked.limit]:
        row: JsonObject = {
            "id": event.id,
            "ts_us": event.ts_us,
            "kind": event.kind,
            "says": desk.ground.says(event),
        }
        room -= len(compact(row))
        if rows and room < 0:
            break
        rows.append(row)
    left = len(events) - start - len(rows)
    desk.note_reading("journal", incident or "all")
    return Answer(
        ok=True,
        summary=f"{len(rows)} of {len(events)} events" + (f"; {left} more follow" if left else ""),
        incident=incident,
        data={"rows": rows},
        untrusted=("data.rows[].says",),
        next=(f"journal after={events[start + len(rows) - 1].id}",) if left and rows else (),
    )


def incident_named(reader: Reader, given: str | None) -> str:
    """An incident's id from an unambiguous prefix; the latest where none is given.

    Raises:
        Refused: none fits, or several do.
    """
    incidents = [incident.id for incident in reader.incidents()]
    if not incidents:
        raise Refused("NOT_FOUND", "no incident is recorded in this journal")
    if given is None:
        return incidents[-1]
    fitting = [name for name in incidents if name.startswith(given)]
    if len(fitting) != 1:
        raise Refused("NOT_FOUND", f"incident {given!r} fits {len(fitting)} of {len(incidents)}")
    return fitting[0]


def _event(reader: Reader, name: str) -> Event:
    try:
        return reader.event(name)
    except EventNotFound as error:
        raise Refused("NOT_FOUND", str(error)) from error


async def blob(desk: Desk, asked: ReadBlob) -> Answer:
    """A slice of a recorded output, or its lines that hold a text."""
    return await asyncio.to_thread(_slice, desk, asked)


def _slice(desk: Desk, asked: ReadBlob) -> Answer:
    event = _event(desk.reader, asked.event)
    data = stored(desk.reader, event, asked.name)
    desk.note_reading("blob", f"{event.id} {asked.name}")
    handle = f"agentops://blob/{event.id}/{asked.name}"
    if asked.grep is not None:
        wanted = asked.grep.encode()
        lines = [line for line in data.split(b"\n") if wanted in line]
        found = b"\n".join(lines)[: asked.length]
        summary = f"{len(lines)} lines of {asked.name} hold it"
        part = found
    else:
        part = data[asked.offset : asked.offset + asked.length]
        end = asked.offset + len(part)
        summary = f"bytes {asked.offset} to {end} of {len(data)} kept"
    more = asked.grep is None and asked.offset + len(part) < len(data)
    output = Output(
        head=shown(part.decode("utf-8", "backslashreplace")),
        tail="",
        bytes=event.out[asked.name].length_bytes,
        truncated=event.out[asked.name].truncated,
        handle=handle,
    )
    return Answer(
        ok=True,
        summary=summary,
        event_ids=(event.id,),
        output=output,
        untrusted=("output",),
        next=(f"blob offset={asked.offset + len(part)}",) if more else (),
    )


def stored(reader: Reader, event: Event, name: str) -> bytes:
    """An output's kept bytes.

    Raises:
        Refused: the event has none of that name, or it was redacted.
    """
    try:
        data = reader.attachment(event, name)
    except EventNotFound as error:
        raise Refused("NOT_FOUND", str(error)) from error
    if isinstance(data, Shredded):
        raise Refused("NOT_FOUND", f"{name} of {event.id} was redacted: {data.reason}")
    return data


async def report(desk: Desk, asked: ReadReport) -> Answer:
    """An incident's report, every sentence bound to events."""
    reader = desk.reader
    incident = await asyncio.to_thread(incident_named, reader, asked.incident)
    text = await asyncio.to_thread(desk.ground.tells, reader, incident, asked.depth)
    await asyncio.to_thread(desk.note_reading, "report", f"{incident} {asked.depth}")
    return Answer(
        ok=True,
        summary=f"{asked.depth} of incident {incident}, {len(text)} characters",
        incident=incident,
        data={"text": text, "resource": f"agentops://report/{incident}"},
        untrusted=("data.text",),
    )


async def approvals(desk: Desk, _: Approvals) -> Answer:
    """The questions that wait for a person; they are answered by people, never by a tool."""
    cards = await asyncio.to_thread(open_questions, desk.reader, desk.ground.clock.wall_us())
    rows: list[JsonValue] = [
        {"approval": card.approval_id, "card": list(card_lines(card)), "incident": card.incident}
        for card in cards
    ]
    return Answer(
        ok=True,
        summary=f"{len(rows)} questions wait for a person",
        data={"rows": rows},
        next=("a person answers with: agentops approve ID, or agentops deny ID",) if rows else (),
    )
