"""Journals kept as text: the events of one that was written elsewhere, told again into a new one.

A kept journal is one JSON object a line: times, actor, incident, host, payload and observation.
Programs that commands hand on whole are cut, and checkout paths replaced; what a report may speak
of is as it was recorded. Told again, events keep times, order and number, not ids and hashes.
"""

import json
from dataclasses import dataclass
from pathlib import Path

from pydantic import TypeAdapter

from journal import Actor, Event, HostRef, Journal, KeyStore, NewEvent, Reader, Settings, Shredded
from journal.events import ObservationParsed
from journal.kinds import AnyPayload
from tests.support.teller import ENGINE, MACHINE, RandomBytes

_PAYLOADS: TypeAdapter[AnyPayload] = TypeAdapter(AnyPayload)
_CUT = 60


@dataclass
class SetClock:
    """A clock that shows what it is set to."""

    now_us: int = 0
    mono: int = 0

    def wall_us(self) -> int:
        """Microseconds since the epoch."""
        return self.now_us

    def mono_ns(self) -> int:
        """Nanoseconds of the machine's clock."""
        return self.mono


def retell(kept: Path, folder: Path) -> Reader:
    """A journal that holds the kept events, in *folder*."""
    clock = SetClock()
    lines = [json.loads(line) for line in kept.read_text("utf-8").splitlines()]
    clock.now_us, clock.mono = lines[0]["ts_us"], lines[0]["mono_ns"]
    settings = Settings(random=RandomBytes(), machine=MACHINE)
    path = folder / f"{kept.stem}.journal"
    with Journal.create(
        path, clock=clock, actor=ENGINE, keys=KeyStore(folder / "keys"), anchor=None,
        settings=settings,
    ) as journal:  # fmt: skip
        for line in lines[1:]:  # the journal itself tells that a session started
            if line["payload"]["kind"] == "sealed":
                continue  # the journal itself seals around what destroys
            clock.now_us, clock.mono = line["ts_us"], line["mono_ns"]
            seen = line.get("observation")
            journal.append(
                NewEvent(
                    _PAYLOADS.validate_json(json.dumps(line["payload"])),
                    incident=line["incident"],
                    host=HostRef(**line["host"]) if line["host"] else None,
                    actor=Actor(**line["actor"]),
                    attachments={} if seen is None else {"observation": json.dumps(seen).encode()},
                )
            )
    return Reader.open(path)


def keep(reader: Reader, kept: Path, replaced: dict[str, str]) -> None:
    """Write a journal's events as text, with texts *replaced* in them."""
    lines = []
    for event in reader.events():
        text = json.dumps(_told(reader, event), ensure_ascii=False, sort_keys=True)
        for old, new in replaced.items():
            text = text.replace(old, new)
        lines.append(text)
    kept.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _told(reader: Reader, event: Event) -> dict[str, object]:
    payload = event.payload.model_dump(mode="json")
    if "argv" in payload:
        payload["argv"] = [word[:_CUT] for word in payload["argv"]]
    told: dict[str, object] = {
        "ts_us": event.ts_us,
        "mono_ns": event.mono_ns,
        "incident": event.incident,
        "host": None
        if event.host is None
        else {"name": event.host.name, "fingerprint": event.host.fingerprint},
        "actor": {
            "kind": event.actor.kind,
            "id": event.actor.id,
            "model": event.actor.model,
            "on_behalf_of": event.actor.on_behalf_of,
        },
        "payload": payload,
    }
    if isinstance(event.payload, ObservationParsed) and "observation" in event.out:
        seen = reader.observation(event)
        if not isinstance(seen, Shredded):
            told["observation"] = seen
    return told
