"""Whether a model's files are whole: ``check_model``.

The file that is written first proves least, so a config that exists says nothing here. Each shard's
header is read, its offsets must fill the file to the last byte, and the index's names must be in
the shard that it names.
"""

from collections.abc import Sequence
from typing import ClassVar, Literal

from agentops.commands.base import Count, Malformed, Observation
from agentops.commands.metrics import cards
from agentops.commands.paths import HostPath
from agentops.commands.script import ScriptCommand
from journal.events import Effect, Retry

FileProblem = Literal["missing", "unreadable", "not_json", "no_weight_map"]
ShardProblem = Literal[
    "missing",
    "unreadable",
    "too_short",
    "header_too_long",
    "header_cut",
    "header_not_json",
    "header_without_offsets",
    "offsets_with_holes",
    "data_cut",
    "data_too_long",
    "tensors_missing",
]


class Shard(Observation):
    """One shard. problem is None when header, offsets, size and names fit together."""

    name: str
    size_bytes: Count | None
    tensors: Count | None
    problem: ShardProblem | None
    missing_tensors: tuple[str, ...]
    missing_count: Count
    sha256: str | None


class ModelChecked(Observation):
    """A model folder at one moment.

    intact is True when a config stands, every shard is whole, and an index, or a single file
    without one, names them all. It does not say that the numbers are the right ones; digests do,
    compared with the publisher's.
    """

    intact: bool
    folder: bool
    config_problem: FileProblem | None
    index_problem: FileProblem | None
    total_size_bytes: Count | None
    shards: tuple[Shard, ...]
    incomplete: tuple[str, ...]

    def holds(self) -> bool | None:
        """Whether the model is intact."""
        return self.intact


class _Head(Observation):
    folder: bool
    index_problem: FileProblem | None
    config_problem: FileProblem | None
    total_size_bytes: Count | None
    incomplete: tuple[str, ...]


class CheckModel(ScriptCommand):
    """A safetensors model folder: index, every shard's header, offsets, size, and hash if asked."""

    name: ClassVar[str] = "check_model"
    effect: ClassVar[Effect] = "observes"
    intrusiveness: ClassVar[int] = 0
    retry: ClassVar[Retry] = "repeat"
    assumptions: ClassVar[tuple[str, ...]] = (
        "a file whose size fits its header may still hold wrong numbers, unless it was hashed",
        "nobody writes to the folder while it is read",
    )
    silence: ClassVar[str] = "Nothing was learned; a missing folder is an answer."
    metric_cards: ClassVar[dict[str, str]] = cards(
        size_bytes="Length of the file. It is proof of nothing without the header's offsets.",
        total_size_bytes="What the index says that all tensors take together.",
    )
    python: ClassVar[tuple[str, ...]] = ("identity", "check_model")
    deadline_ms: ClassVar[int] = 1_800_000

    path: HostPath
    """The model's folder, absolute."""
    with_hash: bool = False
    """Read every shard whole and give its SHA-256; slow."""

    def script_arguments(self) -> tuple[str, ...]:
        """Folder and depth."""
        return (self.path, "hash" if self.with_hash else "headers")

    def read(self, rows: Sequence[dict[str, object]]) -> ModelChecked | Malformed:
        """The folder's row, then one a shard."""
        if not rows:
            return Malformed("the folder's row is missing")
        head = _Head.model_validate(rows[0])
        shards = tuple(Shard.model_validate(row) for row in rows[1:])
        # A single file needs no index; several, or none, do.
        indexed = head.index_problem is None or (
            head.index_problem == "missing" and [shard.name for shard in shards] == _SINGLE
        )
        intact = (
            head.folder
            and head.config_problem is None
            and indexed
            and bool(shards)
            and all(shard.problem is None for shard in shards)
        )
        return ModelChecked(
            intact=intact,
            folder=head.folder,
            config_problem=head.config_problem,
            index_problem=head.index_problem,
            total_size_bytes=head.total_size_bytes,
            shards=shards,
            incomplete=head.incomplete,
        )


_SINGLE = ["model.safetensors"]
