"""The trainer's sign of life: ``read_heartbeat``.

The file's form is the contract with the trainer, held by golden samples that both sides read; this
side knows its fields and nothing of the trainer's code.
"""

import json
from collections.abc import Sequence
from typing import ClassVar, Literal

from pydantic import (
    ConfigDict,
    Field,
    JsonValue,
    SerializerFunctionWrapHandler,
    ValidationError,
    model_serializer,
)

from agentops.commands.base import Count, Malformed, Observation
from agentops.commands.metrics import cards
from agentops.commands.paths import HostPath
from agentops.commands.script import ScriptCommand, only
from journal.events import Effect, Retry

_DECIMAL = r"^-?(\d{1,40}(\.\d{1,40})?(e[+-]?\d{1,4})?|nan|inf)$"


class PipelineFields(Observation):
    """How a pipeline's stages fare: rates in tokens a second, shares in thousandths.

    A sign of life stays one whatever else a newer trainer says here, so that is passed over.
    """

    bottleneck: str = Field(max_length=40)
    pool_ready: Count
    pool_used: Count
    target_rate: Count
    copy_rate: Count
    draft_rate: Count
    draft_wait: Count
    requeued: Count
    quarantined: Count
    eager: Count

    model_config = ConfigDict(extra="ignore")


class HeartbeatFields(Observation):
    """What the trainer wrote. loss and tokens_per_s are decimal strings ("nan" is a value).

    A trainer without a pipeline says nothing of one, and neither does what is observed of it.
    """

    schema_version: Literal[1] = Field(alias="schema")
    run_id: str = Field(max_length=200)
    launch_id: str | None = Field(max_length=200)
    pid: Count
    start_ticks: Count
    state: Literal[
        "starting", "training", "evaluating", "checkpointing", "stopping", "finished", "failed"
    ]
    step: Count
    steps: Count
    loss: str | None = Field(pattern=_DECIMAL)
    tokens_per_s: str | None = Field(pattern=_DECIMAL)
    sequence: Count
    updated_unix_ms: Count
    checkpoint_step: Count | None
    checkpoint_writing: bool
    resumed_from_step: Count | None
    detail: str | None = Field(max_length=2000)
    pipeline: PipelineFields | None = None

    model_config = ConfigDict(populate_by_name=True)

    @model_serializer(mode="wrap")
    def _without_absent_pipeline(
        self, serialise: SerializerFunctionWrapHandler
    ) -> dict[str, JsonValue]:
        fields: dict[str, JsonValue] = serialise(self)
        if self.pipeline is None:
            del fields["pipeline"]
        return fields


class HeartbeatSeen(Observation):
    """The file at one moment.

    age_ms is the host's clock minus the time that the trainer wrote, or minus the file's own time
    when its content cannot be read; negative if the clock was set back. problem says why there are
    no fields although the file exists.
    """

    exists: bool
    age_ms: int | None
    heartbeat: HeartbeatFields | None
    problem: Literal["unreadable", "not_json", "not_the_contract"] | None


class _Raw(Observation):
    exists: bool
    modified_unix_ms: Count | None
    content: str | None
    now_unix_ms: Count


class ReadHeartbeat(ScriptCommand):
    """The trainer's heartbeat file: step, state, loss and age."""

    name: ClassVar[str] = "read_heartbeat"
    effect: ClassVar[Effect] = "observes"
    intrusiveness: ClassVar[int] = 0
    retry: ClassVar[Retry] = "repeat"
    assumptions: ClassVar[tuple[str, ...]] = (
        "the trainer replaces the file in one step, so a reader never sees half of it",
        "a file that exists proves that a trainer once ran, not that one runs",
    )
    silence: ClassVar[str] = "Nothing was learned; a missing file is an answer of its own."
    metric_cards: ClassVar[dict[str, str]] = cards(
        "start_ticks",
        step="Optimizer steps done since the run's first start; it falls when a run resumes from"
        " a checkpoint.",
        age_ms="Host clock minus the time in the file. A long checkpoint makes it grow, too.",
        tokens_per_s="As the trainer says it, of its last steps.",
        updated_unix_ms="When the trainer wrote the file, by the host's clock.",
    )
    python: ClassVar[tuple[str, ...]] = ("identity", "read_heartbeat")
    shell: ClassVar[str | None] = "read_heartbeat"

    path: HostPath
    """The heartbeat's file, absolute."""

    def script_arguments(self) -> tuple[str, ...]:
        """The path."""
        return (self.path,)

    def read(self, rows: Sequence[dict[str, object]]) -> HeartbeatSeen | Malformed:
        """One row; the content's own faults are an answer, not a failure."""
        raw = _Raw.model_validate(only(rows))
        if not raw.exists:
            return HeartbeatSeen(exists=False, age_ms=None, heartbeat=None, problem=None)
        fields, problem = _fields(raw.content)
        written = raw.modified_unix_ms if fields is None else fields.updated_unix_ms
        age_ms = None if written is None else raw.now_unix_ms - written
        return HeartbeatSeen(exists=True, age_ms=age_ms, heartbeat=fields, problem=problem)


_Problem = Literal["unreadable", "not_json", "not_the_contract"]


def _fields(text: str | None) -> tuple[HeartbeatFields | None, _Problem | None]:
    if text is None:
        return None, "unreadable"
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        return None, "not_json"
    try:
        return HeartbeatFields.model_validate(content), None
    except ValidationError:
        return None, "not_the_contract"
