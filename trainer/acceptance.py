"""How many tokens a round of drafting yields: measured by decoding, and guessed while training.

The acceptance length is the mean yield of a verification round, the bonus token included, so it
lies between 1 and the block size. The teacher-forced proxy asks the same of training blocks; it
can look perfect while decoding fails, so it is reported beside the measurement, never instead.

Source: DFlash, arXiv 2602.06036, averages per request first; serving engines average over rounds.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from trainer.anchors import Supervision
from trainer.decode import Round
from trainer.loss import RowResults


@dataclass(frozen=True, slots=True)
class Acceptance:
    """What decoding some requests showed.

    Attributes:
        requests: Sequences with at least one round.
        rounds: Verifications in all.
        length_by_request: Acceptance length, averaged within requests first; 0 without any.
        length_by_round: Acceptance length over all rounds; 0 without any.
        histogram: Rounds by tokens yielded, from 1 to the block size.
        conditional: Of the rounds in which the draft's position k was reached (all before it
            accepted), the share that accepted it, from k = 1; None where none reached it.
    """

    requests: int
    rounds: int
    length_by_request: float
    length_by_round: float
    histogram: tuple[int, ...]
    conditional: tuple[float | None, ...]


def acceptance(requests: Sequence[Sequence[Round]], block_size: int) -> Acceptance:
    """The figures of some decoded requests.

    >>> rounds = [Round(drafted=3, accepted=3, produced=4), Round(3, 1, 2), Round(3, 0, 1)]
    >>> found = acceptance([rounds], block_size=4)
    >>> round(found.length_by_round, 3), found.histogram, found.conditional
    (2.333, (1, 1, 0, 1), (0.6666666666666666, 0.5, 1.0))
    """
    filled = [rounds for rounds in requests if rounds]
    every = [each for rounds in filled for each in rounds]
    histogram = [0] * block_size
    for each in every:
        histogram[each.produced - 1] += 1
    return Acceptance(
        requests=len(filled),
        rounds=len(every),
        length_by_request=_mean([_mean([each.produced for each in one]) for one in filled]),
        length_by_round=_mean([each.produced for each in every]),
        histogram=tuple(histogram),
        conditional=tuple(_conditional(every, place) for place in range(1, block_size)),
    )


@dataclass(frozen=True, slots=True)
class Proxy:
    """Sums over teacher-forced blocks, which add up over micro-batches and ranks; float32.

    Attributes:
        blocks: Blocks whose first drafted row counts.
        accepted: Rows before the first wrong one, over those blocks.
        correct: Rows right at each slot, (B,).
        counted: Rows that count at each slot, (B,).
        expected: Over those blocks, the expected accepted rows when sampling; None without a
            teacher.
    """

    blocks: Tensor
    accepted: Tensor
    correct: Tensor
    counted: Tensor
    expected: Tensor | None

    @property
    def length(self) -> float:
        """Simulated acceptance length, greedy; 0 without a block."""
        return _ratio(self.accepted, self.blocks)

    @property
    def sampled_length(self) -> float | None:
        """Expected acceptance length at temperature 1: 1 + sum of products of overlaps."""
        return None if self.expected is None else _ratio(self.expected, self.blocks)

    def plus(self, other: "Proxy") -> "Proxy":
        """Both."""
        expected = None
        if self.expected is not None and other.expected is not None:
            expected = self.expected + other.expected
        return Proxy(
            self.blocks + other.blocks,
            self.accepted + other.accepted,
            self.correct + other.correct,
            self.counted + other.counted,
            expected,
        )


def proxy(supervision: Supervision, rows: RowResults) -> Proxy:
    """What a training micro-batch's rows would have yielded, had each been decoded.

    Asks nothing of the host, so it may run in every step.
    """
    mask = supervision.mask.flatten(0, 1)
    right = _table(mask, supervision.rows, rows.correct.float()) * mask
    expected = None
    if rows.overlap is not None:
        overlap = _table(mask, supervision.rows, rows.overlap) * mask
        expected = overlap[:, 1:].cumprod(-1).sum()
    return Proxy(
        blocks=(mask[:, 1] > 0).float().sum(),
        accepted=right[:, 1:].cumprod(-1).sum(),
        correct=right.sum(0),
        counted=mask.sum(0),
        expected=expected,
    )


def _table(mask: Tensor, rows: Tensor, values: Tensor) -> Tensor:
    table = torch.zeros(mask.numel(), device=mask.device)
    return table.index_copy(0, rows, values.float()).view_as(mask)


def _conditional(rounds: Sequence[Round], place: int) -> float | None:
    reached = [each for each in rounds if each.drafted >= place and each.accepted >= place - 1]
    if not reached:
        return None
    return sum(each.accepted >= place for each in reached) / len(reached)


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0


def _ratio(accepted: Tensor, blocks: Tensor) -> float:
    count = float(blocks)
    return 1.0 + float(accepted) / count if count > 0 else 0.0
