"""Which documents stand in which row, in which order: the same for the same seed, for ever.

An epoch is a permutation of all documents, packed into rows of a fixed number of tokens. The
stream of rows runs through epoch after epoch, so a place in it is two numbers, and a resumed run
goes on at exactly the next row. Token contents are ``trainer.corpus``'s.
"""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch

from trainer.errors import DataError

_OPEN_ROWS = 16  # rows that may still take a document; more wastes less padding, mixes less


@dataclass(frozen=True)
class Place:
    """The next row to train on."""

    epoch: int = 0
    row: int = 0


@dataclass(frozen=True)
class Row:
    """Documents that stand in one row, and where in the stream the row is."""

    documents: tuple[int, ...]
    place: Place


def epoch_order(documents: int, *, seed: int, epoch: int) -> list[int]:
    """A permutation of the documents, drawn for this seed and epoch alone."""
    key = hashlib.sha256(f"order/{seed}/{epoch}".encode()).digest()
    draw = torch.Generator().manual_seed(int.from_bytes(key[:8], "big") >> 1)
    return [int(index) for index in torch.randperm(documents, generator=draw)]


def pack(order: Sequence[int], lengths: Sequence[int], capacity: int) -> list[tuple[int, ...]]:
    """Rows of documents that together have at most ``capacity`` tokens.

    A document goes into the fullest open row that still takes it. Every document of ``order`` is
    in exactly one row; the oldest row closes when too many are open, so rows stay near the order.

    >>> pack([0, 1, 2, 3], [3, 5, 2, 4], 8)
    [(0, 1), (2, 3)]
    """
    done: list[tuple[int, ...]] = []
    rows: list[list[int]] = []
    left: list[int] = []
    for document in order:
        need = lengths[document]
        fitting = [index for index, room in enumerate(left) if room >= need]
        if fitting:
            best = min(fitting, key=lambda index: left[index])
            rows[best].append(document)
            left[best] -= need
        else:
            rows.append([document])
            left.append(capacity - need)
        if len(rows) > _OPEN_ROWS:
            done.append(tuple(rows.pop(0)))
            left.pop(0)
    return done + [tuple(row) for row in rows]


def require_fitting(lengths: Sequence[int], capacity: int) -> None:
    """Every document must fit a row, and there must be one.

    Raises:
        DataError: names the document, or says that there is none.
    """
    long = [index for index, length in enumerate(lengths) if length > capacity]
    if long:
        raise DataError(
            f"document {long[0]} has {lengths[long[0]]} tokens, above row_tokens {capacity};"
            " raise row_tokens, or prepare the data with a lower --max-length"
        )
    if not lengths:
        raise DataError("the data holds no document to train on")


class Schedule:
    """The endless stream of rows, from a place on."""

    def __init__(self, lengths: Sequence[int], *, capacity: int, seed: int, place: Place) -> None:
        require_fitting(lengths, capacity)
        self._lengths = lengths
        self._capacity = capacity
        self._seed = seed
        self.place = place

    def rows(self) -> Iterator[Row]:
        """Rows without end; ``place`` is always the next one's."""
        while True:
            order = epoch_order(len(self._lengths), seed=self._seed, epoch=self.place.epoch)
            packed = pack(order, self._lengths, self._capacity)
            for index in range(self.place.row, len(packed)):
                here = Place(self.place.epoch, index)
                self.place = Place(self.place.epoch, index + 1)
                yield Row(packed[index], here)
            self.place = Place(self.place.epoch + 1, 0)
