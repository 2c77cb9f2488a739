"""Old events stay readable: golden lines of every kind and schema, a checked chain of upcasters."""

from pathlib import Path

import pytest

from journal.envelope import read_line
from journal.errors import LineProfileError, NotAJournal
from journal.events import JsonObject
from journal.kinds import PAYLOADS
from journal.lines import canonical, loads, parse
from journal.upcasting import check_upcasters, current_schema, upcast

GOLDEN = Path(__file__).parent.parent / "golden" / "journal" / "schemas"
LINES = sorted(GOLDEN.glob("*.jsonl"))


def test_every_kind_has_a_golden_line_of_every_schema() -> None:
    """Written once when a schema is new, never again: they are what old journals hold."""
    wanted = {
        f"{kind}.{schema}.jsonl"
        for kind in PAYLOADS
        for schema in range(1, current_schema(kind) + 1)
    }
    assert {path.name for path in LINES} == wanted


@pytest.mark.parametrize("path", LINES, ids=lambda path: path.stem)
def test_a_golden_line_reads_to_its_payload(path: Path) -> None:
    line = path.read_bytes().rstrip(b"\n")
    parse(line)
    event = read_line(line)
    kind, schema = path.stem.rsplit(".", 1)
    assert (event.kind, event.schema) == (kind, int(schema))
    data = upcast(kind, int(schema), dict(loads(line)["data"]))  # type: ignore[arg-type]  # an object
    assert event.payload.model_dump(mode="json", exclude={"kind"}) == data


@pytest.mark.parametrize(
    "change", [{"schema": 99}, {"schema": 0}, {"v": 2}, {"kind": "unheard_of"}]
)
def test_what_newer_software_wrote_is_refused_not_guessed(change: JsonObject) -> None:
    value = loads((GOLDEN / "heartbeat.1.jsonl").read_bytes())
    value.update(change)
    with pytest.raises(LineProfileError):
        read_line(canonical(value))


def test_an_unknown_field_is_refused() -> None:
    value = loads((GOLDEN / "heartbeat.1.jsonl").read_bytes())
    data = value["data"]
    assert isinstance(data, dict)
    data["extra"] = 1
    with pytest.raises(LineProfileError, match="extra"):
        read_line(canonical(value))


def same(data: JsonObject) -> JsonObject:
    return data


@pytest.mark.parametrize(
    ("schemas", "steps", "fault"),
    [
        ({"heartbeat": 3}, {("heartbeat", 1): same}, "heartbeat from schema 2 is missing"),
        ({"heartbeat": 2}, {}, "heartbeat from schema 1 is missing"),
        ({}, {("heartbeat", 1): same}, "leads nowhere"),
        ({"unheard_of": 2}, {("unheard_of", 1): same}, "unknown kinds"),
    ],
)
def test_a_chain_of_upcasters_with_a_gap_does_not_import(
    schemas: dict[str, int], steps: dict[tuple[str, int], object], fault: str
) -> None:
    with pytest.raises(NotAJournal, match=fault):
        check_upcasters(schemas, dict.fromkeys(steps, same))


def test_a_whole_chain_is_accepted() -> None:
    check_upcasters({"heartbeat": 3}, {("heartbeat", 1): same, ("heartbeat", 2): same})
