"""What is read and trained when: complete, bounded, mixed, and the same for ever."""

import random
from collections import Counter, deque
from dataclasses import replace
from itertools import chain, pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.pipelines import pipeline_config
from trainer.clock import SystemClock
from trainer.config import PipelineSettings, RunConfig, read_config
from trainer.errors import CheckpointError, ConfigError
from trainer.pipeline.order import EpochOrder, OrderLimits, limits_of, order_epoch
from trainer.pipeline.record import Record

LENGTHS = st.lists(st.integers(1, 128), min_size=1, max_size=120)
SETTINGS = st.builds(
    PipelineSettings,
    pool_bytes=st.integers(1200, 6000),
    min_ready=st.integers(1, 40),
    page_tokens=st.sampled_from([1, 16, 64]),
    token_budget=st.integers(16, 400),
    max_batch_size=st.integers(1, 9),
    window=st.integers(1, 40),
)


def _config(tmp: Path, rows_per_step: int = 1) -> RunConfig:
    return read_config(pipeline_config(tmp, rows_per_step=rows_per_step))


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> RunConfig:
    return _config(tmp_path_factory.mktemp("order"))


def _limits(config: RunConfig, chosen: PipelineSettings, lengths: list[int]) -> OrderLimits:
    """The limits, with as much memory as they ask for when it is too little."""
    try:
        return limits_of(config, chosen, lengths, token_bytes=1)
    except ConfigError as error:
        need = int(str(error).rpartition(" ")[2])
        return limits_of(config, replace(chosen, pool_bytes=need), lengths, token_bytes=1)


@settings(max_examples=60)
@given(LENGTHS, SETTINGS, st.integers(0, 3))
def test_every_document_is_read_once_and_trained_once(
    config: RunConfig, lengths: list[int], chosen: PipelineSettings, epoch: int
) -> None:
    limits = _limits(config, chosen, lengths)
    order = order_epoch(lengths, limits, seed=3, epoch=epoch)
    everything = list(range(len(lengths)))
    assert sorted(chain.from_iterable(each.documents for each in order.batches)) == everything
    assert sorted(chain.from_iterable(order.rows)) == everything
    for each in order.batches:
        assert len(each.documents) <= limits.max_batch_size
        padded = len(each.documents) * each.length
        assert padded <= limits.token_budget or len(each.documents) == 1
        assert all(lengths[document] <= each.length for document in each.documents)
    for row in order.rows:
        assert sum(lengths[document] for document in row) <= limits.row_tokens
        assert sum(limits.pages_of(lengths[document]) for document in row) <= limits.row_pages
    assert order == order_epoch(lengths, limits, seed=3, epoch=epoch)


@pytest.mark.parametrize("seed", range(40))
def test_jobs_that_wait_for_free_pages_alone_never_stand_still(
    config: RunConfig, seed: int
) -> None:
    """Two epochs, let in and trained by whoever comes first, in half of the real memory."""
    draw = random.Random(seed)  # noqa: S311 - chooses documents, settings, and who comes first
    lengths = [draw.randint(1, 128) for _ in range(draw.choice([1, 9, 60, 200]))]
    rows_per_step = draw.randint(1, 3)
    config = replace(config, rows_per_step=rows_per_step)
    chosen = PipelineSettings(
        pool_bytes=1, min_ready=draw.choice([1, 8, 40]), page_tokens=draw.choice([1, 16, 64]),
        token_budget=draw.randint(16, 400), max_batch_size=draw.randint(1, 9),
        window=draw.randint(1, 40),
    )  # fmt: skip
    limits = _limits(config, chosen, lengths)
    total = limits.pages + rows_per_step * limits.row_pages
    epochs = [order_epoch(lengths, limits, seed=1, epoch=epoch) for epoch in range(2)]
    jobs = deque((order.epoch, each.documents) for order in epochs for each in order.batches)
    rows = [(order.epoch, row) for order in epochs for row in order.rows]
    steps = deque(rows[n : n + rows_per_step] for n in range(0, len(rows), rows_per_step))
    held: dict[tuple[int, int], int] = {}
    while steps:
        needed = [(epoch, each) for epoch, row in steps[0] for each in row]
        pages = sum(limits.pages_of(lengths[each]) for each in jobs[0][1]) if jobs else 0
        can_let_in = bool(jobs) and sum(held.values()) + pages <= total
        can_train = all(each in held for each in needed)
        assert can_let_in or can_train, "nobody can go on"
        if can_let_in and (not can_train or draw.random() < 0.5):
            epoch, documents = jobs.popleft()
            held |= {(epoch, each): limits.pages_of(lengths[each]) for each in documents}
            assert sum(held.values()) <= total
        else:
            for each in needed:
                del held[each]
            steps.popleft()
    assert not held


