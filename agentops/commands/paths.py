"""A path on a host, as commands and the policy file take it.

Not here: paths on the machine that agentops runs on.
"""

from typing import Annotated, Final

from pydantic import AfterValidator, Field

_PATTERN: Final = r"^/[^\x00]*$"


def _absolute(path: str) -> str:
    """Nobody knows which folder a relative path would start from, so its absence shows nothing."""
    if not path.startswith("/") or "\0" in path:
        raise ValueError("a path on a host is absolute: write it from / on")
    return path


# The schema says it too, for whoever fills in arguments by it.
HostPath = Annotated[str, AfterValidator(_absolute), Field(json_schema_extra={"pattern": _PATTERN})]
