"""What the trainer's heartbeat is read as: with a pipeline, without one, and with more in it."""

import json
from pathlib import Path
from typing import Any

import pytest

from agentops.commands.heartbeat import HeartbeatFields

GOLDEN = Path(__file__).parents[1] / "golden" / "trainer_contract"


def _golden(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((GOLDEN / f"heartbeat_{name}.json").read_bytes())
    return found


def _observed(fields: HeartbeatFields) -> dict[str, Any]:
    found = fields.model_dump(mode="json")
    found["schema"] = found.pop("schema_version")
    return found


@pytest.mark.parametrize("name", ["training", "finished", "failed", "starting", "pipeline"])
def test_a_heartbeat_is_observed_field_by_field_as_it_was_written(name: str) -> None:
    """Without a pipeline nothing of one is observed, so old journals re-parse to what they hold."""
    written = _golden(name)
    fields = HeartbeatFields.model_validate(written)
    assert _observed(fields) == written
    assert ("pipeline" in written) == (fields.pipeline is not None)
    assert HeartbeatFields.model_validate_json(fields.model_dump_json()) == fields


def test_a_pipeline_that_says_more_than_we_know_still_gives_a_sign_of_life() -> None:
    written = _golden("pipeline")
    more = {**written, "pipeline": {**written["pipeline"], "colour": "green"}}
    assert _observed(HeartbeatFields.model_validate(more)) == written
