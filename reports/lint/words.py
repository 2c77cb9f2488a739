"""Word families that the rules look for: what a sentence promises, explains, hedges or praises.

Here: patterns, each one meaning. Words come from what they do to a sentence, not from any one
text; a test refuses an entry that only one document of the corpus holds. Not here: when a match is
a fault (``reports.lint.rules``).
"""

import re


def family(*words: str) -> re.Pattern[str]:
    """A pattern of whole words or stems (a trailing ``*`` takes any ending)."""
    parts = [re.escape(word).replace(r"\*", r"\w*").replace(r"\ ", r"\s+") for word in words]
    return re.compile(rf"(?<![\w-])(?:{'|'.join(parts)})(?![\w-])", re.IGNORECASE)


ABSOLUTE = (
    "absolut*", "always", "certain", "certainly", "certainty", "conclusive*", "definitely",
    "definitive*",
    "ensur*", "either way", "every time", "exactly", "forces the", "fully", "guarante*",
    "immediate*", "impossible", "instant*", "invariably", "never", "no doubt", "obviously",
    "perfect*", "prove", "proves", "proven", "regardless", "surely", "undoubted*", "unmistakab*",
    "without doubt", "without risk", "high confidence", "with confidence",
)  # fmt: skip
PROOF = (
    "confirm", "confirms", "confirmed", "confirmation", "demonstrat*", "establish*", "reveal*",
    "showed that", "shows that", "tells the story", "tell the story", "verifies", "verified",
)  # fmt: skip
TOTAL = (
    "all", "alone", "complete", "entire*", "every", "exclusively", "none", "no other", "only",
    "whole",
)  # fmt: skip
PRAISE = (
    "admirabl*", "best practice", "brilliant*", "careful", "carefully", "clean and", "clever*",
    "concise", "correctly", "deep knowledge", "defensive", "deliberate*", "diligen*",
    "disciplin*", "elegant*", "excellent*", "expert*", "impressive*", "instructive",
    "masterful*", "methodical*", "meticulous*", "model of", "nuanced", "practical", "pragmatic",
    "precise", "precisely", "professional*", "properly", "prudent*", "restraint", "robust",
    "sensible", "skilful*", "smart", "sophisticated", "textbook", "thorough*", "thoughtful*",
    "understanding", "valuable", "wise", "wisely",
)  # fmt: skip
BLAME = (
    "bad practice", "careless*", "clumsy", "foolish*", "fragil*", "hacking", "hacky",
    "incompeten*", "lazy", "naive*", "negligen*", "nuclear", "reckless*", "sledgehammer",
    "sloppy", "stupid*", "wasteful",
)  # fmt: skip
CAUSE = (
    "because", "caused", "causes", "consequently", "due to", "hence", "in order to", "indicates",
    "indicating", "led to", "leads to", "meaning", "means that", "motivated", "motivation",
    "points to", "proves that", "rather than", "reason is", "reflects", "result of",
    "resulted in", "shows the", "signaling", "signals that", "so that", "stems from",
    "suggesting", "suggests", "thanks to", "therefore", "this means", "thus", "to avoid",
    "to prevent", "triggered by", "which is why", "root cause",
)  # fmt: skip
HEDGE = (
    "apparently", "appear to", "appears to", "characteristic of", "could", "either", "likely",
    "may", "maybe", "might", "perhaps", "possibly", "potentially", "presumably", "probably",
    "seem", "seems", "should", "suggests", "typical", "typically", "unlikely", "would be",
    "would have",
)  # fmt: skip
OPEN = (
    "alternativ*", "assum*", "consistent with", "hypothes*", "inconclusive", "not known",
    "not measured",
    "not recorded", "not shown", "not tested", "open question*", "probe", "recorded reason",
    "unknown", "unsupported", "untested", "would settle", "would tell", "does not show",
    "do not show", "did not show", "not looked at", "the agent wrote", "cannot be judged",
)  # fmt: skip
STATE = (
    "abandoned", "alive", "aborted", "active", "broken", "clean", "cleanly", "completed",
    "continues", "corrupt", "corrupted", "crashed",
    "dead", "exited", "finished", "fixed", "freed", "gone", "healthy", "idle", "intact",
    "killed", "lingering", "loadable", "ready", "recovered", "released", "resolved", "running",
    "safe", "safely", "sound", "stable", "stopped", "stuck", "succeeded", "successful",
    "successfully", "survived", "terminated", "unreliable",
)  # fmt: skip
FUTURE = (
    "afterwards", "eventually", "follow-up", "going forward", "in the end", "in the next message",
    "later message", "moved on", "next message", "next phase", "next step", "subsequently",
    "ultimately", "went on to", "would later",
)  # fmt: skip
PRESENT = ("at this point", "by now", "currently", "now", "still")

ABSOLUTES, PROOFS, TOTALS = family(*ABSOLUTE), family(*PROOF), family(*TOTAL)
PRAISES, BLAMES = family(*PRAISE), family(*BLAME)
CAUSES, HEDGES, OPENS = family(*CAUSE), family(*HEDGE), family(*OPEN)
STATES, FUTURES, PRESENTS = family(*STATE), family(*FUTURE), family(*PRESENT)

ENTRIES = {
    "absolute": ABSOLUTE, "proof": PROOF, "total": TOTAL, "praise": PRAISE, "blame": BLAME,
    "cause": CAUSE, "hedge": HEDGE, "open": OPEN, "state": STATE, "future": FUTURE,
    "present": PRESENT,
}  # fmt: skip
