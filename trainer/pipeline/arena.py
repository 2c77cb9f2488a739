"""Host memory between target models and drafters: pages, each in one state, never used twice.

    free -> filling -> ready -> in use -> free

A lease is some pages and the generation at which they were given; using one whose pages were given
to somebody else since is an error, not a wrong number. Pinned when a GPU copies to or from it.
All calls are made under the crew's condition, except for reading a lease's views.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

import torch
from torch import Tensor


class PageState(Enum):
    """What a page is for now; a lost one may still be written to by somebody who hangs."""

    FREE = "free"
    FILLING = "filling"
    READY = "ready"
    IN_USE = "in use"
    LOST = "lost"


@dataclass(frozen=True)
class Lease:
    """Pages of one document and the generation of each."""

    pages: tuple[int, ...]
    generations: tuple[int, ...]
    tokens: int


class Arena:
    """``pages`` pages of ``page_tokens`` tokens of ``width`` numbers."""

    def __init__(
        self, pages: int, page_tokens: int, width: int, dtype: torch.dtype, *, pinned: bool
    ) -> None:
        self.page_tokens = page_tokens
        self._shape = (page_tokens, width)
        self._dtype, self._pinned = dtype, pinned
        self._slabs: list[tuple[int, Tensor]] = []
        self._state: list[PageState] = []
        self._generation: list[int] = []
        self._free: list[int] = []
        self.used = self.most_used = 0
        """Pages that are leased, now and at most; lost ones have been replaced and do not count."""
        self._add(pages)

    @property
    def free(self) -> int:
        """Pages that can be leased."""
        return len(self._free)

    @property
    def lost(self) -> int:
        """Pages that are given up for good."""
        return sum(state is PageState.LOST for state in self._state)

    def pages_of(self, tokens: int) -> int:
        """Pages that so many tokens take."""
        return -(-tokens // self.page_tokens)

    def lease(self, tokens: int) -> Lease:
        """Take pages for a document; the caller saw that enough are free."""
        need = self.pages_of(tokens)
        assert need <= len(self._free)
        # Neighbours, so that few copies move a document.
        taken, self._free = self._free[:need], self._free[need:]
        for page in taken:
            self._move(page, PageState.FREE, PageState.FILLING)
        self.used += need
        self.most_used = max(self.most_used, self.used)
        return Lease(tuple(taken), tuple(self._generation[page] for page in taken), tokens)

    def published(self, lease: Lease) -> None:
        """The lease's pages are filled."""
        self._move_all(lease, PageState.FILLING, PageState.READY)

    def taken(self, lease: Lease) -> None:
        """Somebody reads the lease's pages."""
        self._move_all(lease, PageState.READY, PageState.IN_USE)

    def released(self, lease: Lease) -> None:
        """Nobody reads them any more."""
        self._move_all(lease, PageState.IN_USE, PageState.FREE)
        self._give_back(lease)

    def cancelled(self, lease: Lease) -> None:
        """They were never filled, and nobody will."""
        self._move_all(lease, PageState.FILLING, PageState.FREE)
        self._give_back(lease)

    def abandoned(self, lease: Lease) -> None:
        """Whoever fills them hangs: they are never leased again, new ones take their place."""
        self._move_all(lease, PageState.FILLING, PageState.LOST)
        self.used -= len(lease.pages)
        self._add(len(lease.pages))

    def views(self, lease: Lease) -> Iterator[tuple[int, Tensor]]:
        """Runs of neighbouring pages: first token of the document, and the memory (tokens, width).

        Raises:
            RuntimeError: a page was given to somebody else since.
        """
        self._check(lease)
        first = 0
        while first < len(lease.pages):
            slab, start = self._place(lease.pages[first])
            last = first + 1
            while last < len(lease.pages) and self._follows(
                lease.pages[last - 1], lease.pages[last]
            ):
                last += 1
            tokens = min(lease.tokens, last * self.page_tokens) - first * self.page_tokens
            yield first * self.page_tokens, slab[start : start + tokens]
            first = last

    def _add(self, pages: int) -> None:
        slab = torch.empty(
            (pages * self._shape[0], self._shape[1]), dtype=self._dtype, pin_memory=self._pinned
        )
        first = len(self._state)
        self._slabs.append((first, slab))
        self._state += [PageState.FREE] * pages
        self._generation += [0] * pages
        self._free += range(first, first + pages)

    def _place(self, page: int) -> tuple[Tensor, int]:
        first, slab = next(each for each in reversed(self._slabs) if each[0] <= page)
        return slab, (page - first) * self.page_tokens

    def _follows(self, page: int, other: int) -> bool:
        return other == page + 1 and all(first != other for first, _ in self._slabs)

    def _give_back(self, lease: Lease) -> None:
        for page in lease.pages:
            self._generation[page] += 1
        self.used -= len(lease.pages)
        self._free = sorted((*self._free, *lease.pages))

    def _move_all(self, lease: Lease, before: PageState, after: PageState) -> None:
        self._check(lease)
        for page in lease.pages:
            self._move(page, before, after)

    def _move(self, page: int, before: PageState, after: PageState) -> None:
        if self._state[page] is not before:
            raise RuntimeError(f"page {page} is {self._state[page].value}, not {before.value}")
        self._state[page] = after

    def _check(self, lease: Lease) -> None:
        for page, generation in zip(lease.pages, lease.generations, strict=True):
            if self._generation[page] != generation:
                raise RuntimeError(f"page {page} was given to somebody else since")
