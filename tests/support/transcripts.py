"""Journals made of transcripts: one ``imported`` event a message, grade T."""

import tomllib
from pathlib import Path

from journal import Journal, KeyStore, NewEvent, Reader, Settings
from journal.events import Imported, IncidentOpened
from tests.support.teller import AGENT, MACHINE, RandomBytes, StepClock

SOURCES = Path(__file__).parents[1] / "golden" / "reports" / "sources"


def import_source(name: str, folder: Path, *, table: Path | None = None) -> Reader:
    """A journal of what the transcript file knows of one source document's messages."""
    known = tomllib.loads((table or SOURCES / "imports.toml").read_text("utf-8"))[name]
    incident = f"imp-{name}"
    with Journal.create(
        folder / f"{name}.journal",
        clock=StepClock(),
        actor=AGENT,
        keys=KeyStore(folder / f"{name}.keys"),
        anchor=None,
        settings=Settings(random=RandomBytes(), machine=MACHINE),
    ) as journal:
        journal.append(
            NewEvent(IncidentOpened(title=f"source document {name}", job=None), incident=incident)
        )
        for message in known["messages"]:
            journal.append(
                NewEvent(
                    Imported(source=f"source document {name}", grade="T", body=message),
                    incident=incident,
                )
            )
    return Reader.open(folder / f"{name}.journal")
