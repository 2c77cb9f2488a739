"""Text from the target model, drafted or not; and regenerated answers to train on.

A drafter learns what its target model says, so training answers are the target's own, sampled as
it will be served. The loop is ``trainer.decode``'s.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from trainer.acceptance import acceptance
from trainer.decode import Sampling, decode
from trainer.drafter import Drafter
from trainer.reading import Json
from trainer.target import Target


@dataclass(frozen=True)
class Request:
    """A prompt's token ids, and where it came from."""

    ids: tuple[int, ...]
    domain: str = "prompt"


@dataclass(frozen=True)
class Generated:
    """One answer; ``acceptance_length`` is None when nothing was drafted."""

    prompt: tuple[int, ...]
    tokens: tuple[int, ...]
    domain: str
    stopped: bool
    tokens_per_s: float
    acceptance_length: float | None

    def as_sample(self) -> dict[str, Json]:
        """The line that ``trainer data prepare`` reads: prompt unsupervised, answer supervised."""
        ids: list[Json] = [*self.prompt, *self.tokens]
        mask: list[Json] = [*(0 for _ in self.prompt), *(1 for _ in self.tokens)]
        return {
            "input_ids": ids,
            "loss_mask": mask,
            "domain": self.domain,
        }


def generate(
    target: Target,
    drafter: Drafter | None,
    requests: Sequence[Request],
    *,
    new_tokens: int,
    sampling: Sampling,
    stop: frozenset[int],
    seed: int,
) -> Iterator[Generated]:
    """Answer each request in turn; the draw of request ``i`` is seeded by ``seed + i``."""
    for number, request in enumerate(requests):
        found = decode(
            target,
            drafter,
            request.ids,
            new_tokens=new_tokens,
            stop=stop,
            sampling=sampling,
            seed=seed + number,
        )
        length = None
        if drafter is not None and found.rounds:
            length = acceptance([found.rounds], drafter.config.block_size).length_by_round
        yield Generated(
            prompt=request.ids,
            tokens=found.tokens,
            domain=request.domain,
            stopped=found.stopped,
            tokens_per_s=(len(found.tokens) - 1) / found.seconds if found.seconds > 0 else 0.0,
            acceptance_length=length,
        )
