"""How an observation becomes facts.

Here: one reader per command whose answer policy uses; each takes recorded JSON and is total: what
it cannot read teaches nothing. Not here: deciding, or the commands' own models.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pydantic import JsonValue

from agentops.diagnosis.gathering import standing_in
from agentops.policy.devices import FELL, STATUS, fallen_mib
from agentops.policy.facts import Fact, FactTable, FactValue
from agentops.policy.ledger import Sample, Tail, Waited
from agentops.policy.process import read_process
from agentops.policy.processes import HOST, TABLE, process_subject
from journal.events import JsonObject

BEAT = ("heartbeat", "seen")
PORTS = (HOST, "listening_ports")
SHARED_MEMORY = (HOST, "shared_memory")
HELD_BY = "held_by"
STUCK_SINCE = "uninterruptible_since_us"
_TEXT_MAX = 400
_FINITE = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_BEAT_FIELDS = (
    "run_id",
    "launch_id",
    "pid",
    "start_ticks",
    "state",
    "step",
    "steps",
    "loss",
    "sequence",
    "checkpoint_step",
    "checkpoint_writing",
    "resumed_from_step",
)


@dataclass(frozen=True, slots=True)
class Learned:
    """What one observation adds: facts, and the sample, tail or wait that it was."""

    facts: FactTable
    sample: Sample | None = None
    tail: Tail | None = None
    waited: Waited | None = None


@dataclass(frozen=True, slots=True)
class Source:
    """Where an observation comes from: the event that holds it, when, and the place in the fold."""

    event: str
    at_us: int
    order: int
    arguments: JsonObject

    def fact(self, subject: str, predicate: str, value: FactValue) -> Fact:
        """One fact resting on this source."""
        return Fact(subject, predicate, value, self.event, self.at_us, self.order)


def finite(loss: str | None) -> bool | None:
    """Whether a decimal string is a finite number; None where nothing was said.

    >>> finite("3.45"), finite("nan"), finite(None)
    (True, False, None)
    """
    return None if loss is None else _FINITE.fullmatch(loss.strip()) is not None


def learn(facts: FactTable, command: str, observation: JsonValue, source: Source) -> Learned:
    """The table after *command* was answered with *observation*."""
    reader = _READERS.get(command)
    if reader is None or not isinstance(observation, dict):
        return Learned(facts)
    return reader(facts, observation, source)


def log_subject(path: str) -> str:
    """The fact subject of one log file."""
    return f"log:{path}"


def lock_subject(path: str) -> str:
    """The fact subject of one lock file."""
    return f"lock:{path}"


def model_subject(path: str) -> str:
    """The fact subject of one model's folder."""
    return f"model:{path}"


def segment_subject(inode: int, name: str) -> str:
    """The fact subject of one segment of shared memory; an inode may be given away again."""
    return f"segment:{inode}:{name}"


def file_subject(path: str) -> str:
    """The fact subject of one file."""
    return f"file:{path}"


def _path(observation: JsonObject, source: Source) -> str:
    for holder in (observation, source.arguments):
        path = holder.get("path")
        if isinstance(path, str):
            return path
    return ""


def _processes(facts: FactTable, seen: JsonObject, source: Source) -> Learned:
    rows = seen.get("processes")
    if not isinstance(rows, list):
        return Learned(facts)
    about = {key: value for key, value in seen.items() if key != "processes"}
    about["rows"] = len(rows)
    complete = about.get("complete") is True
    kept = facts.without_subjects("process:") if complete else facts
    new = [source.fact(*TABLE, about)]
    for row in rows:
        process = read_process(row)
        if process is None:
            continue
        subject = process_subject(process.pid, process.start_ticks)
        new.append(source.fact(subject, "row", process))
        if process.state == "D":
            since = facts.value(subject, STUCK_SINCE)
            new.append(source.fact(subject, STUCK_SINCE, source.at_us if since is None else since))
    return Learned(kept.with_facts(new))


def _heartbeat(facts: FactTable, seen: JsonObject, source: Source) -> Learned:
    """One fact for the whole file: its parts were true together, or not at all."""
    beat = seen.get("heartbeat")
    said: JsonObject = {"exists": seen.get("exists") is True}
    if not isinstance(beat, dict):
        return Learned(facts.with_facts([source.fact(*BEAT, said)]))
    said |= {field: beat[field] for field in _BEAT_FIELDS if field in beat}
    return Learned(facts.with_facts([source.fact(*BEAT, said)]), _sample(beat, source))


def beat_value(facts: FactTable, field: str) -> JsonValue:
    """One field of the heartbeat as last seen; None where it is not known."""
    said = facts.value(*BEAT)
    return said.get(field) if isinstance(said, dict) else None


def _sample(beat: JsonObject, source: Source) -> Sample | None:
    pid, start, step = beat.get("pid"), beat.get("start_ticks"), beat.get("step")
    sequence, loss = beat.get("sequence"), beat.get("loss")
    launch, written = beat.get("launch_id"), beat.get("checkpoint_step")
    if not isinstance(pid, int) or not isinstance(step, int):
        return None
    return Sample(
        at_us=source.at_us,
        order=source.order,
        event=source.event,
        run_id=str(beat.get("run_id", "")),
        launch_id=launch if isinstance(launch, str) else None,
        pid=pid,
        start_ticks=start if isinstance(start, int) else -1,
        state=str(beat.get("state", "")),
        step=step,
        sequence=sequence if isinstance(sequence, int) else 0,
        loss=loss if isinstance(loss, str) else None,
        checkpoint_writing=beat.get("checkpoint_writing") is True,
        checkpoint_step=written if isinstance(written, int) else None,
    )


