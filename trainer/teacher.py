"""The target's final states that teach draft rows, each state held once.

Row k of the block at anchor a is the token at a + k, which the state at a + k - 1 predicts. Blocks
overlap, so several rows have the same state; the head then needs to run over it once. What is
learned from the states is ``trainer.loss``'s.

Shape letters: N rows of a micro-batch, S context tokens, A anchors, R rows that reach the head,
U states that some of them need, H hidden size.
"""

from dataclasses import dataclass, replace
from itertools import pairwise

import torch
from torch import Tensor

from trainer.anchors import Supervision
from trainer.sending import send


@dataclass(frozen=True, slots=True)
class TeacherPlan:
    """Which states the listed rows need.

    Attributes:
        places: int64 (U,), ascending where shared; index into the flattened N * S.
        index: int64 (R,); each row's state among ``places``.
        reach: For each block, the run of ``places`` that its rows use; (0, 0) without rows.
    """

    places: Tensor
    index: Tensor
    reach: tuple[tuple[int, int], ...]

    def to(self, device: torch.device) -> "TeacherPlan":
        """The same on ``device``."""
        return replace(
            self,
            places=send(self.places, device),
            index=send(self.index, device),
        )

    def states(self, last_hidden: Tensor) -> "Teacher":
        """The states themselves, from the final-normed (N, S, H)."""
        return Teacher(last_hidden.flatten(0, 1).index_select(0, self.places), self)


@dataclass(frozen=True, slots=True)
class Teacher:
    """States (U, H) and who needs which."""

    states: Tensor
    plan: TeacherPlan


def plan_teacher(
    anchor: Tensor, context: int, supervision: Supervision, *, shares: bool
) -> TeacherPlan:
    """The states of a micro-batch's rows.

    Args:
        anchor: int64 (N, A).
        context: S.
        supervision: Which rows are listed.
        shares: Hold a state once. Reads results, so call it on the CPU; without it shapes are
            fixed by the number of rows, and every row has its own.
    """
    size, offsets = supervision.block_size, supervision.offsets
    slot = torch.arange(size, device=anchor.device)
    place = (anchor[:, :, None] + slot - 1).clamp(0, context - 1)
    start = context * torch.arange(len(anchor), device=anchor.device)
    flat = (place + start[:, None, None]).flatten().index_select(0, supervision.rows)
    if not shares:
        index = torch.arange(len(flat), device=flat.device)
        return TeacherPlan(flat, index, tuple(pairwise(offsets)))
    places, index = torch.unique(flat, return_inverse=True)
    # Rows of a block ascend, so its first and last tell its run.
    found = index.tolist()
    reach = tuple(
        (found[low], found[high - 1] + 1) if high > low else (0, 0)
        for low, high in pairwise(offsets)
    )
    return TeacherPlan(places, index, reach)
