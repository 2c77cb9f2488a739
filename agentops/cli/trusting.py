"""By which key and which anchors a journal is verified, the same for every command that asks.

Here: what the options give, else what the settings pin, else what the key store remembers. Not
here: the verifying (``journal.verification``), printing its answer (``agentops.cli.auditing``).
"""

from collections.abc import Sequence
from pathlib import Path

from agentops.cli.printing import one_line, say
from agentops.config import Settings
from agentops.errors import UsageError
from journal import KeyStore, SystemClock, Verification, verify
from journal.anchors import FileAnchor
from journal.errors import JournalError
from journal.layout import Layout, read_format
from journal.snapshot_check import is_snapshot, verify_snapshot
from reports.standing import Standing, standing_of


def verified(
    settings: Settings,
    path: Path,
    *,
    key: str | None = None,
    anchors: Sequence[Path] | None = None,
) -> Verification:
    """Verify the journal or snapshot at *path*; key and anchors are as typed, None if not.

    Raises:
        UsageError: an anchor that was given is not there or holds none.
        JournalError: no journal is there, or a key line cannot be read.
    """
    own = is_snapshot(path) or is_own(settings, path)
    line = trusted(key, settings, own=own)
    for anchor in anchors or ():
        if not anchor.is_file():
            raise UsageError(f"--anchor {anchor}: no such file")
        notes = FileAnchor(anchor).notes()
        if notes and all(note.fault for note in notes):
            raise UsageError(f"--anchor {anchor}: holds no anchor; give the file of copied seals")
    keys = KeyStore(settings.places.keys)
    if is_snapshot(path):
        return verify_snapshot(path, keys=keys, key=line, anchors=anchors)
    places: Sequence[Path | str] | None = anchors
    if places is None and settings.anchor is not None and own and path == settings.journal:
        # Beside those that were added since: each may know what another has forgotten.
        recorded = keys.pinned(read_format(Layout(path))).places
        places = list(dict.fromkeys([*recorded, str(settings.anchor)]))
    return verify(path, keys=keys, key=line, anchors=places, clock=SystemClock())


def standing(settings: Settings, path: Path) -> Standing:
    """How far the journal at *path* is what was written, as its reports say it.

    Asked of the key store and of the anchors on this machine: telling opens no connection.
    """
    keys = KeyStore(settings.places.keys)
    places = list(keys.pinned(read_format(Layout(path))).places)
    if settings.anchor is not None and path == settings.journal:
        places.append(str(settings.anchor))
    near = [place for place in dict.fromkeys(places) if not place.startswith("ssh:")]
    line = trusted(None, settings, own=is_own(settings, path))
    return standing_of(verify(path, keys=keys, key=line, anchors=near))


def how_far(found: Verification) -> str:
    """One sentence on how far a journal is what was written."""
    if found.finding is not None:
        return f"Not what was written: {found.finding}"
    if not found.keys:
        return "Not verified: no key that is trusted here has signed this journal"
    parts = [
        f"up to event {each.sealed} of {each.size} in stream {each.stream}"
        f" ({each.anchored} as anchors know them, {each.unsealed} unsealed)"
        for each in found.ranges
    ]
    return f"Verified {'; '.join(parts) or 'nothing: it holds no event'}"


def is_tampered(settings: Settings, deed: str) -> bool:
    """Whether the journal must not be vouched for; if so, one line on stderr says why."""
    finding = verified(settings, settings.journal).finding
    if finding is not None:
        say(f"agentops: {one_line(f'{settings.journal}: {finding}')}; nothing was {deed}")
    return finding is not None


def trusted(given: str | None, settings: Settings, *, own: bool) -> str | None:
    """The key that was given; else the one that the settings pin, for their own journal alone."""
    if given is None and not own:
        return None
    line: str | None = settings.journal_key if given is None else given
    if line is None:
        return None
    if not Path(line).is_file():
        if "+" not in line:
            named = "[journal] key" if given is None else "--key"
            raise UsageError(f"{named} {line!r}: no such file, and no key line (name+hash+base64)")
        return line
    try:
        return Path(line).read_text(encoding="utf-8").strip()
    except UnicodeDecodeError:
        raise UsageError(f"--key {line}: holds no key line; it is no UTF-8 text") from None


def is_own(settings: Settings, path: Path) -> bool:
    """Whether *path* is the journal that the settings pin a key for, or says that it is a copy."""
    mine = settings.keyed or settings.journal
    name = name_of(path)
    return path.resolve() == mine.resolve() or (name is not None and name == name_of(mine))


def name_of(path: Path) -> str | None:
    """The id of the journal at *path*; None where none is there."""
    try:
        return read_format(Layout(path))
    except JournalError:
        return None
