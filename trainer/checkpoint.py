"""Checkpoints: whole or absent, proved by digests, never at an earlier one's cost.

A checkpoint is a directory ``step-00000012`` that holds ``training.safetensors`` (float32 masters
and moments), ``state.json`` (everything else that a resumed run needs) and ``manifest.json``
(SHA-256 of both, written last). It is written beside, flushed, and renamed; only then do ``latest``
and ``best`` (one line each: a directory's name) move and old ones go. What the state means is for
``trainer.train``; the published form of a drafter is for ``trainer.export``.
"""

import json
import shutil
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor

from trainer.errors import CheckpointError
from trainer.files import canonical, flush_directory, flush_file, sha256_of, write_whole
from trainer.reading import Json

TENSORS, STATE, MANIFEST = "training.safetensors", "state.json", "manifest.json"
LATEST, BEST = "latest", "best"
_PREFIX = "step-"
SCHEMA = 1


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint whose digests were right when it was read."""

    path: Path
    step: int
    tensors: dict[str, Tensor]
    state: dict[str, Json]


class CheckpointStore:
    """The checkpoints of one run, in ``directory``."""

    def __init__(self, directory: Path, *, keep: int) -> None:
        self.directory = directory
        self._keep = keep

    def save(
        self, step: int, tensors: dict[str, Tensor], state: dict[str, Json], *, is_best: bool
    ) -> Path:
        """Write the checkpoint of ``step`` and make it the latest.

        Raises:
            CheckpointError: it could not be written. Earlier checkpoints and ``latest`` stand.
        """
        final = self.directory / f"{_PREFIX}{step:08d}"
        beside = self.directory / f".{final.name}.tmp"
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
            self._sweep()
            _write_into(beside, tensors, state, step)
            if final.exists():  # a run that went on from an earlier step came here again
                final.rename(self.directory / f".{final.name}.old.tmp")
            beside.rename(final)
            flush_directory(self.directory)
            write_whole(self.directory / LATEST, f"{final.name}\n".encode())
            if is_best:
                write_whole(self.directory / BEST, f"{final.name}\n".encode())
        except OSError as error:
            shutil.rmtree(beside, ignore_errors=True)
            kept = self.newest()
            raise CheckpointError(
                f"{final}: checkpoint cannot be written ({error.strerror});"
                f" free space and start again; it goes on from {kept.name if kept else 'step 0'}"
            ) from error
        self._prune()
        return final

    def newest(self) -> Path | None:
        """The directory that ``latest`` names, or the newest one when it names none."""
        named = self.directory / _pointer(self.directory / LATEST)
        if named != self.directory and (named / MANIFEST).exists():
            return named
        whole = [path for path in self._all() if (path / MANIFEST).exists()]
        return whole[-1] if whole else None

    def load_newest(self) -> Checkpoint | None:
        """The newest whole checkpoint, or None when there is none.

        Raises:
            CheckpointError: the newest is damaged; the message names an earlier one that is not.
        """
        newest = self.newest()
        return None if newest is None else load(newest)

    def _all(self) -> list[Path]:
        return sorted(self.directory.glob(f"{_PREFIX}*")) if self.directory.is_dir() else []

    def _sweep(self) -> None:
        """Remove what a killed writer left; it was never named by anything."""
        for left in self.directory.glob(f".{_PREFIX}*.tmp"):
            shutil.rmtree(left, ignore_errors=True)

    def _prune(self) -> None:
        pointed = {_pointer(self.directory / name) for name in (LATEST, BEST)}
        for path in self._all()[: -self._keep]:
            if path.name not in pointed:
                shutil.rmtree(path, ignore_errors=True)


def load(path: Path) -> Checkpoint:
    """Read one checkpoint and prove its digests.

    Raises:
        CheckpointError: a file is missing, damaged, or of another schema; names the file.
    """
    from safetensors import SafetensorError  # noqa: PLC0415 - keeps start-up of a run short
    from safetensors.torch import load_file  # noqa: PLC0415

    try:
        manifest = json.loads((path / MANIFEST).read_bytes())
        if manifest["schema"] != SCHEMA:
            raise CheckpointError(f"{path}: schema {manifest['schema']} is not {SCHEMA}")
        for name, digest in manifest["sha256"].items():
            if sha256_of(path / name) != digest:
                raise CheckpointError(
                    f"{path / name}: damaged, its SHA-256 is not the manifest's;"
                    " remove this directory to go on from an earlier one"
                )
        state = json.loads((path / STATE).read_bytes())
        return Checkpoint(path, manifest["step"], load_file(path / TENSORS), state)
    except (OSError, json.JSONDecodeError, KeyError, SafetensorError) as error:
        raise CheckpointError(f"{path}: no whole checkpoint ({error!r})") from error


def _write_into(
    directory: Path, tensors: dict[str, Tensor], state: dict[str, Json], step: int
) -> None:
    from safetensors import SafetensorError  # noqa: PLC0415 - keeps start-up of a run short
    from safetensors.torch import save_file  # noqa: PLC0415

    directory.mkdir()
    plain = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    try:
        save_file(plain, directory / TENSORS)
    except SafetensorError as error:  # it wraps the system's error in its own
        raise OSError(0, str(error)) from error
    flush_file(directory / TENSORS)
    write_whole(directory / STATE, canonical(state))
    digests = {name: sha256_of(directory / name) for name in (TENSORS, STATE)}
    manifest: Json = {"schema": SCHEMA, "step": step, "sha256": dict(digests)}
    write_whole(directory / MANIFEST, canonical(manifest))


def _pointer(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").strip()
    except OSError:
        return ""