def _alike(config: RunConfig, documents: int, min_ready: int) -> EpochOrder:
    chosen = PipelineSettings(pool_bytes=1 << 20, min_ready=min_ready, token_budget=128, window=64)
    lengths = [128] * documents
    return order_epoch(lengths, _limits(config, chosen, lengths), seed=0, epoch=0)


def test_fewer_documents_than_the_pool_wants_ready_are_all_trained(config: RunConfig) -> None:
    order = _alike(config, documents=5, min_ready=50)
    assert sorted(chain.from_iterable(order.rows)) == [0, 1, 2, 3, 4]


def test_a_document_leaves_the_pool_after_a_random_and_bounded_wait(config: RunConfig) -> None:
    """A draw among 16 waits 0, 1, 2, … draws with the chances of a geometric law."""
    ready, count = 16, 20_000
    order = _alike(config, documents=count, min_ready=ready)
    came = {
        each: n for n, each in enumerate(chain.from_iterable(b.documents for b in order.batches))
    }
    left = {each: n for n, each in enumerate(chain.from_iterable(order.rows))}
    waits = [left[each] + ready - 1 - came[each] for each in range(count - 2 * ready)
             if ready < came[each] < count - 10 * ready]  # fmt: skip
    assert min(waits) >= 0
    assert max(waits) <= 8 * ready + 4
    bins = [0, 4, 8, 16, 24, 40, 9999]
    chance = [(1 - 1 / ready) ** low - (1 - 1 / ready) ** high
              for low, high in pairwise(bins)]  # fmt: skip
    seen = Counter(next(n for n, high in enumerate(bins[1:]) if wait < high) for wait in waits)
    square = sum((seen[n] - len(waits) * p) ** 2 / (len(waits) * p) for n, p in enumerate(chance))
    assert square < 20.5  # the 99.9 per cent point of chi-square with 5 degrees of freedom


def test_documents_that_came_sorted_by_length_leave_mixed(config: RunConfig) -> None:
    lengths = [8 + number % 120 for number in range(600)]
    chosen = PipelineSettings(pool_bytes=1 << 20, min_ready=64, token_budget=256, window=200)
    order = order_epoch(lengths, _limits(config, chosen, lengths), seed=0, epoch=0)
    came = [lengths[each] for batch in order.batches for each in batch.documents]
    left = [lengths[each] for row in order.rows for each in row]

    def neighbours(values: list[int]) -> float:
        return sum(abs(a - b) for a, b in pairwise(values)) / len(values)

    # Two lengths drawn at random differ by 40 on average.
    assert neighbours(came) < 20
    assert neighbours(left) > 30


def test_a_pool_too_small_for_a_step_is_refused_with_the_size_that_is_enough(
    config: RunConfig,
) -> None:
    few = PipelineSettings(pool_bytes=1000, token_budget=128)
    with pytest.raises(ConfigError, match=r"pipeline.pool_bytes: 1000 cannot hold") as told:
        limits_of(config, few, [100], token_bytes=1)
    need = int(str(told.value).rpartition(" ")[2])
    assert limits_of(config, replace(few, pool_bytes=need), [100], token_bytes=1).pages > 0


def test_the_schedule_is_kept_and_another_one_refused(config: RunConfig, tmp_path: Path) -> None:
    record = Record(tmp_path, SystemClock(), seed=0)
    record.keep(_alike(config, documents=9, min_ready=4))
    record.keep(_alike(config, documents=9, min_ready=4))
    with pytest.raises(CheckpointError, match=r"epoch-00000.json: another order was trained here"):
        record.keep(_alike(config, documents=9, min_ready=2))
