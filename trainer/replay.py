"""What greedy decoding would do, from one pass over text that the target model wrote greedily.

Greedy speculative output is the target's own, whatever the drafter; so on such a text every round
stands at a known place, and drafting at all places at once gives every round's outcome. It equals
``trainer.decode`` round by round, at a fraction of the time; what it cannot do is sample.

Shape letters: A anchors of a pass, B block size, H hidden size.
"""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional
from torch.nn.attention import sdpa_kernel

from trainer.anchors import draft_ids, lay_out, positions
from trainer.attention import SHAPELESS_KERNELS, plan_attention
from trainer.decode import Round
from trainer.drafter import Drafter
from trainer.target import Target


@torch.inference_mode()
def replay(
    target: Target, drafter: Drafter, text: Sequence[int], *, prompt: int,
    anchors_per_pass: int = 256,
) -> tuple[Round, ...]:  # fmt: skip
    """The rounds in which greedy decoding would have written ``text`` behind its prompt.

    Args:
        target: The frozen model that wrote it.
        drafter: Its drafter, on the same device.
        text: Token ids: the prompt, then the target's own greedy continuation.
        prompt: Tokens of the prompt, at least one.
        anchors_per_pass: Draft blocks computed at one time; more take more memory.
    """
    ids = torch.tensor([text], device=target.embedding_VH.device)
    places = torch.arange(prompt, len(text) - 1, device=ids.device)
    accepted: list[int] = []
    with sdpa_kernel(list(SHAPELESS_KERNELS)):
        taps = target.read(ids).taps_BSF
        for part in torch.split(places, anchors_per_pass) if len(places) else ():
            accepted += _accepted(target, drafter, ids, taps, part).tolist()
    rounds: list[Round] = []
    at = 0
    while at < len(accepted):
        room = len(accepted) - at
        drafted = min(drafter.config.block_size - 1, room)
        produced = min(accepted[at] + 1, room)
        rounds.append(Round(drafted, accepted[at], produced))
        at += produced
    return tuple(rounds)


def _accepted(
    target: Target, drafter: Drafter, ids: Tensor, taps: Tensor, anchors: Tensor
) -> Tensor:
    """How many tokens drafted at each anchor are the text's: int64 (A,)."""
    size = drafter.config.block_size
    document = torch.zeros_like(ids)
    layout = lay_out([anchors], document, size)
    dtype = drafter.fc.weight.dtype
    block = functional.embedding(
        draft_ids(layout, ids, drafter.config.mask_token_id), target.embedding_VH
    )
    hidden = drafter(
        block.to(dtype),
        taps.to(dtype),
        positions(layout, document),
        plan_attention(drafter.config.mask_rules, layout, "sdpa"),
    )
    rows = hidden[0].view(len(anchors), size, -1)[:, 1:]
    head = target.head_VH
    # By slot of the block, so that logits of one slot at a time exist.
    choice = torch.stack(
        [(rows[:, slot].to(head.dtype) @ head.T).argmax(-1) for slot in range(size - 1)], dim=1
    )
    place = anchors[:, None] + torch.arange(1, size, device=ids.device)
    inside = place < ids.shape[1]
    right = (choice == ids[0][place.clamp_max(ids.shape[1] - 1)]) & inside
    return right.cumprod(-1).sum(-1)
