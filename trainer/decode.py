"""The real speculative loop: draft a block, verify it, commit what the target model agrees with.

Greedy output is the target model's own greedy output; sampled output has the target model's own
distribution. Holds sampling, rejection and the loop for one sequence; counting what was accepted
is ``trainer.acceptance``'s, prompts and files are the command line's.

The one thing to know: at the top of a round both caches hold exactly the committed tokens but the
newest. That one opens the block; the taps of the last verification are its new context.

Shape letters: M rows of a verification (the newest token and the drafted ones), V vocabulary.

Source: DFlash, arXiv 2602.06036; rejection as in Leviathan et al., arXiv 2211.17192.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional
from torch.nn.attention import sdpa_kernel

from trainer.attention import SHAPELESS_KERNELS, plan_decoding
from trainer.drafter import DraftCache, Drafter
from trainer.errors import ConfigError
from trainer.target import Target


@dataclass(frozen=True, slots=True)
class Sampling:
    """How a token is chosen from logits; temperature 0 is greedy. The draft is drawn alike."""

    temperature: float = 0.0
    top_p: float = 1.0
    top_k: int = 0

    def __post_init__(self) -> None:
        if self.temperature < 0:
            raise ConfigError(f"temperature: {self.temperature} is negative; give 0 for greedy")
        if not 0 < self.top_p <= 1:
            raise ConfigError(f"top_p: {self.top_p} cannot be used; give more than 0, at most 1")
        if self.top_k < 0:
            raise ConfigError(f"top_k: {self.top_k} is negative; give 0 for no limit")

    @property
    def is_greedy(self) -> bool:
        """Whether the likeliest token is taken."""
        return self.temperature == 0


@dataclass(frozen=True, slots=True)
class Round:
    """One verification: tokens drafted, how many were accepted, and how many came out.

    ``produced`` is ``accepted`` and the bonus token, less what a limit or a stop token cut off.
    """

    drafted: int
    accepted: int
    produced: int


@dataclass(frozen=True, slots=True)
class Decoded:
    """New tokens of one sequence, the prompt's not included; the stop token is.

    ``seconds`` is the time from the first token's choice to the last; it leaves out the prompt.
    """

    tokens: tuple[int, ...]
    rounds: tuple[Round, ...]
    stopped: bool
    seconds: float


def distribution(logits: Tensor, sampling: Sampling) -> Tensor:
    """Probabilities (..., V) that ``sampling`` draws from; greedy is not a draw.

    Top-k is applied before top-p, and a token stays when those likelier than it hold less
    than ``top_p``.
    """
    scores = logits.float() / sampling.temperature
    if 0 < sampling.top_k < scores.shape[-1]:
        least = scores.topk(sampling.top_k, dim=-1).values[..., -1:]
        scores = scores.masked_fill(scores < least, -torch.inf)
    chances = scores.softmax(-1)
    if sampling.top_p < 1:
        ranked, order = chances.sort(dim=-1, descending=True, stable=True)
        ranked = ranked * (ranked.cumsum(-1) - ranked < sampling.top_p)
        chances = torch.zeros_like(chances).scatter(-1, order, ranked)
        chances = chances / chances.sum(-1, keepdim=True)
    return chances


def greedy_acceptance(drafted: Tensor, logits: Tensor) -> tuple[int, int]:
    """How many drafted tokens are the target's own choice, and the token after them.

    Args:
        drafted: int64 (M - 1,).
        logits: The target's, (M, V); row k predicts drafted token k.
    """
    choice = logits.argmax(-1)
    accepted = int((drafted == choice[:-1]).cumprod(0).sum())
    return accepted, int(choice[accepted])


def rejection(
    drafted: Tensor, target: Tensor, draft: Tensor, uniforms: Tensor
) -> tuple[int, Tensor]:
    """How many drafted tokens stay, and the distribution the next one is drawn from.

    Token k stays iff uniform * q(token) < p(token) and all before it stayed; at the first that
    does not, the next token is drawn from max(p - q, 0), else from the last p. So every token
    that comes out has the target's distribution.

    Args:
        drafted: int64 (M - 1,).
        target: p, (M, V).
        draft: q, (M - 1, V).
        uniforms: (M - 1,), in [0, 1).

    Returns:
        The count, and probabilities (V,).
    """
    p = target[:-1].gather(1, drafted[:, None])[:, 0]
    q = draft.gather(1, drafted[:, None])[:, 0]
    accepted = int((uniforms * q < p).cumprod(0).sum())
    if accepted == len(drafted):
        return accepted, target[-1]
    rest = (target[accepted] - draft[accepted]).clamp_min(0)
    total = rest.sum()
    # p and q can only be equal by rounding here, and then p itself is right.
    return accepted, rest / total if total > 0 else target[accepted]


@torch.inference_mode()
def decode(
    target: Target, drafter: Drafter | None, prompt: Sequence[int], *, new_tokens: int,
    stop: frozenset[int] = frozenset(), sampling: Sampling | None = None, seed: int = 0,
) -> Decoded:  # fmt: skip
    """Continue ``prompt``; without a drafter the same loop yields one token a round.

    Args:
        target: The frozen target model, its taps those of the drafter.
        drafter: Its drafter, on the same device; or None.
        prompt: Token ids, at least one.
        new_tokens: The most that come out, at least one.
        stop: Ids after which nothing comes out.
        sampling: Greedy when None.
        seed: Of every draw.

    Raises:
        ConfigError: the prompt is empty, or nothing is asked for.
    """
    if not prompt:
        raise ConfigError("prompt: has no tokens; give at least one")
    if new_tokens < 1:
        raise ConfigError(f"new_tokens: {new_tokens} cannot be used; give at least 1")
    loop = _Loop(target, drafter, sampling or Sampling(), seed)
    with sdpa_kernel(list(SHAPELESS_KERNELS)):
        return _decode(loop, prompt, new_tokens, stop)


def _decode(loop: "_Loop", prompt: Sequence[int], new_tokens: int, stop: frozenset[int]) -> Decoded:
    tokens = [loop.prefill(prompt)]
    started = loop.now()
    rounds: list[Round] = []
    stopped = tokens[0] in stop
    while len(tokens) < new_tokens and not stopped:
        room = new_tokens - len(tokens)
        drafted, accepted, out = loop.round(tokens[-1], room)
        out = out[:room]
        ends = [index for index, token in enumerate(out) if token in stop]
        if ends:
            out, stopped = out[: ends[0] + 1], True
        rounds.append(Round(drafted, accepted, len(out)))
        tokens += out
        loop.commit(len(out))
    return Decoded(tuple(tokens), tuple(rounds), stopped, loop.now() - started)


class _Loop:
    """The state of one sequence: both caches, and the context the drafter has not seen yet."""

    def __init__(
        self, target: Target, drafter: Drafter | None, sampling: Sampling, seed: int
    ) -> None:
        self.target = target
        self.drafter = drafter
        self.sampling = sampling
        self.device = target.embedding_VH.device
        self.generator = torch.Generator(self.device).manual_seed(seed)
        self.session = target.session()
        self.cache = DraftCache()
        self.context = torch.empty(0)
        self.committed = 0

    def prefill(self, prompt: Sequence[int]) -> int:
        """Read the prompt and choose the first new token."""
        fed = self.session.feed(torch.tensor(prompt, device=self.device))
        self.committed = len(prompt)
        self.context = fed.taps_MF
        if self.sampling.is_greedy:
            return int(fed.logits_MV[-1].argmax())
        return self._draw(distribution(fed.logits_MV[-1], self.sampling))

    def round(self, newest: int, room: int) -> tuple[int, int, list[int]]:
        """Draft and verify one block: tokens drafted, tokens accepted, tokens that come out."""
        size = 1 if self.drafter is None else min(self.drafter.config.block_size, room + 1)
        block = torch.full((size,), newest, device=self.device)
        chances = None
        if self.drafter is not None:
            logits = self._draft(self.drafter, block)
            if self.sampling.is_greedy:
                block[1:] = logits.argmax(-1)
            else:
                chances = distribution(logits, self.sampling)
                block[1:] = torch.multinomial(chances, 1, generator=self.generator)[:, 0]
        fed = self.session.feed(block)
        self.context = fed.taps_MF
        accepted, bonus = self._verify(block[1:], fed.logits_MV, chances)
        return size - 1, accepted, [*block[1 : accepted + 1].tolist(), bonus]

    def commit(self, produced: int) -> None:
        """Keep the first ``produced`` rows of the last verification, forget the others."""
        self.committed += produced
        self.session.crop(self.committed)
        self.context = self.context[:produced]

    def now(self) -> float:
        """Seconds of a monotonic clock, once the device has finished what it was given."""
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
        return time.perf_counter()

    def _draft(self, drafter: Drafter, block: Tensor) -> Tensor:
        """Logits (M - 1, V) of the masked rows; the cache then holds the committed tokens."""
        config = drafter.config
        ids = block.clone()
        ids[1:] = config.mask_token_id
        dtype = drafter.fc.weight.dtype
        end = self.committed + len(block)
        attend = plan_decoding(config.mask_rules, rows=len(block), keys=end, device=self.device)
        start = self.committed - len(self.context)
        assert self.cache.length == start
        hidden = drafter(
            functional.embedding(ids, self.target.embedding_VH)[None].to(dtype),
            self.context[None].to(dtype),
            torch.arange(start, end, device=self.device)[None],
            attend,
            self.cache,
        )
        self.cache.crop(self.committed)
        head = self.target.head_VH
        logits: Tensor = hidden[0, 1:].to(head.dtype) @ head.T
        return logits

    def _verify(self, drafted: Tensor, logits: Tensor, chances: Tensor | None) -> tuple[int, int]:
        if self.sampling.is_greedy:
            return greedy_acceptance(drafted, logits)
        wanted = distribution(logits, self.sampling)
        if chances is None:
            return 0, self._draw(wanted[-1])
        uniforms = torch.rand(len(drafted), generator=self.generator, device=self.device)
        accepted, rest = rejection(drafted, wanted, chances, uniforms)
        return accepted, self._draw(rest)

    def _draw(self, chances: Tensor) -> int:
        return int(torch.multinomial(chances, 1, generator=self.generator))
