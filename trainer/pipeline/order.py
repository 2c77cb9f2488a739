"""What is read and trained in which order: a pure function of seed, epoch and settings.

An epoch is a permutation of the documents; documents alike in length are batched for the target
model; what it says goes to a pool, from which documents are drawn at random and packed into rows.
All of that is decided here, before anything runs: jobs in the order of dispatch, rows in the order
of training. So results do not depend on arrival, and a place in the run is an epoch and a row.

The pool's bound is part of the decision. With P pages in all, a job is let in only while the
documents waiting or in open rows, and its own, fill at most ``OrderLimits.pages``, which leaves
room for every row of one step. Then a stage that lets jobs in by free pages alone cannot stand
still: what a row needs was let in before it, and fits (see ``docs/pipeline.md``).
"""

import hashlib
import math
import random
from bisect import bisect_left
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain

from trainer.config import PipelineSettings, RunConfig
from trainer.errors import ConfigError
from trainer.files import canonical
from trainer.reading import Json
from trainer.schedule import epoch_order, require_fitting

_OPEN_ROWS = 2  # rows that may still take a document
_STALE = 8  # times ``min_ready`` draws after which a document is taken at once
_SHORTEST_BUCKET = 32


@dataclass(frozen=True)
class OrderLimits:
    """Everything that the order depends on beside lengths, seed and epoch; part of a checkpoint."""

    row_tokens: int
    row_pages: int
    page_tokens: int
    pages: int
    buckets: tuple[int, ...]
    token_budget: int
    max_batch_size: int
    window: int
    min_ready: int

    def pages_of(self, tokens: int) -> int:
        """Pages that a document of so many tokens takes."""
        return -(-tokens // self.page_tokens)

    def bucket_of(self, tokens: int) -> int:
        """The shortest bucket that takes it."""
        return self.buckets[bisect_left(self.buckets, tokens)]

    def batch_size(self, bucket: int) -> int:
        """Documents of a full batch; a document longer than the budget is read alone."""
        return max(1, min(self.max_batch_size, self.token_budget // bucket))


@dataclass(frozen=True)
class TargetBatch:
    """Documents that are read at once, padded to ``length`` tokens."""

    number: int
    epoch: int
    documents: tuple[int, ...]
    length: int


@dataclass(frozen=True)
class EpochOrder:
    """One epoch: its permutation, what is read, and what is trained."""

    epoch: int
    order: tuple[int, ...]
    batches: tuple[TargetBatch, ...]
    rows: tuple[tuple[int, ...], ...]

    @property
    def digest(self) -> str:
        """SHA-256 over all of it."""
        content: Json = {
            "order": list(self.order),
            "batches": [[each.length, *each.documents] for each in self.batches],
            "rows": [list(row) for row in self.rows],
        }
        return hashlib.sha256(canonical(content)).hexdigest()


def limits_of(
    config: RunConfig, settings: PipelineSettings, lengths: Sequence[int], *, token_bytes: int
) -> OrderLimits:
    """The limits of a run over such documents whose pool holds ``token_bytes`` a token.

    Raises:
        ConfigError: the pool is too small to go on whatever the order.
        DataError: a document fits no row, or there is none.
    """
    require_fitting(lengths, config.row_tokens)
    page = settings.page_tokens
    total = settings.pool_bytes // (page * token_bytes)
    # A document's last page is seldom full; a row is closed before that doubles its pages.
    waste = min(2.0, max(-(-each // page) * page / each for each in lengths))
    row_pages = math.ceil(config.row_tokens / page * waste)
    buckets = settings.buckets or _powers(config.row_tokens)
    if buckets[-1] < config.row_tokens:
        buckets = (*buckets, config.row_tokens)
    limits = OrderLimits(
        row_tokens=config.row_tokens, row_pages=row_pages, page_tokens=page,
        # Half of the pool decides the order; the other half lets targets run ahead of it.
        pages=total // 2 - config.rows_per_step * row_pages,
        buckets=buckets, token_budget=settings.token_budget,
        max_batch_size=settings.max_batch_size, window=settings.window,
        min_ready=settings.min_ready,
    )  # fmt: skip
    job = max(limits.batch_size(each) * limits.pages_of(each) for each in buckets)
    least = job + (_OPEN_ROWS + 1) * row_pages
    if limits.pages < least:
        need = 2 * (least + config.rows_per_step * row_pages) * page * token_bytes
        raise ConfigError(
            f"pipeline.pool_bytes: {settings.pool_bytes} cannot hold a step and a batch;"
            f" give at least {need}"
        )
    return limits


def order_epoch(
    lengths: Sequence[int], limits: OrderLimits, *, seed: int, epoch: int
) -> EpochOrder:
    """The order of one epoch; every document is in exactly one batch and one row."""
    order = epoch_order(len(lengths), seed=seed, epoch=epoch)
    batches = batch(order, lengths, limits, epoch=epoch)
    pool = _Pool(limits, random.Random(f"draw/{seed}/{epoch}"))  # noqa: S311 - mixing, no secret
    rows = _Rows(lengths, limits)
    for each in batches:
        pages = sum(limits.pages_of(lengths[index]) for index in each.documents)
        while len(pool) and (
            len(pool) >= limits.min_ready or pool.pages + rows.pages + pages > limits.pages
        ):
            rows.add(pool.draw())
        for index in each.documents:
            pool.add(index, limits.pages_of(lengths[index]))
    while len(pool):
        rows.add(pool.draw())
    return EpochOrder(epoch, tuple(order), tuple(batches), rows.all())


def batch(
    order: Sequence[int], lengths: Sequence[int], limits: OrderLimits, *, epoch: int = 0
) -> list[TargetBatch]:
    """Batches of one bucket each, longest first within a window of the order.

    >>> limits = OrderLimits(8, 16, 1, 99, (4, 8), 8, 2, 4, 1)
    >>> [each.documents for each in batch([0, 1, 2, 3], [3, 5, 2, 4], limits)]
    [(1,), (0, 2), (3,)]
    """
    made: list[TargetBatch] = []
    for first in range(0, len(order), limits.window):
        window = list(order[first : first + limits.window])
        # Stable, so within a bucket the order of the epoch stands.
        window.sort(key=lambda index: -limits.bucket_of(lengths[index]))
        held: list[int] = []
        bucket = 0
        for index in window:
            mine = limits.bucket_of(lengths[index])
            if held and (mine != bucket or len(held) == limits.batch_size(bucket)):
                made.append(TargetBatch(len(made), epoch, tuple(held), bucket))
                held = []
            bucket = mine
            held.append(index)
        made.append(TargetBatch(len(made), epoch, tuple(held), bucket))
    return made


class _Pool:
    """Documents that one is drawn among."""

    def __init__(self, limits: OrderLimits, draw: random.Random) -> None:
        self._limits = limits
        self._draw = draw
        self._waiting: list[int] = []
        self._pages_of: dict[int, int] = {}
        self._oldest: deque[tuple[int, int]] = deque()
        self._draws = 0
        self.pages = 0

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, index: int, pages: int) -> None:
        """Let a document in."""
        self._waiting.append(index)
        self._pages_of[index] = pages
        self._oldest.append((self._draws, index))
        self.pages += pages

    def draw(self) -> int:
        """Take one out: any, or the oldest when it has waited too long."""
        while self._oldest[0][1] not in self._pages_of:
            self._oldest.popleft()
        since, oldest = self._oldest[0]
        if self._draws - since >= _STALE * self._limits.min_ready:
            place = self._waiting.index(oldest)
        else:
            place = int(self._draw.random() * len(self._waiting))
        self._draws += 1
        self._waiting[place], self._waiting[-1] = self._waiting[-1], self._waiting[place]
        index = self._waiting.pop()
        self.pages -= self._pages_of.pop(index)
        return index


@dataclass
class _OpenRow:
    documents: list[int] = field(default_factory=list)
    tokens: int = 0
    pages: int = 0


class _Rows:
    """Packs documents into rows as they come; a document goes into the fullest that takes it."""

    def __init__(self, lengths: Sequence[int], limits: OrderLimits) -> None:
        self._lengths = lengths
        self._limits = limits
        self._open: list[_OpenRow] = []
        self._closed: list[tuple[int, ...]] = []

    @property
    def pages(self) -> int:
        """Of the rows that are still open."""
        return sum(row.pages for row in self._open)

    def add(self, index: int) -> None:
        """Put a document into a row; the oldest row closes when too many are open."""
        tokens = self._lengths[index]
        pages = self._limits.pages_of(tokens)
        fitting = [
            row
            for row in self._open
            if row.tokens + tokens <= self._limits.row_tokens
            and row.pages + pages <= self._limits.row_pages
        ]
        if fitting:
            row = max(fitting, key=lambda each: each.tokens)
        else:
            row = _OpenRow()
            self._open.append(row)
        row.documents.append(index)
        row.tokens += tokens
        row.pages += pages
        if row.tokens == self._limits.row_tokens:
            self._close(row)
        elif len(self._open) > _OPEN_ROWS:
            self._close(self._open[0])

    def all(self) -> tuple[tuple[int, ...], ...]:
        """Every row, the open ones closed."""
        while self._open:
            self._close(self._open[0])
        assert len(set(chain.from_iterable(self._closed))) == len(self._lengths)
        return tuple(self._closed)

    def _close(self, row: _OpenRow) -> None:
        self._open.remove(row)
        self._closed.append(tuple(row.documents))


def _powers(longest: int) -> tuple[int, ...]:
    """Powers of two and halves between them, up to the first that holds ``longest``.

    >>> _powers(100)
    (32, 48, 64, 96, 128)
    """
    sizes = [_SHORTEST_BUCKET]
    while sizes[-1] < longest:
        power = 1 << (sizes[-1].bit_length() - 1)
        sizes.append(power + power // 2 if sizes[-1] == power else 2 * power)
    return tuple(sizes)
