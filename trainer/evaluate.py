"""What a drafter is worth: real decoding on held-out prompts, beside the teacher-forced proxy.

Gives acceptance length (bonus included), histogram, per position, per domain, and speed against
the same loop without drafting. When the proxy promises what decoding does not keep, training and
serving differ somewhere (template, taps, mask, positions), and an alarm says so. The decoding loop
is ``trainer.decode``'s, the counting ``trainer.acceptance``'s.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from trainer.acceptance import Acceptance, acceptance
from trainer.config import RunConfig
from trainer.corpus import Corpus
from trainer.decode import Decoded, Round, Sampling, decode
from trainer.drafter import Drafter
from trainer.errors import DataError
from trainer.run import RunData
from trainer.schedule import Place, Row, pack
from trainer.step import Trainer
from trainer.target import Target

_TWO_SIDES = 2.0  # standard errors: a shortfall within them may be luck
_PROXY_DOCUMENTS = 64  # enough for a mean good to a few per cent, cheap beside decoding


@dataclass(frozen=True)
class Prompt:
    """Where decoding starts; token ids."""

    ids: tuple[int, ...]
    domain: str


@dataclass(frozen=True)
class Speed:
    """Tokens a second of the same loop, with the drafter and without, batch of one."""

    tokens_per_s: float
    tokens_per_s_plain: float
    speedup: float


@dataclass(frozen=True)
class Evaluation:
    """One evaluation; ``greedy_differs`` counts prompts whose greedy outputs are not equal.

    With exact arithmetic it is 0. In bfloat16 a block of rows and a single row may round apart.
    """

    overall: Acceptance
    domains: tuple[tuple[str, Acceptance], ...]
    proxy_length: float | None
    speed: Speed | None
    greedy_differs: int | None
    alarms: tuple[str, ...]


def evaluate(
    target: Target,
    drafter: Drafter,
    prompts: Sequence[Prompt],
    *,
    new_tokens: int,
    sampling: Sampling,
    stop: frozenset[int] = frozenset(),
    proxy_length: float | None = None,
    divergence_alarm: float = 0.35,
    compares_plain: bool = True,
) -> Evaluation:
    """Decode every prompt and count.

    Args:
        target: The frozen model, tapped as the drafter wants.
        drafter: In the precision it will serve in.
        prompts: Held out from training.
        new_tokens: Most new tokens a prompt.
        sampling: Greedy or not; the draw is seeded by the prompt's number.
        stop: End-of-turn tokens.
        proxy_length: The teacher-forced proxy on held-out documents, where known.
        divergence_alarm: Share of the proxy that decoding may fall short of it.
        compares_plain: Also decode without drafting, for the speed and for equality.
    """

    def decoded(by: Drafter | None) -> list[Decoded]:
        return [
            decode(
                target, by, each.ids, new_tokens=new_tokens, stop=stop, sampling=sampling, seed=n
            )
            for n, each in enumerate(prompts)
        ]

    drafted = decoded(drafter)
    plain = decoded(None) if compares_plain else []
    size = drafter.config.block_size
    overall = acceptance([each.rounds for each in drafted], size)
    return Evaluation(
        overall=overall,
        domains=_by_domain(prompts, drafted, size),
        proxy_length=proxy_length,
        speed=_speed(_rate(drafted), _rate(plain)) if plain else None,
        greedy_differs=_differing(drafted, plain) if plain and sampling.is_greedy else None,
        alarms=_alarms(overall, proxy_length, divergence_alarm),
    )


def evaluate_run(trainer: Trainer, data: RunData, config: RunConfig) -> Evaluation:
    """Evaluate as the run's settings say, on its held-out documents.

    Raises:
        DataError: the run holds no document out.
    """
    settings = config.evaluation
    prompts = held_out_prompts(data.held_out, settings.prompts)
    if not prompts:
        raise DataError(
            "no document is held out, so nothing can be evaluated; raise data.evaluation_share"
        )
    return evaluate(
        trainer.target,
        trainer.drafter,
        prompts,
        new_tokens=settings.new_tokens,
        sampling=Sampling(temperature=settings.temperature),
        stop=data.stop_ids,
        proxy_length=held_out_proxy(trainer, data.held_out, documents=_PROXY_DOCUMENTS),
        divergence_alarm=settings.divergence_alarm,
    )


def held_out_prompts(corpus: Corpus, count: int) -> tuple[Prompt, ...]:
    """The prompts of ``count`` documents spread over the corpus; without a prompt, none."""
    stride = max(1, len(corpus) // max(1, count))
    chosen: list[Prompt] = []
    for index in range(0, len(corpus), stride):
        document = corpus[index]
        prompt = document.ids[: document.prompt_length]
        if len(prompt) and len(chosen) < count:
            chosen.append(Prompt(tuple(prompt.tolist()), document.domain))
    return tuple(chosen)


def held_out_proxy(trainer: Trainer, corpus: Corpus, *, documents: int) -> float | None:
    """The teacher-forced proxy on the first ``documents`` documents; None when none counts."""
    fitting = [
        index
        for index, length in enumerate(corpus.lengths[:documents])
        if length <= trainer.config.row_tokens
    ]
    packed = pack(fitting, corpus.lengths, trainer.config.row_tokens)
    if not packed:
        return None
    rows = [Row(each, Place(0, number)) for number, each in enumerate(packed)]
    length = trainer.inspect(rows, corpus).length
    return length if length > 0 else None


def _by_domain(
    prompts: Sequence[Prompt], drafted: Sequence[Decoded], size: int
) -> tuple[tuple[str, Acceptance], ...]:
    rounds: dict[str, list[tuple[Round, ...]]] = {}
    for prompt, decoded in zip(prompts, drafted, strict=True):
        rounds.setdefault(prompt.domain, []).append(decoded.rounds)
    return tuple((domain, acceptance(rounds[domain], size)) for domain in sorted(rounds))


def _rate(decoded: Sequence[Decoded]) -> float:
    """Tokens a second after the first token, which the prompt's reading gives."""
    tokens = sum(len(each.tokens) - 1 for each in decoded)
    seconds = sum(each.seconds for each in decoded)
    return tokens / seconds if seconds > 0 else 0.0


def _speed(drafted: float, plain: float) -> Speed:
    return Speed(drafted, plain, drafted / plain if plain > 0 else 0.0)


def _differing(drafted: Sequence[Decoded], plain: Sequence[Decoded]) -> int:
    return sum(ours.tokens != theirs.tokens for ours, theirs in zip(drafted, plain, strict=True))


def _standard_error(found: Acceptance) -> float:
    """Of the acceptance length over rounds, from their histogram."""
    mean = found.length_by_round
    spread = sum(
        count * (length - mean) ** 2 for length, count in enumerate(found.histogram, start=1)
    )
    return math.sqrt(spread) / found.rounds


def _alarms(overall: Acceptance, proxy_length: float | None, allowed: float) -> tuple[str, ...]:
    if proxy_length is None or not overall.rounds:
        return ()
    # The bonus token is a gift in both, so what the drafter promises is the part above 1.
    promised, kept = proxy_length - 1, overall.length_by_round - 1
    if promised <= 0 or kept + _TWO_SIDES * _standard_error(overall) >= (1 - allowed) * promised:
        return ()
    alarm = (
        f"teacher forcing promises an acceptance length of {proxy_length:.2f}, decoding gives"
        f" {overall.length_by_round:.2f}: training and serving differ (chat template, taps, mask"
        " or positions), or the data is not the target model's own"
    )
    return (alarm,)
