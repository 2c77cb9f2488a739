"""Words of the trainer's log: what a clause says that the log holds, it holds.

Not here: quotations, which are held to the whole record (``reports.lint.rules.wording``).
"""

import re
from collections.abc import Iterator

from reports.lint.facts.clauses import Clause
from reports.lint.facts.happenings import World

_LOG = re.compile(r"\blog(?:s|file| tails?)?\b", re.IGNORECASE)
_TOKEN = re.compile(
    r"\b(?:[A-Z][a-z]+[A-Z]\w*|\w+(?:Error|Exception|Warning))\b"
    r"|\b(?:traceback|nan|out of memory|oom|segmentation fault|warnings?|errors?)\b"
)
_HOLDS = re.compile(
    r"\b(?:show\w*|has|had|have|contain\w*|hold\w*|say\w*|said|list\w*|print\w*|end\w*|record\w*"
    r"|mention\w*|is|are|was|were|appear\w*|found|seen|full of|report\w*|there)\b",
    re.IGNORECASE,
)
Answer = tuple[str, str] | None


def logged(world: World, clause: Clause) -> Iterator[Answer]:
    """C12: a mark of trouble that the log is said to hold, or not to hold."""
    lines = [str(h.get("text")).lower() for h in world.of("line")]
    if not lines or _LOG.search(clause.text) is None or _HOLDS.search(clause.text) is None:
        return
    for token in dict.fromkeys(_TOKEN.findall(clause.text)):
        word = token.lower().removesuffix("s") if token.islower() else token.lower()
        held = any(re.search(rf"\b{re.escape(word)}", line) for line in lines)
        if held == clause.negated:
            has = "holds" if held else "does not hold"
            yield ("C12", f"the log {has} {token}")
        else:
            yield None
