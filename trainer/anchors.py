"""Where draft blocks open, and what their rows are taught.

Draws anchors per document, lays them out for ``trainer.mask``, and gathers labels and which rows
count. How rows are weighted and turned into a loss is ``trainer.loss``'s. The one thing to know:
a document's anchors depend on (seed, epoch, sample, quota) alone, not on arrival order, packing
neighbours or device.

Shape letters: N rows of a micro-batch, S context tokens, A anchors of a row, B block size.

Source: DFlash, arXiv 2602.06036. An anchor is valid as in specforge 0.2.0 (it and the next token
are answer tokens), bounded by its document; a block teaches up to the first token that is not an
answer, as in DeepSpec.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn import functional

from trainer.errors import ConfigError
from trainer.mask import Layout
from trainer.sending import send

PADDING = -1
"""Document index of a token that belongs to no document."""


@dataclass(frozen=True, slots=True)
class AnchorConfig:
    """How many anchors a packed row gets.

    Every document gets up to ``per_document``; when that exceeds ``per_row`` in all, the largest
    equal quota that fits. A budget per row alone would starve short documents.
    """

    per_row: int = 512
    per_document: int = 512

    def __post_init__(self) -> None:
        for name in ("per_row", "per_document"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name}: {getattr(self, name)} anchors; give at least 1")


@dataclass(frozen=True, slots=True)
class Supervision:
    """What the draft rows of a micro-batch are taught. Flat slots are (n * A + j) * B + k.

    Attributes:
        labels: int64 (N, A, B); the token at the row's own position. Slot 0 is never taught.
        mask: float32 (N, A, B); 1 where the row counts.
        sequence: int64 (N, A); number of the anchor's document within the micro-batch.
        sequences: int; documents with at least one valid anchor.
        anchors_in_sequence: float32 (N, A); valid anchors of the anchor's document, at least 1.
        rows: int64 (R,); flat slots that reach the LM head, ascending.
        offsets: int, N * A + 1; where each block's rows begin in ``rows``.
    """

    labels: Tensor
    mask: Tensor
    sequence: Tensor
    sequences: int
    anchors_in_sequence: Tensor
    rows: Tensor
    offsets: tuple[int, ...]

    @property
    def block_size(self) -> int:
        """B."""
        return self.labels.shape[-1]

    def to(self, device: torch.device) -> "Supervision":
        """The same on ``device``."""
        return replace(
            self,
            labels=send(self.labels, device),
            mask=send(self.mask, device),
            sequence=send(self.sequence, device),
            anchors_in_sequence=send(self.anchors_in_sequence, device),
            rows=send(self.rows, device),
        )


def document_first(document: Tensor) -> Tensor:
    """Row index of the first token of each token's document: int64, same shape (..., S).

    Documents are runs of one index; two neighbours have different ones.
    """
    place = torch.arange(document.shape[-1], device=document.device)
    opens = torch.ones_like(document, dtype=torch.bool)
    opens[..., 1:] = document[..., 1:] != document[..., :-1]
    return torch.where(opens, place, torch.zeros_like(place)).cummax(dim=-1).values


def valid_anchors(document: Tensor, loss_mask: Tensor) -> Tensor:
    """Bool (S,): the token and the next one are answer tokens of one document."""
    answer = loss_mask.bool() & (document != PADDING)
    valid = torch.zeros_like(answer)
    valid[:-1] = answer[:-1] & answer[1:] & (document[:-1] == document[1:])
    return valid


def sample_anchors(
    document: Tensor, loss_mask: Tensor, samples: Sequence[int], config: AnchorConfig,
    *, seed: int, epoch: int,
) -> Tensor:  # fmt: skip
    """Anchors of one packed row, uniform without replacement within each document, ascending.

    Args:
        document: int64 (S,) on the CPU, index into ``samples``; -1 is padding.
        loss_mask: (S,); nonzero on answer tokens.
        samples: Id of each document's sample, which its draw is keyed by.
        config: The quotas.
        seed: The run's seed.
        epoch: Draws are fresh every epoch.

    Returns:
        int64, at most ``config.per_row``.
    """
    places = valid_anchors(document, loss_mask).nonzero()[:, 0]
    owner = document[places]
    counts = torch.bincount(owner, minlength=len(samples)).tolist()
    quotas = _quotas(counts, config)
    drawn: list[Tensor] = []
    for index, own in enumerate(torch.split(places[owner.argsort(stable=True)], counts)):
        if quotas[index] == 0:
            continue
        generator = _generator(seed, epoch, samples[index])
        order = torch.randperm(len(own), generator=generator)
        drawn.append(own[order[: quotas[index]]])
    return torch.cat(drawn).sort().values if drawn else places[:0]


def lay_out(
    anchors: Sequence[Tensor], document: Tensor, block_size: int, *, slots: int | None = None
) -> Layout:
    """The layout of a micro-batch.

    Args:
        anchors: One ascending int64 tensor per row.
        document: int64 (N, S).
        block_size: B.
        slots: Anchors per row to pad to, for fixed shapes; the most any row has when None.
    """
    most = max(1, *(len(row) for row in anchors)) if slots is None else slots
    shape = (len(anchors), most)
    anchor = torch.zeros(shape, dtype=torch.int64, device=document.device)
    valid = torch.zeros(shape, dtype=torch.bool, device=document.device)
    for index, row in enumerate(anchors):
        anchor[index, : len(row)] = row
        # Padding repeats the last anchor, so that the row stays sorted and in range.
        anchor[index, len(row) :] = row[-1] if len(row) else 0
        valid[index, : len(row)] = True
    first = document_first(document).gather(1, anchor)
    return Layout(anchor, first, valid, document.shape[1], block_size)


def draft_ids(layout: Layout, input_ids: Tensor, mask_token_id: int) -> Tensor:
    """Draft blocks (N, Q): the anchor's token, then mask tokens."""
    ids = input_ids.new_full((*layout.anchor.shape, layout.block_size), mask_token_id)
    ids[..., 0] = input_ids.gather(1, layout.anchor)
    return ids.flatten(1)


