"""Where each journal lies, so that looking into a copy does not go on in it.

Two folders with one journal's id end each other's history: what either seals contradicts the other
at the anchors. So who reads a copy while the original lies where it was leaves no trace in it. Not
here: a copy that somebody writes to on purpose (``verify`` calls it a fork).
"""

from contextlib import suppress
from pathlib import Path

from agentops.config import Settings
from journal.disk import make_folder, write_whole
from journal.errors import JournalError
from journal.layout import Layout, read_format


def remember(settings: Settings) -> None:
    """Note where the journal lies, unless the place that is noted still holds it.

    A state folder that cannot be written is no fault: the next session notes it.
    """
    note = _note(settings)
    if note is None or original(settings) is not None:
        return
    place = str(settings.journal.resolve()).encode() + b"\n"
    with suppress(OSError, JournalError):
        if not note.exists() or note.read_bytes() != place:
            make_folder(note.parent)
            write_whole(note, place)


def original(settings: Settings) -> Path | None:
    """The other folder that holds this journal, if the one that was given is a copy of it."""
    note = _note(settings)
    if note is None:
        return None
    try:
        place = Path(note.read_text(encoding="utf-8").rstrip("\n"))
        if read_format(Layout(place)) != note.name or place.samefile(settings.journal):
            return None
    except (OSError, ValueError, JournalError):
        return None
    return place


def _note(settings: Settings) -> Path | None:
    """The file that says where; None where the journal's id could name a file elsewhere."""
    try:
        name = read_format(Layout(settings.journal))
    except JournalError:
        return None
    return settings.places.state / "journals" / name if name.isalnum() else None
