"""How often to repeat what depends on chance: a little in CI, for long under AGENTOPS_TORTURE=1."""

import os


def rounds(in_ci: int, tortured: int) -> int:
    """The number of rounds for this run."""
    return tortured if os.environ.get("AGENTOPS_TORTURE") == "1" else in_ci
