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
from agentops.policy.wanted import KINDS as WORDS
from agentops.policy.wanted import goal_of, stopped_on_request
from journal import Clock, HostRef, Journal, NewEvent, Reader
from journal.envelope import Actor, Event
from journal.events import ConfigurationLoaded, IncidentOpened, JsonObject
from journal.machine import ulid


@dataclass(frozen=True, slots=True)
class Terms:
    """What the operator asked for: the goal, and whether anything may be changed at all.

    unattended: nobody asked just now. A stop that somebody asked for is carried on as one, and a
    job that was stopped on request is left as it is.
    """

    goal: Literal["recover", "stop"] = "recover"
    shadow: bool = False
    unattended: bool = False


def engine_for(actor: Actor) -> Actor:
    """The engine, acting for the person or agent who opened the journal."""
    return Actor("engine", "agentops.policy", on_behalf_of=actor.on_behalf_of or actor.id)


def open_incident(
    journal: Journal, clock: Clock, job: str, host: Host, incident: str | None, terms: Terms
) -> str:
    """The incident to work on: the one named, the job's open one on this host, or a new one.

    What only looks goes on with nobody's incident, and nobody goes on with what only looked: the
    terms of one would become the other's.

    Raises:
        UsageError: the named incident is not of this job, it is closed, or it is not one to only
            look at.
    """
    reader = journal.reader()
    known = {found.id: found for found in reader.incidents()}
    looked_at = _in_shadow(reader)
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
        if terms.shadow or incident in looked_at:
            raise UsageError(
                f"incident {incident!r}: a shadow look has an incident of its own; leave"
                " out --incident"
            )
        return incident
    hosts = {
        event.incident: event.host.name
        for event in reader.events(kinds={"incident_opened"})
        if event.host is not None
    }
    for found in () if terms.shadow else reversed(list(known.values())):
        if (
            found.job == job
            and found.resolution is None
            and found.id not in looked_at
            and hosts.get(found.id, host.name) == host.name
        ):
            return found.id
    name = ulid(clock.wall_us(), token_bytes)
    what = f"{'stop' if terms.goal == 'stop' else 'recovery'} of {job}"
    asked = f"watch over {job}" if terms.unattended else f"{what} requested"
    opened = IncidentOpened(title=f"{asked} on {host.name}", job=job)
    journal.append(NewEvent(opened, incident=name, host=_ref(host)))
    return name


def _in_shadow(reader: Reader) -> set[str]:
    """The incidents whose newest terms are to look and change nothing."""
    goals = {
        event.incident: goal_of(event.payload)
        for event in reader.events(kinds={"configuration_loaded"})
        if isinstance(event.payload, ConfigurationLoaded) and event.incident is not None
    }
    return {name for name, goal in goals.items() if goal == "shadow"}


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
    earlier = [
        event.payload
        for event in reader.events(incident=incident, kinds={"configuration_loaded"})
        if isinstance(event.payload, ConfigurationLoaded)
    ]
    carries_on = terms.unattended and bool(earlier) and goal_of(earlier[-1]) == "stop"
    learned = learn_patience(reader.events(kinds=KINDS), job, before=incident)
    said: JsonObject = {
        "goal": "stop" if carries_on else terms.goal,
        "tier": host.tier,
        "shadow": terms.shadow or config.policy.shadow,
        "host": host.name,
        "stays_down": terms.unattended
        and stopped_on_request(reader.events(kinds=WORDS), job, host.name),
        "learned_grace_s": learned.grace.seconds,
        "learned_grace_of": learned.grace.of,
        "learned_release_s": learned.release.seconds,
        "learned_release_of": learned.release.of,
    }
    body: JsonObject = {"policy_file": config.body(), "terms": said}
    if earlier and earlier[-1].digest == config.digest() and earlier[-1].body.get("terms") == said:
        return ()
    loaded = ConfigurationLoaded(digest=config.digest(), source=source, body=body)
    return journal.append(
        NewEvent(loaded, incident=incident, host=_ref(host), actor=engine_for(journal.actor))
    )
