"""How long the parts of a recovery took: the stop, the repair, the start, to the first heartbeat.

Each runs from the act that begins it to the verdict or reading that ends it. Here: which part a
text names and the spans that may be meant. Not here: comparing (``reports.lint.facts.comparing``).
"""

import re

from reports.lint.facts.happenings import World

_BEAT = re.compile(r"\bfirst heartbeat\b", re.IGNORECASE)
_START = re.compile(
    r"\b(?:relaunch|restart|new start|start(?:ing)?|launch|coming back|to come up)\b", re.IGNORECASE
)
_STOP = re.compile(r"\b(?:stop|stopping|stopped|shut(?:ting)? down|to go|to end)\b", re.IGNORECASE)
_STOPPED = frozenset({"job_stopped", "members_absent"})


def phase(world: World, text: str) -> list[int]:
    """Microseconds that the part named in a text took, in every way to count it."""
    launches = [h for h in world.of("launch") if h.inside]
    sent = [h for h in world.of("signal") if h.get("delivered") is not False]
    if launches and _BEAT.search(text):
        start = launches[-1]
        beats = [h.end_us for h in world.of("heartbeat") if h.start_us > start.start_us]
        return [beats[0] - us for us in (start.start_us, start.end_us)] if beats else []
    if sent and _STOP.search(text):
        ends = _verdicts(world, _STOPPED)
        return [end - us for end in ends for us in (sent[0].start_us, sent[0].end_us)]
    if launches and _START.search(text):
        ends = _verdicts(world, frozenset({"job_started"}))
        return [end - us for end in ends for us in (launches[-1].start_us, launches[-1].end_us)]
    return []


def _verdicts(world: World, conditions: frozenset[str]) -> list[int]:
    return [v.end_us for v in world.of("verdict") if v.get("condition") in conditions]
