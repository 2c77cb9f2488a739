"""Words that ask for more proof than a sentence can give.

Here: the strong words that static text of a report never holds, by group; the lint rules use the
same groups on any text. A word is here because it changes what a sentence promises, not because
some document happened to use it.
"""

ABSOLUTES = frozenset(
    {
        "absolutely", "always", "certain", "certainly", "certainty", "completely", "conclusively",
        "definitely", "definitive", "definitively", "ensure", "ensured", "ensures", "ensuring",
        "entirely", "forever", "fully", "guarantee", "guaranteed", "guarantees", "immediate",
        "immediately", "impossible", "inevitable", "inevitably", "instant", "instantly",
        "instantaneous", "invariably", "must-have", "never", "perfect", "perfectly", "proof",
        "proven", "proves", "regardless", "undeniable", "undeniably", "undoubtedly",
        "unmistakable", "unmistakably", "unquestionably", "totally",
    }
)  # fmt: skip
PRAISE = frozenset(
    {
        "admirable", "brilliant", "careful", "carefully", "clever", "cleverly", "competent",
        "correctly", "deliberate", "deliberately", "diligent", "disciplined", "elegant",
        "excellent", "expert", "exemplary", "flawless", "impressive", "ingenious", "insightful",
        "masterful", "methodical", "methodically", "meticulous", "meticulously", "nuanced",
        "precise", "precisely", "prudent", "robust", "sensible", "smart", "sophisticated",
        "textbook", "thorough", "thoughtful", "wise", "wisely",
    }
)  # fmt: skip
BLAME = frozenset(
    {
        "careless", "carelessly", "clumsy", "foolish", "fragile", "hacky", "incompetent", "lazy",
        "naive", "negligent", "reckless", "sledgehammer", "sloppy", "stupid",
    }
)  # fmt: skip
STRONG_WORDS = ABSOLUTES | PRAISE | BLAME
