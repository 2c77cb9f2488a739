"""Rows: every document once an epoch, the same for ever, and no document sees another."""

from itertools import islice

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from trainer.batches import assemble, read_features
from trainer.config import RandomTarget, RunConfig
from trainer.errors import DataError
from trainer.loading import load_backbone
from trainer.reading import build
from trainer.schedule import Place, Row, Schedule, epoch_order, pack
from trainer.synthetic import make_language, synthetic_corpus
from trainer.target import Target

CPU = torch.device("cpu")
VOCABULARY = 64
lengths_and_capacity = st.integers(4, 40).flatmap(
    lambda capacity: st.tuples(
        st.lists(st.integers(1, capacity), min_size=1, max_size=60), st.just(capacity)
    )
)


@given(lengths_and_capacity, st.integers(0, 9))
def test_every_document_is_in_exactly_one_row_of_an_epoch(
    case: tuple[list[int], int], seed: int
) -> None:
    lengths, capacity = case
    rows = pack(epoch_order(len(lengths), seed=seed, epoch=0), lengths, capacity)
    assert sorted(document for row in rows for document in row) == list(range(len(lengths)))
    assert all(sum(lengths[document] for document in row) <= capacity for row in rows)


@given(lengths_and_capacity, st.integers(0, 120))
def test_a_stream_goes_on_from_its_place_as_if_it_had_never_stopped(
    case: tuple[list[int], int], rows: int
) -> None:
    lengths, capacity = case
    whole = Schedule(lengths, capacity=capacity, seed=1, place=Place())
    list(islice(whole.rows(), rows))
    resumed = Schedule(lengths, capacity=capacity, seed=1, place=whole.place)
    expected = Schedule(lengths, capacity=capacity, seed=1, place=Place())
    assert list(islice(resumed.rows(), 5)) == list(islice(expected.rows(), rows, rows + 5))


def test_epochs_differ_and_seeds_differ() -> None:
    orders = {
        tuple(epoch_order(50, seed=seed, epoch=epoch)) for seed in range(3) for epoch in range(3)
    }
    assert len(orders) == 9


def test_a_document_longer_than_a_row_is_named() -> None:
    with pytest.raises(DataError, match=r"^document 1 has 9 tokens, above row_tokens 8"):
        Schedule([3, 9], capacity=8, seed=0, place=Place())


def _config() -> RunConfig:
    return build(
        RunConfig,
        {
            "run_id": "r",
            "output_dir": "out",
            "steps": 1,
            "row_tokens": 48,
            "anchors": {"per_row": 6},
            "drafter": {"block_size": 4, "target_layer_ids": [0, 2]},
        },
    )


def _target() -> Target:
    settings = RandomTarget(vocab_size=VOCABULARY, hidden_size=32, num_hidden_layers=4)
    return Target(load_backbone(settings, CPU), (0, 2))


def test_features_of_a_packed_document_are_those_of_the_document_alone() -> None:
    """Row t belongs to token t, whatever stands beside the document or is read with it."""
    corpus = synthetic_corpus(vocab_size=VOCABULARY, documents=5, length=15, seed=0)
    target = _target()
    batch = assemble([Row((0, 3, 2), Place()), Row((4, 1), Place())], corpus, _config())
    features = read_features(target, batch, tokens_per_read=40, device=CPU)
    for number, documents in enumerate([(0, 3, 2), (4, 1)]):
        for slot, key in enumerate(documents):
            alone = target.read(corpus[key].ids[None])
            place = slice(15 * slot, 15 * slot + 15)
            torch.testing.assert_close(features.taps_NSF[number, place], alone.taps_BSF[0])
            torch.testing.assert_close(features.final_NSH[number, place], alone.final_BSH[0])
    assert not features.taps_NSF[0, 45:].any()
    assert batch.tokens == 75


def test_a_documents_anchors_do_not_depend_on_its_neighbours() -> None:
    corpus = synthetic_corpus(vocab_size=VOCABULARY, documents=5, length=15, seed=0)
    found: list[set[int]] = []
    for documents in ((2, 0), (4, 2)):
        batch = assemble([Row(documents, Place(3, 0))], corpus, _config())
        start = 15 * documents.index(2)
        anchors = batch.layout.anchor[0][batch.layout.valid[0]].tolist()
        found.append({each - start for each in anchors if start <= each < start + 15})
    assert found[0] == found[1] != set()


def test_epochs_draw_other_anchors() -> None:
    corpus = synthetic_corpus(vocab_size=VOCABULARY, documents=2, length=40, seed=0)
    drawn = [
        tuple(assemble([Row((0,), Place(epoch, 0))], corpus, _config()).layout.anchor[0].tolist())
        for epoch in range(4)
    ]
    assert len(set(drawn)) > 1


def test_the_language_never_speaks_the_mask_token_and_holds_out_unseen_documents() -> None:
    corpus = synthetic_corpus(vocab_size=VOCABULARY, documents=64, length=48, seed=2)
    held_out = synthetic_corpus(vocab_size=VOCABULARY, documents=64, length=48, seed=2, first=64)
    assert int(corpus.ids.max()) < VOCABULARY - 1
    seen = {tuple(corpus[index].ids.tolist()) for index in range(64)}
    assert not any(tuple(held_out[index].ids.tolist()) in seen for index in range(64))
    assert make_language(VOCABULARY, 2) == make_language(VOCABULARY, 2)