def _log(facts: FactTable, seen: JsonObject, source: Source) -> Learned:
    lines = seen.get("lines")
    if not isinstance(lines, list):
        return Learned(facts)
    text = [line for line in lines if isinstance(line, str)]
    found: dict[str, JsonValue] = {}
    counts: dict[str, int] = {}
    # A failure that the job outlived is no reason to do anything to it.
    for match, count in standing_in(text):
        counts[match.signature] = count
        found[match.signature] = match.text[:_TEXT_MAX]
    path = _path(seen, source)
    subject = log_subject(path)
    tallies: dict[str, JsonValue] = dict(sorted(counts.items()))
    new = [
        source.fact(subject, "size_bytes", seen.get("size_bytes")),
        source.fact(subject, "signatures", tallies),
        source.fact(subject, "first_texts", dict(sorted(found.items()))),
        source.fact(subject, "last_line", text[-1][:_TEXT_MAX] if text else None),
    ]
    tail = Tail(source.at_us, source.order, source.event, path, tuple(sorted(counts.items())))
    return Learned(facts.with_facts(new), tail=tail)


def _digest(facts: FactTable, seen: JsonObject, source: Source) -> Learned:
    listed = seen.get("files")
    files = listed if isinstance(listed, list) else [seen]
    new = []
    for item in files:
        if isinstance(item, dict):
            subject = file_subject(_path(item, source))
            new.append(source.fact(subject, "exists", item.get("exists", True)))
            new.append(source.fact(subject, "sha256", item.get("sha256")))
    return Learned(facts.with_facts(new))


def _gpu(facts: FactTable, seen: JsonObject, source: Source) -> Learned:
    """What the cards hold now, and by how much less that is than in the look before."""
    now: JsonObject = dict(seen)
    new = [source.fact(*STATUS, now)]
    fallen = fallen_mib(facts.value(*STATUS), now)
    if fallen:
        new.append(source.fact(*FELL, fallen))
    return Learned(facts.with_facts(new))


def _host(facts: FactTable, seen: JsonObject, source: Source) -> Learned:
    return Learned(facts.with_facts([source.fact(HOST, "probe", dict(seen))]))


def _ports(facts: FactTable, seen: JsonObject, source: Source) -> Learned:
    """Which ports somebody listens on; who it is stands in the observation."""
    listed = seen.get("sockets")
    if not isinstance(listed, list):
        return Learned(facts)
    taken = {row.get("port") for row in listed if isinstance(row, dict)}
    numbers: list[JsonValue] = [*sorted(port for port in taken if isinstance(port, int))]
    return Learned(facts.with_facts([source.fact(*PORTS, numbers)]))


def _locks(facts: FactTable, seen: JsonObject, source: Source) -> Learned:
    """Each lock file: whether it stands, what it says, and whether the kernel knows a holder."""
    new = []
    for row in _rows(seen, "files"):
        said: JsonObject = {
            "exists": row.get("exists") is True,
            "text": row.get("pid_text"),
            "held": bool(row.get("locks")),
        }
        new.append(source.fact(lock_subject(str(row.get("path"))), "seen", said))
    return Learned(facts.with_facts(new))


def _shared_memory(facts: FactTable, seen: JsonObject, source: Source) -> Learned:
    """What lies there now; and for each segment everybody who was ever seen to hold it."""
    new = [source.fact(*SHARED_MEMORY, dict(seen))]
    for row in _rows(seen, "segments"):
        inode, pids, starts = row.get("inode"), row.get("held_by"), row.get("held_since_ticks")
        if not isinstance(inode, int) or not isinstance(pids, list) or not pids:
            continue
        subject = segment_subject(inode, str(row.get("name")))
        known = facts.value(subject, HELD_BY)
        holders: list[JsonValue] = list(known) if isinstance(known, list) else []
        listed = starts if isinstance(starts, list) else []
        for pid, start in zip(pids, listed, strict=False):
            if [pid, start] not in holders:
                holders.append([pid, start])
        new.append(source.fact(subject, HELD_BY, holders))
    return Learned(facts.with_facts(new))


def _model(facts: FactTable, seen: JsonObject, source: Source) -> Learned:
    """Whether the files are whole, and how many shards are not."""
    broken = sum(row.get("problem") is not None for row in _rows(seen, "shards"))
    said: JsonObject = {"intact": seen.get("intact") is True, "broken": broken}
    return Learned(
        facts.with_facts([source.fact(model_subject(_path(seen, source)), "seen", said)])
    )


def _rows(seen: JsonObject, key: str) -> list[JsonObject]:
    """The objects in a list of an observation; nothing of anything else."""
    listed = seen.get(key)
    return [row for row in listed if isinstance(row, dict)] if isinstance(listed, list) else []


def _wait(facts: FactTable, seen: JsonObject, source: Source) -> Learned:
    """A wait's end is something that the engine did, not what the host is: no fact."""
    condition = source.arguments.get("condition")
    kind = condition.get("kind") if isinstance(condition, dict) else None
    waited = Waited(str(kind), seen.get("met") is True, source.order, source.event)
    return Learned(facts, waited=waited)


_READERS: Mapping[str, Callable[[FactTable, JsonObject, Source], Learned]] = {
    "list_processes": _processes,
    "read_heartbeat": _heartbeat,
    "tail_log": _log,
    "file_digest": _digest,
    "gpu_status": _gpu,
    "ports": _ports,
    "locks": _locks,
    "shared_memory": _shared_memory,
    "check_model": _model,
    "probe_host": _host,
    "wait_until": _wait,
}
