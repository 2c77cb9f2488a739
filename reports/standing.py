"""How far a journal was found to be what was written, as a report says it of its own events.

Here: the seals that lie beside the log, what whoever opened the journal found out about them, and
under which findings a report of it may have been made. Not here: the finding out
(``journal.verification``), the words (``reports.predicates.standing``).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from journal import Event, Reader, Verification
from journal.notes import parse_note
from journal.seals import read_notes, split_origin

_TIME = "ts_us "


@dataclass(frozen=True, slots=True)
class Seal:
    """One signed head as it lies in ``seals.jsonl``; ``number`` is its line there, from one.

    What it says is believed only as far as a verification reached.
    """

    number: int
    stream: str
    size: int
    ts_us: int | None


@dataclass(frozen=True, slots=True)
class Standing:
    """What a verification found: per stream how many events a trusted key signed and anchors know.

    finding says what is not as it was written; with one, nothing else counts.
    """

    sealed: Mapping[str, int] = field(default_factory=dict)
    anchored: Mapping[str, int] = field(default_factory=dict)
    is_trusted: bool = True
    finding: str = ""


def standing_of(found: Verification) -> Standing:
    """A verification's answer, for a report to tell."""
    return Standing(
        sealed={each.stream: each.sealed for each in found.ranges},
        anchored={each.stream: each.anchored for each in found.ranges},
        is_trusted=bool(found.keys),
        finding="" if found.finding is None else str(found.finding),
    )


def seals_of(reader: Reader) -> tuple[Seal, ...]:
    """The signed heads of this journal's streams in the order of the file, signatures unread."""
    found = []
    for stored in read_notes(reader.layout.seals):
        checkpoint = parse_note(stored.note)
        if isinstance(checkpoint, str):
            continue
        origin = split_origin(checkpoint.origin)
        if origin is None or origin[0] != reader.journal_id or origin[1] is None:
            continue
        said = next((line for line in checkpoint.extensions if line.startswith(_TIME)), "")
        digits = said.removeprefix(_TIME)
        ts_us = int(digits) if digits.isascii() and digits.isdecimal() else None
        found.append(Seal(stored.number, origin[1], checkpoint.size, ts_us))
    return tuple(found)


def covering(seals: Sequence[Seal], sealed: int, stream: str, last: int) -> Seal | None:
    """The first seal over event *last* of a stream, else the widest, of those within *sealed*.

    The first one stays the same however long the journal goes on.
    """
    within = [seal for seal in seals if seal.stream == stream and seal.size <= sealed]
    first = next((seal for seal in within if seal.size > last), None)
    return first or max(within, key=lambda seal: seal.size, default=None)


def covering_event(seals: Sequence[Seal], event: Event) -> Seal | None:
    """The first seal over one event, signature unread; None while none covers it."""
    of_it = (seal for seal in seals if seal.stream == event.stream and seal.size > event.seq)
    return next(of_it, None)


def possible(seals: Sequence[Seal]) -> Iterator[Standing | None]:
    """Under what findings a report may have been made while the journal grew to these seals.

    The last one is all that can be said by now; None stands for a report that asked nobody.
    """
    yield None
    yield Standing(is_trusted=False)
    sealed: dict[str, int] = {}
    for seal in (None, *seals):
        if seal is not None:
            sealed[seal.stream] = max(seal.size, sealed.get(seal.stream, 0))
        yield Standing(sealed=dict(sealed))
        yield Standing(sealed=dict(sealed), anchored=dict(sealed))
