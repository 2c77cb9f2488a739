"""Run several scripts as one. Runs on hosts.

stdin, as JSON: [{name: script}, [[part, [name...], argument...]...]]. A part's scripts share one
scope, and the last of them has its main.
"""

from __future__ import annotations

import json
import sys
import traceback

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# One part's fault must not take the others; what is none of these is a fault of this program.
FAULTS = (
    OSError, LookupError, ValueError, TypeError, ArithmeticError, AttributeError, RuntimeError,
    SystemExit,
)  # fmt: skip


def main() -> None:
    """A line that names the part, then what its script prints; a script that fails says so."""
    scripts, parts = json.load(sys.stdin)
    compiled = {name: compile(source, name, "exec") for name, source in scripts.items()}
    for part, names, *arguments in parts:
        sys.stdout.write(json.dumps({"part": part}) + "\n")
        sys.argv = ["agentops", *arguments]
        scope: dict[str, Any] = {"__name__": part}
        try:
            for name in names:
                exec(compiled[name], scope)  # noqa: S102 - our own text
            scope["main"]()
        except FAULTS:
            sys.stdout.write(json.dumps({"fault": traceback.format_exc()[-500:]}) + "\n")
    sys.stdout.write(json.dumps({"parts": len(parts)}) + "\n")


if __name__ == "__main__":
    main()
