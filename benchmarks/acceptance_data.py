"""Texts of the acceptance race: compressed token shards, a corpus, and the target's features.

A shard is a NumPy archive inside xz: ``ids`` uint16 end to end, ``offsets`` uint32, ``prompts``
uint16 (tokens before the answer) and ``temperature`` float16, one entry a text each. Ten million
tokens take about 14 MB.
"""

import io
import lzma
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from trainer.corpus import Corpus
from trainer.target import Target


@dataclass(frozen=True, slots=True)
class Text:
    """A prompt and the target model's answer, as token ids."""

    ids: tuple[int, ...]
    prompt: int
    temperature: float


def write_shard(path: Path, texts: Sequence[Text]) -> None:
    """Store ``texts``; a prompt alone is a text without an answer."""
    buffer = io.BytesIO()
    np.savez(
        buffer,
        ids=np.array([token for text in texts for token in text.ids], dtype=np.uint16),
        offsets=np.cumsum([0, *(len(text.ids) for text in texts)]).astype(np.uint32),
        prompts=np.array([text.prompt for text in texts], dtype=np.uint16),
        temperature=np.array([text.temperature for text in texts], dtype=np.float16),
    )
    path.write_bytes(lzma.compress(buffer.getvalue(), preset=6))


def read_shard(path: Path) -> list[Text]:
    """The texts in ``path``."""
    with np.load(io.BytesIO(lzma.decompress(path.read_bytes()))) as held:
        ids, offsets = held["ids"].tolist(), held["offsets"].tolist()
        pairs = zip(held["prompts"].tolist(), held["temperature"].tolist(), strict=True)
        return [
            Text(tuple(ids[offsets[index] : offsets[index + 1]]), prompt, temperature)
            for index, (prompt, temperature) in enumerate(pairs)
        ]


def corpus_of(texts: Sequence[Text]) -> Corpus:
    """The texts as the trainer's corpus: answers are supervised, prompts are not."""
    lengths = torch.tensor([len(text.ids) for text in texts])
    supervised = [torch.arange(len(text.ids)) >= text.prompt for text in texts]
    return Corpus(
        ids=torch.tensor([token for text in texts for token in text.ids], dtype=torch.int32),
        supervised=torch.cat(supervised),
        offsets=torch.cat([torch.zeros(1, dtype=torch.int64), lengths.cumsum(0)]),
        domains=("all",),
        domain_of=torch.zeros(len(texts), dtype=torch.int64),
    )


class FeatureStore:
    """The target's taps and final states of a whole corpus, on the target's device.

    ``taps`` is (T + 1, F) and ``final`` (T + 1, H), a row a token in corpus order; the last row
    is zeros, for padding.
    """

    def __init__(self, target: Target, corpus: Corpus, *, tokens_per_read: int = 32_768) -> None:
        tokens = int(corpus.offsets[-1])
        like = target.embedding_VH
        self.taps = like.new_zeros(tokens + 1, target.feature_size)
        self.final = like.new_zeros(tokens + 1, target.shape.hidden_size)
        lengths = corpus.offsets.diff().tolist()
        order = sorted(range(len(lengths)), key=lambda index: lengths[index])
        group: list[int] = []
        for index in order:
            if group and (len(group) + 1) * lengths[index] > tokens_per_read:
                self._read(target, corpus, group)
                group = []
            group.append(index)
        self._read(target, corpus, group)

    @property
    def padding(self) -> int:
        """The row of zeros."""
        return len(self.taps) - 1

    def _read(self, target: Target, corpus: Corpus, group: list[int]) -> None:
        documents = [corpus[index].ids for index in group]
        longest = max(len(ids) for ids in documents)
        ids_BS = torch.zeros(len(group), longest, dtype=torch.int64)
        to = torch.full((len(group), longest), self.padding)
        for slot, (index, ids) in enumerate(zip(group, documents, strict=True)):
            ids_BS[slot, : len(ids)] = ids
            to[slot, : len(ids)] = int(corpus.offsets[index]) + torch.arange(len(ids))
        device = self.taps.device
        reading = target.read(ids_BS.to(device))
        place = to.flatten().to(device)
        self.taps[place] = reading.taps_BSF.flatten(0, 1)
        self.final[place] = reading.final_BSH.flatten(0, 1)
        self.taps[self.padding] = 0
        self.final[self.padding] = 0


def index_of(
    documents: Sequence[int], places: Sequence[int], corpus: Corpus, size: int, padding: int
) -> Tensor:
    """Which row of a store each place of a packed batch has: int64 (size,)."""
    index = torch.full((size,), padding)
    for document, place in zip(documents, places, strict=True):
        start, stop = int(corpus.offsets[document]), int(corpus.offsets[document + 1])
        index[place : place + stop - start] = torch.arange(start, stop)
    return index
