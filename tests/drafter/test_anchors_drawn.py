"""Anchors are fair, repeatable and taught what they should be."""

import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from tests.support.layouts import Packed, packed_rows, unhurried
from trainer.anchors import (
    PADDING,
    AnchorConfig,
    draft_ids,
    lay_out,
    positions,
    sample_anchors,
    supervise,
    valid_anchors,
)


def _row(*lengths: int, prompt: int = 0) -> tuple[Tensor, Tensor]:
    """Documents of these lengths, whose first ``prompt`` tokens are no answer."""
    document = torch.cat([torch.full((length,), index) for index, length in enumerate(lengths)])
    answer = torch.cat([torch.arange(length) >= prompt for length in lengths])
    return document, answer


def _drawn(lengths: tuple[int, ...], config: AnchorConfig, *, epoch: int = 0) -> list[int]:
    document, answer = _row(*lengths)
    samples = range(100, 100 + len(lengths))
    return [
        int(anchor)
        for anchor in sample_anchors(document, answer, samples, config, seed=1, epoch=epoch)
    ]


@unhurried
@given(
    lengths=st.lists(st.integers(1, 30), min_size=1, max_size=5),
    per_row=st.integers(1, 40),
    per_document=st.integers(1, 12),
)
def test_quotas_fill_the_budget_and_starve_nobody(
    lengths: list[int], per_row: int, per_document: int
) -> None:
    config = AnchorConfig(per_row=per_row, per_document=per_document)
    drawn = _drawn(tuple(lengths), config)
    document, _ = _row(*lengths)
    counts = torch.bincount(document[drawn], minlength=len(lengths)).tolist()
    room = [min(length - 1, per_document) for length in lengths]
    assert drawn == sorted(set(drawn))
    assert sum(counts) == min(per_row, sum(room))
    # Nobody has two more than another who could have had one more.
    for mine, my_room in zip(counts, room, strict=True):
        assert mine <= my_room
        assert mine == my_room or max(counts) <= mine + 1


def test_every_valid_place_is_as_likely_as_another() -> None:
    """20,000 anchors over 40 places: 500 each; 6 standard deviations allowed."""
    config = AnchorConfig(per_row=10, per_document=10)
    counts = torch.zeros(41)
    for epoch in range(2000):
        for place in _drawn((41,), config, epoch=epoch):
            counts[place] += 1
    assert counts[40] == 0  # nothing follows the last token
    assert float((counts[:40] - 500).abs().max()) < 6 * 500**0.5


def test_a_document_draws_alike_whatever_it_is_packed_with() -> None:
    config = AnchorConfig(per_row=100, per_document=5)
    document, answer = _row(20, 30)
    pair = sample_anchors(document, answer, [7, 8], config, seed=3, epoch=2)
    alone, _ = _row(30)
    own = sample_anchors(alone, torch.ones(30), [8], config, seed=3, epoch=2)
    assert torch.equal(pair[pair >= 20] - 20, own)


def test_draws_change_with_seed_epoch_and_sample() -> None:
    config = AnchorConfig(per_row=5)
    document, answer = _row(200)
    keys = [(3, 2, 7), (4, 2, 7), (3, 3, 7), (3, 2, 8)]
    drawn = {
        tuple(sample_anchors(document, answer, [sample], config, seed=seed, epoch=epoch).tolist())
        for seed, epoch, sample in keys
    }
    assert len(drawn) == len(keys)


def test_an_anchor_and_its_next_token_are_answers_of_one_document() -> None:
    document, answer = _row(4, 5, prompt=2)
    document = torch.cat([document, torch.tensor([PADDING, PADDING])])
    answer = torch.cat([answer, torch.tensor([True, True])])
    assert valid_anchors(document, answer).nonzero()[:, 0].tolist() == [2, 6, 7]


@unhurried
@given(packed=packed_rows(), seed=st.integers(0, 99), contiguous=st.booleans())
def test_supervision_is_the_rule(packed: Packed, seed: int, *, contiguous: bool) -> None:
    layout, document = packed.layout, packed.document
    draw = torch.Generator().manual_seed(seed)
    ids = torch.randint(0, 49, document.shape, generator=draw)
    answer = torch.rand(document.shape, generator=draw) < 0.7
    found = supervise(layout, ids, answer, document, contiguous=contiguous)
    for batch in range(len(document)):
        for slot in range(layout.anchor.shape[1]):
            anchor, open_ = int(layout.anchor[batch, slot]), bool(layout.valid[batch, slot])
            for k in range(layout.block_size):
                place = anchor + k
                counts = (
                    open_
                    and k > 0
                    and place < layout.context
                    and bool(document[batch, place] == document[batch, anchor])
                    and bool(answer[batch, place])
                )
                if contiguous and k > 0:
                    open_ = counts
                assert bool(found.mask[batch, slot, k]) == counts
                if counts:
                    assert found.labels[batch, slot, k] == ids[batch, place]
    assert torch.equal(found.rows, found.mask.flatten().nonzero()[:, 0])
    bounds = torch.tensor(found.offsets) * 1
    assert torch.equal(bounds.diff(), found.mask.flatten(0, 1).sum(-1).long())


def test_layout_pads_with_blocks_that_are_not_valid() -> None:
    document = torch.tensor([[0] * 6 + [1] * 4, [0] * 10])
    layout = lay_out([torch.tensor([2, 7]), torch.tensor([4])], document, 3, slots=4)
    assert layout.anchor.tolist() == [[2, 7, 7, 7], [4, 4, 4, 4]]
    assert layout.first.tolist() == [[0, 6, 6, 6], [0, 0, 0, 0]]
    assert layout.valid.sum(-1).tolist() == [2, 1]
    ids = torch.arange(20).view(2, 10)
    assert draft_ids(layout, ids, 49)[0, :6].tolist() == [2, 49, 49, 7, 49, 49]
    placed = positions(layout, document)
    assert placed[0, :10].tolist() == [0, 1, 2, 3, 4, 5, 0, 1, 2, 3]
    assert placed[0, 10:16].tolist() == [2, 3, 4, 1, 2, 3]


def test_sequences_with_anchors_are_counted_across_rows() -> None:
    document = torch.tensor([[0] * 6 + [1] * 4, [0] * 10])
    layout = lay_out([torch.tensor([1, 2, 7]), torch.tensor([4])], document, 3)
    found = supervise(layout, document, torch.ones(2, 10), document)
    assert found.sequences == 3
    assert found.anchors_in_sequence.tolist()[0] == [2, 2, 1]
    assert found.sequence[0, 2] != found.sequence[0, 0] != found.sequence[1, 0]
