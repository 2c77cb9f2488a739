"""Hand-written reports with places for labels, filled in from the journal that they speak of."""

import re
from pathlib import Path

from journal import Reader
from journal.events import Imported

HONEST = Path(__file__).parents[1] / "golden" / "reports" / "honest"
_PLACE = re.compile(r"\[@([a-z_]+):(\d+)\]")


def fill(text: str, reader: Reader) -> str:
    """The text with ``[@kind:n]`` made the label of the n-th event of that kind."""
    events = list(reader.events())

    def labelled(found: re.Match[str]) -> str:
        kind, number = found[1], int(found[2])
        if kind == "msg":
            named = [
                e
                for e in events
                if isinstance(e.payload, Imported) and e.payload.body.get("message") == number
            ]
        else:
            named = [e for e in events if e.kind == kind][number - 1 : number]
        event = named[0]
        return f"[e{event.seq:04d}·{event.leaf[:8]}]"

    return _PLACE.sub(labelled, text)
