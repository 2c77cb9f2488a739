"""Proves on the actual target model what training relies on, before a step is paid for.

Each check has the name of the fault that it excludes. A check passes only on positive proof; what
cannot be proved here is said to be unproved, with the reason, and does not pass for proved. A run
refuses to start on a fault, and the report's digest goes into every checkpoint.
"""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from trainer.corpus import Corpus
from trainer.drafter import DrafterConfig
from trainer.errors import PreflightError
from trainer.files import canonical
from trainer.reading import plain
from trainer.target import Backbone, TapHooks, Target

Outcome = Literal["proved", "fault", "unproved"]
_PROBE_TOKENS = 48
_CROP = 29  # an odd place in the probe, so that no chunk size divides it
_PARALLEL = 0.999  # cosine; roundings of bfloat16 stay above it
_HALF_FLOAT_LIMIT = 65504.0  # above it a tap would overflow where fp16 is served


@dataclass(frozen=True)
class Check:
    """One check; ``name`` is the fault that it excludes."""

    name: str
    outcome: Outcome
    detail: str


@dataclass(frozen=True)
class PreflightReport:
    """All checks of one target model with one drafter and one corpus."""

    target: str
    target_digest: str
    data_digest: str
    checks: tuple[Check, ...]

    @property
    def faults(self) -> tuple[Check, ...]:
        """The checks that failed."""
        return tuple(check for check in self.checks if check.outcome == "fault")

    @property
    def digest(self) -> str:
        """SHA-256 over the whole report."""
        return hashlib.sha256(canonical(plain(self))).hexdigest()

    def require(self) -> None:
        """Raise unless no check found a fault.

        Raises:
            PreflightError: names the first fault, and how many more there are.
        """
        if self.faults:
            first, more = self.faults[0], len(self.faults) - 1
            rest = f" (and {more} more)" if more else ""
            raise PreflightError(f"preflight: {first.name}: {first.detail}{rest}")


