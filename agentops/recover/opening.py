"""Opening an incident, or going on with one that was left open.

Here: which incident is meant, the configuration event that says under what terms it is handled, and
what this job's history teaches about its stops. Not here: the loop.
"""

from dataclasses import dataclass
from secrets import token_bytes
from typing import Literal

from agentops.errors import UsageError
from agentops.hosts import Host
from agentops.policy import PolicyConfig
from agentops.policy.learned import KINDS, learn_patience
from journal import Clock, HostRef, Journal, NewEvent
from journal.envelope import Actor, Event
from journal.events import ConfigurationLoaded, IncidentOpened, JsonObject
from journal.machine import ulid


@dataclass(frozen=True, slots=True)
class Terms:
    """What the operator asked for: the goal, and whether anything may be changed at all."""

    goal: Literal["recover", "stop"] = "recover"
    shadow: bool = False


def engine_for(actor: Actor) -> Actor:
    """The engine, acting for the person or agent who opened the journal."""
    return Actor("engine", "agentops.policy", on_behalf_of=actor.on_behalf_of or actor.id)


def open_incident(
    journal: Journal, clock: Clock, job: str, host: Host, incident: str | None, goal: str
) -> str:
    """The incident to work on: the one named, the job's open one on this host, or a new one.

    Raises:
        UsageError: the named incident is not of this job, or it is closed.
    """
    reader = journal.reader()
    known = {found.id: found for found in reader.incidents()}
    if incident is not None:
        found = known.get(incident)
        if found is None:
            raise UsageError(
                f"incident {incident!r} is not in this journal; see agentops incident list"
            )
        if found.resolution is not None:
            raise UsageError(
                f"incident {incident!r} is closed ({found.resolution}); open a new one"
            )
        if found.job != job:
            raise UsageError(f"incident {incident!r} is about job {found.job!r}, not {job!r}")
        return incident
    hosts = {
        event.incident: event.host.name
        for event in reader.events(kinds={"incident_opened"})
        if event.host is not None
    }
    for found in reversed(list(known.values())):
        if (
            found.job == job
            and found.resolution is None
            and hosts.get(found.id, host.name) == host.name
        ):
            return found.id
    name = ulid(clock.wall_us(), token_bytes)
    title = f"stop of {job} requested" if goal == "stop" else f"recovery of {job} requested"
    opened = IncidentOpened(title=f"{title} on {host.name}", job=job)
    journal.append(NewEvent(opened, incident=name, host=_ref(host)))
    return name


def _ref(host: Host) -> HostRef:
    return HostRef(host.name, host.fingerprint or host.transport)


def load_configuration(
    journal: Journal,
    incident: str,
    job: str,
    host: Host,
    config: PolicyConfig,
    terms: Terms,
    *,
    source: str,
) -> tuple[Event, ...]:
    """Record the configuration and terms in force, unless the incident's last ones are the same."""
    reader = journal.reader()
    learned = learn_patience(reader.events(kinds=KINDS), job, before=incident)
    said: JsonObject = {
        "goal": terms.goal,
        "tier": host.tier,
        "shadow": terms.shadow or config.policy.shadow,
        "host": host.name,
        "learned_grace_s": learned.grace.seconds,
        "learned_grace_of": learned.grace.of,
        "learned_release_s": learned.release.seconds,
        "learned_release_of": learned.release.of,
    }
    body: JsonObject = {"policy_file": config.body(), "terms": said}
    earlier = [
        event.payload
        for event in reader.events(incident=incident, kinds={"configuration_loaded"})
        if isinstance(event.payload, ConfigurationLoaded)
    ]
    if earlier and earlier[-1].digest == config.digest() and earlier[-1].body.get("terms") == said:
        return ()
    loaded = ConfigurationLoaded(digest=config.digest(), source=source, body=body)
    return journal.append(
        NewEvent(loaded, incident=incident, host=_ref(host), actor=engine_for(journal.actor))
    )
