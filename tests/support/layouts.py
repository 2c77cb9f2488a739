"""Random packed rows, and a drafter small enough to run on them in a test."""

from dataclasses import dataclass

import torch
from hypothesis import settings
from hypothesis import strategies as st
from torch import Tensor

from trainer.anchors import PADDING, document_first
from trainer.drafter import Drafter, DrafterConfig
from trainer.mask import Layout, MaskRule

unhurried = settings(deadline=None, max_examples=60)
"""For properties of tensors: the first example pays for torch's start, so none has a deadline."""


@dataclass(frozen=True, slots=True)
class Packed:
    """Documents of a micro-batch (N, S) and draft blocks on them."""

    document: Tensor
    layout: Layout


@st.composite
def packed_rows(draw: st.DrawFn, *, longest: int = 40, blocks: int = 6) -> Packed:
    """One or two rows of documents and padding, with sorted anchors, some blocks not valid."""
    rows = draw(st.integers(1, 2))
    size = draw(st.integers(2, 6))
    slots = draw(st.integers(1, blocks))
    context = draw(st.integers(4, longest))
    document = torch.full((rows, context), PADDING)
    for row in range(rows):
        place, index = 0, 0
        while place < context and draw(st.booleans() if index else st.just(value=True)):
            stop = min(context, place + draw(st.integers(1, context)))
            document[row, place:stop] = index
            place, index = stop, index + 1
    real = [int((document[row] != PADDING).sum()) for row in range(rows)]
    anchor = torch.tensor(
        [
            sorted(draw(st.lists(st.integers(0, most - 1), min_size=slots, max_size=slots)))
            for most in real
        ]
    )
    flags = st.lists(st.booleans(), min_size=rows * slots, max_size=rows * slots)
    valid = torch.tensor(draw(flags)).view(rows, slots)
    return Packed(
        document, Layout(anchor, document_first(document).gather(1, anchor), valid, context, size)
    )


mask_rules = st.builds(
    MaskRule, causal=st.booleans(), window=st.none() | st.integers(min_value=1, max_value=9)
)


def small_drafter(layout: Layout, rules: tuple[str, ...], *, window: int = 5) -> Drafter:
    """A seeded drafter of width 16 whose layers are ``full`` or ``sliding``."""
    config = DrafterConfig(
        hidden_size=16,
        intermediate_size=24,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=8,
        vocab_size=50,
        num_target_layers=6,
        target_layer_ids=(1, 4),
        mask_token_id=49,
        layer_types=tuple(
            "sliding_attention" if rule == "sliding" else "full_attention" for rule in rules
        ),
        block_size=layout.block_size,
        sliding_window=window,
    )
    drafter = Drafter(config)
    drafter.initialise(seed=1)
    with torch.no_grad():
        for parameter in drafter.parameters():
            if parameter.ndim > 1:
                parameter.mul_(10)  # with tiny matrices attention would be nearly uniform
    return drafter