@dataclass(frozen=True)
class Subject:
    """What is examined."""

    backbone: Backbone
    shape: DrafterConfig
    corpus: Corpus
    stop_ids: frozenset[int]
    data_chat_format: str | None
    target_chat_format: str | None
    predicts: bool
    device: torch.device

    def probe_ids(self) -> Tensor:
        """One sequence ``(1, S)`` of the data's own tokens."""
        ids = self.corpus.ids[:_PROBE_TOKENS].to(torch.int64)
        repeats = -(-_PROBE_TOKENS // max(1, len(ids)))
        return ids.repeat(repeats)[None, :_PROBE_TOKENS].to(self.device)


@torch.no_grad()
def preflight(subject: Subject) -> PreflightReport:
    """Run every check; one that cannot even be made is a fault of that name."""
    vocabulary = _vocabulary(subject)
    checks = [vocabulary]
    if vocabulary.outcome == "proved":  # with foreign token ids no probe means anything
        checks += [check(subject) for check in _CHECKS]
    return PreflightReport(
        target=subject.backbone.name,
        target_digest=subject.backbone.digest,
        data_digest=subject.corpus.digest,
        checks=tuple(checks),
    )


def _vocabulary(subject: Subject) -> Check:
    highest = int(subject.corpus.ids.max())
    known = subject.backbone.shape.vocab_size
    return _check(
        "foreign_tokens",
        int(subject.corpus.ids.min()) >= 0 and highest < known,
        f"data has token ids up to {highest}, the target model {known} ids",
    )


def _hooks(subject: Subject) -> Check:
    ids = subject.probe_ids()
    without = subject.backbone.logits(ids)
    with TapHooks(subject.backbone.layers(), subject.shape.target_layer_ids):
        with_hooks = subject.backbone.logits(ids)
    return _check(
        "hooks_change_logits",
        torch.equal(without, with_hooks),
        f"with hooks the logits differ by up to {_gap(without, with_hooks):.3g}",
        "logits are bitwise the same with and without",
    )


def _taps(subject: Subject) -> Check:
    """A tap must be bitwise what enters the next layer, and not what enters its own."""
    layers = subject.backbone.layers()
    taps = subject.shape.target_layer_ids
    entering = _inputs(layers, lambda: subject.backbone.hidden(subject.probe_ids(), None))
    reading = Target(subject.backbone, taps).read(subject.probe_ids())
    found = reading.taps_BSF.chunk(len(taps), dim=-1)
    count = subject.backbone.shape.num_hidden_layers
    wrong = [
        tap
        for tap, value in zip(taps, found, strict=True)
        if len(entering) != count
        or not torch.equal(value, entering[tap + 1])
        or torch.equal(value, entering[tap])
    ]
    # Layer 0 must be fed the embedding itself: else the list begins one layer early or late.
    embedded = subject.backbone.embedding()[subject.probe_ids()]
    starts = _parallel(entering[0], embedded)
    return _check(
        "tap_off_by_one",
        not wrong and starts,
        f"taps {wrong or list(taps)} are not the outputs of those layers"
        f" (layer 0 {'reads' if starts else 'does not read'} the embedding)",
        f"taps {list(taps)} enter the layers after them, bit for bit",
    )


def _final_norm(subject: Subject) -> Check:
    """Logits rebuilt from final states by the bare head must be the model's own."""
    ids = subject.probe_ids()
    own = subject.backbone.logits(ids).float()
    final = subject.backbone.hidden(ids, None)
    rebuilt = (final @ subject.backbone.head().to(final.dtype).T).float()
    allowed = _tolerance(final.dtype) * float(own.abs().max().clamp_min(1))
    gap = _gap(own, rebuilt)
    return _check(
        "final_norm",
        own.shape == rebuilt.shape and gap <= allowed,
        f"head x final state differs from the model's logits by {gap:.3g}, allowed {allowed:.3g}:"
        " the final norm is missing or applied twice, or logits are scaled or soft-capped",
        f"head x final state gives the model's logits, to {gap:.3g} (allowed {allowed:.3g})",
    )


def _tied_head(subject: Subject) -> Check:
    same = torch.equal(subject.backbone.embedding(), subject.backbone.head())
    declared = subject.backbone.declares_tied_head
    return _check(
        "tied_head",
        same == declared,
        f"the configuration says the head is {'' if declared else 'not '}the embedding,"
        f" the weights say it is {'' if same else 'not '}",
        f"head and embedding are {'one' if same else 'two'}, as the configuration says",
    )


def _prediction(subject: Subject) -> Check:
    """A head left random, or data of another model, shows as prediction no better than chance."""
    name = "head_does_not_predict"
    if not subject.predicts:
        return Check(name, "unproved", "a random target model predicts nothing")
    ids = subject.probe_ids()
    logits = subject.backbone.logits(ids)[0, :-1].float()
    loss = float(nn.functional.cross_entropy(logits, ids[0, 1:]))
    chance = float(torch.log(torch.tensor(float(subject.backbone.shape.vocab_size))))
    return _check(
        name,
        loss < 0.7 * chance,
        f"cross-entropy {loss:.2f} on the data's first tokens is little better than chance,"
        f" {chance:.2f}: the head is not the model's, or the data is another model's",
        f"cross-entropy {loss:.2f} on the data's first tokens, chance is {chance:.2f}",
    )


def _rope(subject: Subject) -> Check:
    base, ours = subject.backbone.rope_base(), subject.shape.rope_theta
    if base is None:
        return Check("rope", "unproved", "the model shows no rotary frequencies to read")
    # The frequencies are float32, so the base read from them is good to about 1e-5.
    return _check(
        "rope",
        abs(base - ours) <= 1e-3 * ours,
        f"the model rotates by base {base:.0f}, the drafter would by {ours:.0f}",
        f"the model rotates by base {base:.0f}, and so does the drafter",
    )


def _mask_token(subject: Subject) -> Check:
    token = subject.shape.mask_token_id
    used = int((subject.corpus.ids == token).sum())
    row = subject.backbone.embedding()[token].float()
    faults = []
    if token in subject.stop_ids:
        faults.append("it ends a turn")
    if used:
        faults.append(f"the data holds it {used} times")
    if not bool(row.isfinite().all()) or not bool(row.any()):
        faults.append("its embedding is zero or not finite")
    return _check(
        "mask_token",
        not faults,
        f"token {token} cannot be the mask: {', '.join(faults)}",
        f"token {token} is in the embedding, ends nothing, and stands nowhere in the data",
    )


def _chat_template(subject: Subject) -> Check:
    name = "chat_template"
    ours, theirs = subject.data_chat_format, subject.target_chat_format
    if ours is None:
        return Check(name, "unproved", "the data came as token ids; who rendered it is not known")
    return _check(
        name,
        ours == theirs,
        "the data was rendered by another tokenizer, template or options than the target"
        " model's; prepare it again with those of serving",
        "the data was rendered by the target model's tokenizer, template and options",
    )


def _causality(subject: Subject) -> Check:
    """What follows a token must not change its states: rows are read padded on the right."""
    ids = subject.probe_ids()
    target = Target(subject.backbone, subject.shape.target_layer_ids)
    whole, part = target.read(ids).taps_BSF[:, :_CROP], target.read(ids[:, :_CROP]).taps_BSF
    gap, scale = _gap(whole, part), float(whole.float().abs().max().clamp_min(1))
    return _check(
        "not_causal",
        gap <= _tolerance(whole.dtype) * scale,
        f"later tokens move earlier taps by {gap:.3g} of {scale:.3g}",
        f"later tokens leave earlier taps alone, to {gap:.3g} of {scale:.3g}",
    )


def _cache(subject: Subject) -> Check:
    """Fed in parts and cropped, the model must say what it says when read whole."""
    ids = subject.probe_ids()
    own = subject.backbone.logits(ids)[0].float()
    session = Target(subject.backbone, subject.shape.target_layer_ids).session()
    session.feed(ids[0, : _CROP + 8])
    session.crop(_CROP)
    fed = session.feed(ids[0, _CROP:])
    gap, scale = _gap(own[_CROP:], fed.logits_MV), float(own.abs().max().clamp_min(1))
    return _check(
        "cache_crop",
        session.length == ids.shape[1] and gap <= _tolerance(subject.backbone.head().dtype) * scale,
        f"after a crop the logits differ by {gap:.3g} of {scale:.3g}",
        f"after a crop the logits are those of reading the whole, to {gap:.3g} of {scale:.3g}",
    )


def _finite(subject: Subject) -> Check:
    target = Target(subject.backbone, subject.shape.target_layer_ids)
    largest = float(target.read(subject.probe_ids()).taps_BSF.float().abs().max())
    return _check(
        "taps_overflow",
        largest < _HALF_FLOAT_LIMIT,
        f"the largest tap is {largest:.3g}, above what half floats hold",
        f"the largest tap is {largest:.3g}",
    )


_CHECKS: tuple[Callable[[Subject], Check], ...] = (
    _hooks,
    _taps,
    _final_norm,
    _tied_head,
    _prediction,
    _rope,
    _mask_token,
    _chat_template,
    _causality,
    _cache,
    _finite,
)


def _check(name: str, holds: bool, fault: str, proof: str | None = None) -> Check:  # noqa: FBT001 - a claim
    return Check(name, "proved" if holds else "fault", (proof or fault) if holds else fault)


def _inputs(layers: Sequence[nn.Module], run: Callable[[], Tensor]) -> list[Tensor]:
    """What each layer is fed during one forward pass, in the order of running."""
    seen: list[Tensor] = []

    def keep(_module: nn.Module, arguments: tuple[Tensor, ...], named: dict[str, Tensor]) -> None:
        seen.append(arguments[0] if arguments else named["hidden_states"])

    handles = [layer.register_forward_pre_hook(keep, with_kwargs=True) for layer in layers]
    try:
        run()
    finally:
        for handle in handles:
            handle.remove()
    return seen


def _parallel(left: Tensor, right: Tensor) -> bool:
    """Whether the rows point the same way; some families scale their embedding."""
    cosine = nn.functional.cosine_similarity(left.float(), right.float(), dim=-1)
    return bool((cosine > _PARALLEL).all())


def _gap(left: Tensor, right: Tensor) -> float:
    return float((left.float() - right.float()).abs().max()) if left.shape == right.shape else 1e30


def _tolerance(dtype: torch.dtype) -> float:
    """Relative to the largest value; a few roundings of a deep model in this precision."""
    return 1e-4 if dtype == torch.float32 else 6e-2
