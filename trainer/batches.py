"""From scheduled rows to what one pass of the drafter needs: tokens, blocks, labels, taps.

The target model reads each document alone, padded on the right, so no document sees another; its
taps are then put where the document stands in its packed row. Everything drawn here is keyed by
(seed, epoch, document), never by arrival.

Shape suffixes:
    N  rows of a pass   S  tokens of a row   F  features of a token   H  hidden size
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from trainer.anchors import PADDING, Supervision, lay_out, sample_anchors, supervise
from trainer.config import RunConfig
from trainer.corpus import Corpus
from trainer.mask import Layout
from trainer.schedule import Row
from trainer.sending import send
from trainer.target import Target


@dataclass(frozen=True)
class Batch:
    """One pass: packed rows with their draft blocks; all tensors on the CPU.

    ``ids_NS`` int64, ``document_NS`` int64 with -1 for padding. ``documents`` are the token ids
    of each document, and ``places`` the flat index in ``N * S`` of its first token.
    """

    ids_NS: Tensor
    document_NS: Tensor
    layout: Layout
    supervision: Supervision
    documents: tuple[Tensor, ...]
    places: tuple[int, ...]

    @property
    def tokens(self) -> int:
        """Real tokens, padding not counted."""
        return sum(len(ids) for ids in self.documents)


@dataclass(frozen=True)
class Features:
    """What the target model said about a batch, in the batch's places; padding is zero."""

    taps_NSF: Tensor
    final_NSH: Tensor


def assemble(rows: Sequence[Row], corpus: Corpus, config: RunConfig) -> Batch:
    """Pack, draw anchors, label. Needs no target model and no device."""
    shape = (len(rows), config.row_tokens)
    ids_NS = torch.zeros(shape, dtype=torch.int64)
    document_NS = torch.full(shape, PADDING, dtype=torch.int64)
    loss_mask_NS = torch.zeros(shape, dtype=torch.bool)
    documents: list[Tensor] = []
    places: list[int] = []
    anchors: list[Tensor] = []
    for number, row in enumerate(rows):
        start = 0
        for index, key in enumerate(row.documents):
            document = corpus[key]
            stop = start + len(document.ids)
            ids_NS[number, start:stop] = document.ids
            document_NS[number, start:stop] = index
            loss_mask_NS[number, start:stop] = document.supervised
            documents.append(document.ids)
            places.append(number * config.row_tokens + start)
            start = stop
        anchors.append(
            sample_anchors(
                document_NS[number],
                loss_mask_NS[number],
                row.documents,
                config.anchors,
                seed=config.seed,
                epoch=row.place.epoch,
            )
        )
    # Compiled attention wants one shape for all steps; without it, fewer slots are less work.
    slots = config.anchors.per_row if config.compile else None
    layout = lay_out(anchors, document_NS, config.drafter.block_size, slots=slots)
    supervision = supervise(layout, ids_NS, loss_mask_NS, document_NS, compact=not config.compile)
    return Batch(ids_NS, document_NS, layout, supervision, tuple(documents), tuple(places))


def read_features(
    target: Target, batch: Batch, *, tokens_per_read: int, device: torch.device,
    final: bool = True,
) -> Features:  # fmt: skip
    """The target model's taps and final states of a batch.

    Args:
        target: The frozen model.
        batch: What to read.
        tokens_per_read: Most tokens, padding included, that the model reads at once (a longer
            document is read alone).
        device: Where the model is.
        final: Whether final states are wanted; they have no width when they are not.
    """
    shape = batch.ids_NS.shape
    dtype = target.embedding_VH.dtype
    taps = torch.zeros(shape.numel(), target.feature_size, dtype=dtype, device=device)
    width = target.shape.hidden_size if final else 0
    states = torch.zeros(shape.numel(), width, dtype=dtype, device=device)
    for group in _groups([len(ids) for ids in batch.documents], tokens_per_read):
        longest = max(len(batch.documents[index]) for index in group)
        ids_BS = torch.zeros(len(group), longest, dtype=torch.int64)
        to: list[Tensor] = []
        source: list[Tensor] = []
        for slot, index in enumerate(group):
            length = len(batch.documents[index])
            ids_BS[slot, :length] = batch.documents[index]
            to.append(batch.places[index] + torch.arange(length))
            source.append(slot * longest + torch.arange(length))
        reading = target.read(send(ids_BS, device), final=final)
        here, there = send(torch.cat(source), device), send(torch.cat(to), device)
        taps[there] = reading.taps_BSF.flatten(0, 1)[here]
        states[there] = reading.final_BSH.flatten(0, 1)[here]
    return Features(taps.view(*shape, -1), states.view(*shape, width))


def _groups(lengths: Sequence[int], budget: int) -> list[list[int]]:
    """Documents to read together: alike in length, within the budget once padded."""
    groups: list[list[int]] = []
    for index in sorted(range(len(lengths)), key=lambda item: -lengths[item]):
        longest = lengths[groups[-1][0]] if groups else 0
        if groups and (len(groups[-1]) + 1) * longest <= budget:
            groups[-1].append(index)
        else:
            groups.append([index])
    return groups
