"""What a pipeline writes beside the contract files: its schedule, and what did not go as planned.

``schedule/epoch-00000.json`` holds an epoch's permutation and the digest of its whole order, and is
on disk before anything of it is read. ``pipeline.jsonl`` has a line for each thing of note: a
document that was skipped and why, a job that went back, a batch that did not fit in memory.
"""

import hashlib
import json
import threading
from pathlib import Path

from trainer.clock import Clock
from trainer.errors import CheckpointError, OutputError
from trainer.files import canonical, write_whole
from trainer.pipeline.order import EpochOrder
from trainer.reading import Json

SCHEDULE, NOTES = "schedule", "pipeline.jsonl"
SCHEMA = 1


class Record:
    """Writes below ``directory``, which exists; may be called from any thread."""

    def __init__(self, directory: Path, clock: Clock, *, seed: int) -> None:
        self._directory = directory
        self._clock = clock
        self._seed = seed
        self._lock = threading.Lock()

    def keep(self, order: EpochOrder) -> None:
        """Write an epoch's schedule, or see that the one on disk is the same.

        Raises:
            CheckpointError: another order is on disk, so documents would be trained twice.
            OutputError: it cannot be written.
        """
        path = self._directory / SCHEDULE / f"epoch-{order.epoch:05d}.json"
        content: dict[str, Json] = {
            "schema": SCHEMA,
            "seed": self._seed,
            "epoch": order.epoch,
            "batches": len(order.batches),
            "rows": len(order.rows),
            "sha256": order.digest,
            "order_sha256": hashlib.sha256(canonical(list(order.order))).hexdigest(),
            "order": list(order.order),
        }
        try:
            if path.exists():
                found = json.loads(path.read_bytes())
                if found != content:
                    raise CheckpointError(
                        f"{path}: another order was trained here; give another output_dir,"
                        " or set resume to 'never' and remove the directory"
                    )
                return
            path.parent.mkdir(exist_ok=True)
            write_whole(path, canonical(content))
        except (OSError, json.JSONDecodeError) as error:
            raise OutputError(
                f"{path}: cannot be written ({error}); remove it or free space"
            ) from error

    def forget(self) -> None:
        """Remove earlier schedules: the run starts anew."""
        for path in (self._directory / SCHEDULE).glob("epoch-*.json"):
            path.unlink()

    def note(self, kind: str, **facts: Json) -> None:
        """Append one line.

        Raises:
            OutputError: it cannot be written.
        """
        path = self._directory / NOTES
        line: Json = {
            "schema": SCHEMA,
            "kind": kind,
            **facts,
            "time_unix_ms": self._clock.wall_ms(),
        }
        try:
            with self._lock, path.open("ab") as file:
                file.write(json.dumps(line).encode() + b"\n")
        except OSError as error:
            raise OutputError(f"{path}: cannot be written ({error}); free space") from error