def positions(layout: Layout, document: Tensor) -> Tensor:
    """Positions within the document of the context, then of the draft rows: int64 (N, S + Q)."""
    place = torch.arange(layout.context, device=document.device)
    row = torch.arange(layout.block_size, device=document.device)
    block = (layout.anchor - layout.first)[:, :, None] + row
    return torch.cat([place - document_first(document), block.flatten(1)], dim=1)


def supervise(
    layout: Layout, input_ids: Tensor, loss_mask: Tensor, document: Tensor,
    *, contiguous: bool = True, compact: bool = True,
) -> Supervision:  # fmt: skip
    """Labels of the draft rows and which of them count. Call it on the CPU: it reads results.

    Args:
        layout: Where the blocks stand.
        input_ids: int64 (N, S).
        loss_mask: (N, S); nonzero on answer tokens.
        document: int64 (N, S).
        contiguous: Stop at the first row that is not an answer token; else skip over it.
        compact: List only rows that count; else all but slot 0, so that shapes stay fixed.
    """
    size = layout.block_size
    row = torch.arange(size, device=input_ids.device)
    place = layout.anchor[:, :, None] + row
    inside = (place < layout.context) & layout.valid[:, :, None] & (row > 0)
    place = place.clamp_max(layout.context - 1)
    labels, own = _at(input_ids, place), _at(document, layout.anchor[:, :, None])
    counts = inside & _at(loss_mask, place).bool() & (_at(document, place) == own)
    if contiguous:
        counts[..., 1:] = counts[..., 1:].cumprod(dim=-1).bool()
    listed = counts if compact else (row > 0).expand_as(counts)
    offsets = functional.pad(listed.flatten(0, 1).sum(-1).cumsum(0), (1, 0))
    sequence, sequences, per_anchor = _sequences(layout, document)
    return Supervision(
        labels=labels, mask=counts.float(), sequence=sequence, sequences=sequences,
        anchors_in_sequence=per_anchor, rows=listed.flatten().nonzero()[:, 0],
        offsets=tuple(offsets.tolist()),
    )  # fmt: skip


def _at(values: Tensor, place: Tensor) -> Tensor:
    """``values`` (N, S) at ``place`` (N, A, B)."""
    return values.gather(1, place.flatten(1)).view(place.shape)


def _sequences(layout: Layout, document: Tensor) -> tuple[Tensor, int, Tensor]:
    """Number documents across rows, and count the valid anchors of each."""
    per_row = int(document.max()) + 1 if document.numel() else 0
    row = torch.arange(len(document), device=document.device)[:, None]
    sequence = row * max(per_row, 1) + document.gather(1, layout.anchor).clamp_min(0)
    counts = torch.zeros(max(1, len(document) * max(per_row, 1)), device=document.device)
    counts.index_add_(0, sequence.flatten(), layout.valid.flatten().float())
    return sequence, int((counts > 0).sum()), counts[sequence].clamp_min(1.0)


def _quotas(counts: Sequence[int], config: AnchorConfig) -> list[int]:
    """The largest equal quota per document that keeps the row within its budget.

    What an equal quota leaves over goes, one each, to the earliest documents that can use it.
    """
    low, high = 0, config.per_document
    while low < high:
        middle = (low + high + 1) // 2
        if sum(min(count, middle) for count in counts) <= config.per_row:
            low = middle
        else:
            high = middle - 1
    quotas = [min(count, low) for count in counts]
    left = config.per_row - sum(quotas)
    for index, count in enumerate(counts):
        if left > 0 and quotas[index] < min(count, config.per_document):
            quotas[index] += 1
            left -= 1
    return quotas


def _generator(seed: int, epoch: int, sample: int) -> torch.Generator:
    """A generator whose stream is a hash of the key, so that near keys give unrelated draws."""
    digest = hashlib.blake2b(f"{seed}/{epoch}/{sample}".encode(), digest_size=8).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest, "little") >> 1)
