"""A seeded synthetic language that a tiny model can learn: words from a lexicon, in a simple order.

A document is a prompt (a topic mark and a few words) and a response that goes on with the topic's
words. Once a word has begun, its letters are certain, and after a word only a few may follow: there
is something to draft, and something to be wrong about. Real text is ``trainer.data``'s.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from trainer.corpus import Corpus
from trainer.errors import ConfigError

_TOPICS = 4
_WORDS_PER_TOPIC = 8
_FOLLOWERS = 2
_PROMPT_WORDS = 2
_SHORTEST, _LONGEST = 3, 6
_LEAST_VOCABULARY = 48


@dataclass(frozen=True)
class Language:
    """The lexicon: ``words[topic][word]`` is a spelling, ``next[topic][word]`` who may follow.

    Token ids: 0 ends a word, 1.. ``_TOPICS`` mark topics, the rest are letters; the last id of the
    vocabulary is never used, so it can be the mask token.
    """

    words: tuple[tuple[tuple[int, ...], ...], ...]
    followers: tuple[tuple[tuple[int, ...], ...], ...]

    def document(self, length: int, seed: int) -> tuple[Tensor, Tensor, int]:
        """Token ids, which of them are response, and the topic; ``length`` tokens."""
        draw = torch.Generator().manual_seed(seed)
        topic = _below(_TOPICS, draw)
        word = _below(_WORDS_PER_TOPIC, draw)
        ids = [1 + topic]
        prompt_end = 0
        for count in range(length):
            ids += [*self.words[topic][word], 0]
            if count + 1 == _PROMPT_WORDS:
                prompt_end = len(ids)
            if len(ids) >= length:
                break
            word = self.followers[topic][word][_below(_FOLLOWERS, draw)]
        supervised = torch.arange(length) >= prompt_end
        return torch.tensor(ids[:length]), supervised, topic


def make_language(vocab_size: int, seed: int) -> Language:
    """The language of this seed over token ids 0 to ``vocab_size - 2``.

    Raises:
        ConfigError: the vocabulary is too small to tell words apart.
    """
    if vocab_size < _LEAST_VOCABULARY:
        raise ConfigError(
            f"vocab_size: {vocab_size} is below {_LEAST_VOCABULARY} for synthetic data"
        )
    draw = torch.Generator().manual_seed(seed)
    first_letter = 1 + _TOPICS
    letters = vocab_size - 1 - first_letter
    words = tuple(
        tuple(
            tuple(
                first_letter + _below(letters, draw)
                for _ in range(_SHORTEST + _below(_LONGEST - _SHORTEST + 1, draw))
            )
            for _ in range(_WORDS_PER_TOPIC)
        )
        for _ in range(_TOPICS)
    )
    followers = tuple(
        tuple(
            tuple(_below(_WORDS_PER_TOPIC, draw) for _ in range(_FOLLOWERS))
            for _ in range(_WORDS_PER_TOPIC)
        )
        for _ in range(_TOPICS)
    )
    return Language(words, followers)


def synthetic_corpus(
    *, vocab_size: int, documents: int, length: int, seed: int, first: int = 0
) -> Corpus:
    """``documents`` documents of ``length`` tokens; ``first`` skips as many, for held-out ones."""
    language = make_language(vocab_size, seed)
    made = [
        language.document(length, seed * 1_000_003 + first + index) for index in range(documents)
    ]
    return Corpus(
        ids=torch.cat([ids for ids, _, _ in made]).to(torch.int32),
        supervised=torch.cat([supervised for _, supervised, _ in made]),
        offsets=torch.arange(documents + 1) * length,
        domains=tuple(f"topic-{topic}" for topic in range(_TOPICS)),
        domain_of=torch.tensor([topic for _, _, topic in made]),
    )


def _below(limit: int, draw: torch.Generator) -> int:
    return int(torch.randint(limit, (), generator=draw))
