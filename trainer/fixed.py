"""A training step of fixed shapes: its inputs are buffers, so a CUDA graph can replay it.

A small drafter's step is thousands of short kernels, and launching them costs more than running
them; a replay launches once. The same body runs eagerly where there is no GPU, so what is tested
there is what is captured. What a step computes is the business of ``trainer.drafter``, ``loss``
and ``optimizer``; batches come from ``trainer.batches``.

Shape letters: N rows, S context tokens of a row, A anchors of a row, B block size, F width of the
taps, H hidden size.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn import functional

from trainer.acceptance import Proxy, proxy
from trainer.anchors import Supervision, draft_ids, positions, supervise
from trainer.attention import Backend, plan_attention
from trainer.drafter import Drafter
from trainer.errors import ConfigError
from trainer.gradients import flattened, spread
from trainer.loss import CHUNK_ROWS, LossConfig, head_loss
from trainer.mask import Layout
from trainer.optimizer import MasterOptimizer
from trainer.sending import fill
from trainer.teacher import plan_teacher

ReadFeatures = Callable[[], tuple[Tensor, Tensor | None]]
"""Gives taps (N, S, F) and, for a teacher, final states (N, S, H); runs inside the graph."""

_WARM_UPS = 3
"""Passes before a capture: kernels are compiled and workspaces allocated in them."""


@dataclass(frozen=True, slots=True)
class StepShape:
    """What every batch of a fixed step has in common."""

    rows: int
    context: int
    anchors: int


@dataclass(frozen=True, slots=True)
class FixedOutcome:
    """Results of the last step, on the device; the next step overwrites them."""

    loss: Tensor
    grad_norm: Tensor
    proxy: Proxy


@dataclass(frozen=True, slots=True)
class HalfStep:
    """Results of a forward and backward pass, on the device; the next pass overwrites them.

    ``gradients`` are the drafter's, end to end.
    """

    loss: Tensor
    proxy: Proxy
    gradients: Tensor


@dataclass(frozen=True, slots=True)
class _Applied:
    """A captured optimiser step: the gradients that it reads, the norm that it writes."""

    graph: torch.cuda.CUDAGraph
    gradients: Tensor
    norm: Tensor


class FixedStep:
    """Trains ``drafter`` on batches of one shape; ``ids`` are the loaded batch's, (N, S).

    Args:
        drafter: On the device, in the precision to compute in.
        optimizer: Of that drafter.
        embedding: The target model's token embedding, (V, H).
        head: The target model's LM head, (V, H).
        shape: Of every batch.
        features: Reads the taps of the batch that was loaded last.
        loss: What is minimised.
        backend: How attention is computed.
        chunk_rows: Rows whose logits exist at one time.
        captures: Whether to capture a CUDA graph; needs a GPU.
    """

    def __init__(
        self, drafter: Drafter, optimizer: MasterOptimizer, embedding: Tensor, head: Tensor,
        *, shape: StepShape, features: ReadFeatures, loss: LossConfig, backend: Backend,
        chunk_rows: int = CHUNK_ROWS, captures: bool = False,
    ) -> None:  # fmt: skip
        self.drafter = drafter
        self.optimizer = optimizer
        self._embedding, self._head = embedding, head
        self._shape, self._features, self._loss = shape, features, loss
        self._backend, self._chunk_rows, self._captures = backend, chunk_rows, captures
        self._graph: torch.cuda.CUDAGraph | None = None
        self._outcome: FixedOutcome | None = None
        self._half: tuple[torch.cuda.CUDAGraph, HalfStep] | None = None
        self._applied: _Applied | None = None
        self._parameters = list(drafter.parameters())
        device = embedding.device
        size = drafter.config.block_size
        document = torch.zeros((shape.rows, shape.context), dtype=torch.int64)
        anchor = torch.zeros((shape.rows, shape.anchors), dtype=torch.int64)
        layout = Layout(anchor, anchor, torch.zeros_like(anchor).bool(), shape.context, size)
        taught = supervise(layout, document, document, document, compact=False)
        self.ids = torch.zeros_like(document, device=device)
        self._document = torch.zeros_like(document, device=device)
        # A buffer of its own: anchors and firsts were one tensor.
        self._layout = replace(layout, first=layout.first.clone()).to(device)
        self._supervision = taught.to(device)
        self._total = torch.ones((), device=device)

    def load(
        self, ids: Tensor, document: Tensor, layout: Layout, supervision: Supervision,
        total: Tensor,
    ) -> None:  # fmt: skip
        """Copy a batch into the buffers; nothing waits for the device.

        Args:
            ids: int64 (N, S).
            document: int64 (N, S).
            layout: Padded to the step's anchors.
            supervision: Made with ``compact=False``.
            total: The loss's denominator, summed over ranks.

        Raises:
            ConfigError: the batch has another shape.
        """
        mine, theirs = self._supervision, supervision
        pairs = (
            (self.ids, ids), (self._document, document), (self._total, total),
            (self._layout.anchor, layout.anchor), (self._layout.first, layout.first),
            (self._layout.valid, layout.valid), (mine.labels, theirs.labels),
            (mine.mask, theirs.mask), (mine.anchors_in_sequence, theirs.anchors_in_sequence),
        )  # fmt: skip
        for buffer, given in pairs:
            if buffer.shape != given.shape:
                shapes = f"{list(given.shape)}, the step's have {list(buffer.shape)}"
                raise ConfigError(f"batch: a tensor has shape {shapes}")
        if theirs.offsets != mine.offsets:
            raise ConfigError("batch: rows are compacted; supervise it with compact=False")
        for buffer, given in pairs:
            fill(buffer, given)

    def step(self, rate: float) -> FixedOutcome:
        """Train on the loaded batch at this learning rate."""
        if self._captures and self._graph is None:
            self._capture()
        self.optimizer.set_rate(rate)
        if self._graph is not None:
            self._graph.replay()
            assert self._outcome is not None  # the capture has made it
            return self._outcome
        return self._body()

    def accumulate(self) -> HalfStep:
        """Only forward and backward on the loaded batch.

        For replicas that add their gradients and then :meth:`apply` the sum.
        """
        if not self._captures:
            return self._half_pass()
        if self._half is None:
            with self._captured(self._warmed()) as graph:
                half = self._half_pass()
            self._half = graph, half
        graph, half = self._half
        graph.replay()
        return half

    def apply(self, gradients: Tensor, rate: float) -> Tensor:
        """Step by these gradients, end to end, at this rate; their norm, before clipping."""
        self.optimizer.set_rate(rate)
        if not self._captures:
            return self._apply(gradients)
        if self._applied is None:
            self.optimizer.make_moments()
            given = torch.empty_like(gradients)
            with self._captured(_beside()) as graph:
                norm = self._apply(given)
            self._applied = _Applied(graph, given, norm)
        self._applied.gradients.copy_(gradients)
        self._applied.graph.replay()
        return self._applied.norm

    def _body(self) -> FixedOutcome:
        loss, seen = self._pass()
        return FixedOutcome(loss, self.optimizer.apply().grad_norm, seen)

    def _pass(self) -> tuple[Tensor, Proxy]:
        """Forward and backward; gradients are left in the parameters."""
        config = self.drafter.config
        dtype = self.drafter.fc.weight.dtype
        taps, final = self._features()
        block = functional.embedding(
            draft_ids(self._layout, self.ids, config.mask_token_id), self._embedding
        )
        hidden = self.drafter(
            block.to(dtype),
            taps.to(dtype),
            positions(self._layout, self._document),
            plan_attention(config.mask_rules, self._layout, self._backend),
            masked=config.block_size,
        )
        teacher = None
        if self._loss.needs_teacher and final is not None:
            layout = self._layout
            plan = plan_teacher(layout.anchor, layout.context, self._supervision, shares=False)
            teacher = plan.states(final)
        result = head_loss(
            hidden, self._head, self._supervision, self._loss, self._total,
            teacher=teacher, chunk_rows=self._chunk_rows,
        )  # fmt: skip
        result.loss.backward()  # type: ignore[no-untyped-call]  # torch ships it without types
        return result.loss.detach(), proxy(self._supervision, result.rows)

    def _half_pass(self) -> HalfStep:
        loss, seen = self._pass()
        gradients = flattened(self._parameters)
        for parameter in self._parameters:
            parameter.grad = None
        return HalfStep(loss, seen, gradients)

    def _apply(self, gradients: Tensor) -> Tensor:
        spread(gradients, self._parameters)
        return self.optimizer.apply().grad_norm

    def _capture(self) -> None:
        self.optimizer.make_moments()
        with self._captured(self._warmed()) as graph:
            self._outcome = self._body()
        self._graph = graph

    def _warmed(self) -> torch.cuda.Stream:
        """A stream on which passes have run: kernels are compiled, workspaces allocated."""
        side = _beside()
        with torch.cuda.stream(side):
            for _ in range(_WARM_UPS):
                self._pass()
                for parameter in self._parameters:
                    parameter.grad = None
        torch.cuda.current_stream().wait_stream(side)
        return side

    @contextmanager
    def _captured(self, side: torch.cuda.Stream) -> Iterator[torch.cuda.CUDAGraph]:
        """Record what is launched inside."""
        graph = torch.cuda.CUDAGraph()
        # On this device's stream, for the default one is the first device's. Another thread may
        # touch the device meanwhile: only this one's faults count.
        with torch.cuda.graph(graph, stream=side, capture_error_mode="thread_local"):
            yield graph


def _beside() -> torch.cuda.Stream:
    """A new stream of this device, behind what was launched."""
    side = torch.cuda.Stream()  # type: ignore[no-untyped-call]  # torch ships it without types
    side.wait_stream(torch.cuda.current_stream())
    return side
