"""Files: whether a backup was kept, and whether what was written was read back.

Not here: their sizes (``reports.lint.facts.comparing``), whether they were deployed
(``reports.lint.facts.weighing``).
"""

import re
from collections.abc import Iterator

from reports.lint.facts.clauses import Clause
from reports.lint.facts.happenings import World

_BACKUP = re.compile(
    r"\bback(?:ed)?[ -]?ups?\b|\b(?:old|previous|original)\b[^.;,]*\b(?:kept|saved|preserved)\b"
    r"|\bcopy of the (?:old|previous|original)\b",
    re.IGNORECASE,
)
_READ_BACK = re.compile(
    r"\bread back\b|\b(?:checked|verified|compared) after (?:the )?(?:copy|deploy\w*|writing)\b",
    re.IGNORECASE,
)
_MATCHED = re.compile(r"\b(?:match(?:ed|es)?|(?:was|is) (?:correct|right|the wanted one))\b")
Answer = tuple[str, str] | None


def filed(world: World, clause: Clause) -> Iterator[Answer]:
    """C12: backups and readings back are told as recorded."""
    deployed = [h for h in world.of("deployment") if h.inside]
    if not deployed:
        return
    backups = any(h.get("backups") for h in deployed)
    read = any(
        h.get("command") == "file_digest" and h.start_us > deployed[0].end_us
        for h in world.of("command")
    )
    for words, was, what in ((_BACKUP, backups, "a backup"), (_READ_BACK, read, "a reading back")):
        if words.search(clause.text):
            if was == clause.negated:
                yield ("C12", f"{what} is {'' if was else 'not '}on record")
            else:
                yield None
    if _MATCHED.search(clause.text) and _READ_BACK.search(clause.sentence.bare) and clause.negated:
        placed = any(
            v.get("condition") == "repair_in_place" and v.get("verdict") == "confirmed"
            for v in world.of("verdict")
        )
        if placed:
            yield ("C12", "the verdict on repair_in_place is confirmed")
