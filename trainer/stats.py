"""What a corpus is made of: shares of each domain, and an alarm when one dominates.

A drafter learns the mixture that it sees: with 77 % code it drafts code well and all else badly,
and no loss curve says so. Making a corpus is ``trainer.data``'s.
"""

from dataclasses import dataclass

from trainer.corpus import Corpus

DOMINANCE = 0.6
"""Share of supervised tokens above which one domain among several raises the alarm."""


@dataclass(frozen=True)
class DomainShare:
    """One domain; ``share`` is of all supervised tokens."""

    domain: str
    documents: int
    tokens: int
    supervised_tokens: int
    share: float


@dataclass(frozen=True)
class Stats:
    """A corpus in numbers; ``alarms`` is one line each, empty when all is well."""

    documents: int
    tokens: int
    supervised_tokens: int
    length_median: int
    length_max: int
    domains: tuple[DomainShare, ...]
    alarms: tuple[str, ...]


def corpus_stats(corpus: Corpus, *, dominance: float = DOMINANCE) -> Stats:
    """The shares of each domain, largest first."""
    lengths = corpus.offsets.diff()
    starts = corpus.offsets[:-1]
    cumulative = corpus.supervised.long().cumsum(0)
    before = corpus.offsets.new_zeros(len(corpus.ids) + 1)
    before[1:] = cumulative
    supervised = before[starts + lengths] - before[starts]
    total = int(supervised.sum())
    shares = []
    for number, name in enumerate(corpus.domains):
        mine = corpus.domain_of == number
        own = int(supervised[mine].sum())
        share = own / total if total else 0.0
        shares.append(DomainShare(name, int(mine.sum()), int(lengths[mine].sum()), own, share))
    shares.sort(key=lambda each: (-each.share, each.domain))
    return Stats(
        documents=len(corpus),
        tokens=len(corpus.ids),
        supervised_tokens=total,
        length_median=int(lengths.median()) if len(corpus) else 0,
        length_max=int(lengths.max()) if len(corpus) else 0,
        domains=tuple(shares),
        alarms=tuple(
            f"domain '{each.domain}' holds {each.share:.0%} of the supervised tokens,"
            f" above {dominance:.0%}; add other data, or this drafter serves only it well"
            for each in shares
            if each.share > dominance
        ),
    )
