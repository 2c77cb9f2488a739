"""Run several scripts as one. Runs on hosts. stdin: [[part, source, argument...]...] as JSON."""

from __future__ import annotations

import json
import sys
import traceback

# One part's fault must not take the others; what is none of these is a fault of this program.
FAULTS = (
    OSError, LookupError, ValueError, TypeError, ArithmeticError, AttributeError, RuntimeError,
    SystemExit,
)  # fmt: skip


def main() -> None:
    """A line that names the part, then what its script prints; a script that fails says so."""
    parts = json.load(sys.stdin)
    for part, source, *arguments in parts:
        sys.stdout.write(json.dumps({"part": part}) + "\n")
        sys.argv = ["agentops", *arguments]
        try:
            exec(compile(source, part, "exec"), {"__name__": "__main__"})  # noqa: S102 - our own text
        except FAULTS:
            sys.stdout.write(json.dumps({"fault": traceback.format_exc()[-500:]}) + "\n")
    sys.stdout.write(json.dumps({"parts": len(parts)}) + "\n")


if __name__ == "__main__":
    main()
