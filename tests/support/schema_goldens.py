"""Writes the golden line of each kind's present schema where there is none yet.

Run as ``python -m tests.support.schema_goldens`` after adding a kind or raising a schema. Existing
files are never touched: they are what old journals hold.
"""

import types
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel, JsonValue

from journal.envelope import Draft, chained
from journal.events import JsonObject
from journal.kinds import PAYLOADS
from journal.lines import canonical
from journal.upcasting import current_schema
from tests.support.journals import ACTOR, HOST

FOLDER = Path(__file__).parent.parent / "golden" / "journal" / "schemas"


def filled(annotation: Any, name: str) -> Any:  # noqa: PLR0911 - one line per type
    """A value of the type that is nowhere zero, empty or first."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if annotation == JsonObject or origin is dict:
        return {"n": [1, None, True], "name": name}
    if origin is Literal:
        return arguments[-1]
    if origin in {Union, types.UnionType}:
        return filled(next(one for one in arguments if one is not type(None)), name)
    if origin is tuple:
        return (filled(arguments[0], name), filled(arguments[0], f"{name} 2"))
    if annotation is str:
        return f"{name} caf\u00e9 \U0001f680"
    if annotation is bool:
        return True
    if annotation is int:
        return 3
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return {key: filled(one.annotation, key) for key, one in annotation.model_fields.items()}
    if annotation is JsonValue or "JsonValue" in str(annotation):
        return {"n": [1, None, True]}
    raise TypeError(f"no value for {name}: {annotation}")


def golden_line(kind: str) -> bytes:
    """A line of the kind as this software writes it."""
    model = PAYLOADS[kind]
    values = {
        name: filled(field.annotation, name)
        for name, field in model.model_fields.items()
        if name != "kind"
    }
    payload = model.model_validate(values)
    draft = Draft(
        id="01M8P08P4ME9VTSP6H09XZ70BQ",
        ts_us=1_796_034_881_663_260,
        mono_us=7_000_123,
        boot="2f1c6f0a-0000-4000-8000-0123456789ab",
        incident="I1",
        host=HOST,
        actor=ACTOR,
        cause="01M8P08P4ME9VTSP6H09XZ70BP",
        idem=None,
        payload=payload,
        data=canonical(payload.model_dump(mode="json", exclude={"kind"})).decode(),
        out={},
        redacted={},
    )
    return chained(draft, stream="s1-7f3a9c2e", seq=7, prev="5" * 64).line


def main() -> None:
    """Write what is missing."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    for kind in PAYLOADS:
        path = FOLDER / f"{kind}.{current_schema(kind)}.jsonl"
        if not path.exists():
            path.write_bytes(golden_line(kind) + b"\n")


if __name__ == "__main__":
    main()
