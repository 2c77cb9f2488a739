"""Tokenised documents in one flat, memory-mappable form, with digests.

A corpus is what training reads: token ids end to end, which of them the drafter learns to predict,
where each document begins, and its domain. Making one from conversations is ``trainer.data``'s,
choosing the order is ``trainer.schedule``'s.
"""

import hashlib
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Document:
    """One document: ``ids`` int64 and ``supervised`` bool, both one entry a token."""

    key: int
    ids: Tensor
    supervised: Tensor
    domain: str

    @property
    def prompt_length(self) -> int:
        """Tokens before the first supervised one."""
        found = self.supervised.nonzero()
        return int(found[0]) if len(found) else len(self.ids)


@dataclass(frozen=True)
class Corpus:
    """Documents end to end: document ``i`` is ``offsets[i]`` to ``offsets[i + 1]``."""

    ids: Tensor
    supervised: Tensor
    offsets: Tensor
    domains: tuple[str, ...]
    domain_of: Tensor

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, index: int) -> Document:
        first, last = int(self.offsets[index]), int(self.offsets[index + 1])
        return Document(
            key=index,
            ids=self.ids[first:last].to(torch.int64),
            supervised=self.supervised[first:last].to(torch.bool),
            domain=self.domains[int(self.domain_of[index])],
        )

    @property
    def lengths(self) -> list[int]:
        """Tokens of each document."""
        return [int(length) for length in self.offsets.diff()]

    @property
    def digest(self) -> str:
        """SHA-256 over all that training reads."""
        digest = hashlib.sha256("\0".join(self.domains).encode())
        for tensor in (self.ids, self.supervised, self.offsets, self.domain_of):
            digest.update(tensor.to(torch.int64).numpy().tobytes())
        return digest.hexdigest()

    def select(self, indices: list[int]) -> "Corpus":
        """The named documents, in that order, as a corpus of their own."""
        documents = [self[index] for index in indices]
        lengths = torch.tensor([0, *(len(document.ids) for document in documents)])
        empty = torch.zeros(0, dtype=torch.int64)
        return Corpus(
            ids=torch.cat([empty, *(document.ids for document in documents)]).to(self.ids.dtype),
            supervised=torch.cat([empty.bool(), *(document.supervised for document in documents)]),
            offsets=lengths.cumsum(0),
            domains=self.domains,
            domain_of=self.domain_of[indices],
        )
