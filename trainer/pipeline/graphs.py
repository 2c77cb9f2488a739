"""The target model's forward as CUDA graphs: one for each full batch shape, eager for the rest.

A small target model is bound by kernel launches; a replay launches once. A graph's results are
buffers of its own, overwritten by its next replay; packing is queued behind the replay on the same
lane, so it has read them by then.
"""

import threading
from collections.abc import Callable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
from torch import Tensor

from trainer.target import Reading

_WARM_UPS = 2


class Replays(Protocol):
    """What a captured graph is asked for."""

    def replay(self) -> None:
        """Launch it."""
        ...


@dataclass(frozen=True)
class Captured:
    """One shape's graph with the buffers that it reads and writes."""

    graph: Replays
    ids_BS: Tensor
    reading: Reading


@dataclass
class GraphedRead:
    """Reads like ``read`` on a GPU, by replaying graphs for ``shapes``; runs on its lane.

    Attributes:
        eager: Batches of another shape, or all when capturing failed.
        refused: Why nothing is captured any more, if so.
    """

    read: Callable[[Tensor], Reading]
    shapes: AbstractSet[tuple[int, int]]
    tracing: threading.RLock
    eager: int = 0
    refused: str | None = None
    _graphs: dict[tuple[int, int], Captured] = field(default_factory=dict)
    _memory: Any = None

    def __call__(self, ids_BS: Tensor) -> Reading:
        """Taps and final states; a graph's are valid until its next replay."""
        shape = (ids_BS.shape[0], ids_BS.shape[1])
        captured = self._graphs.get(shape)
        if captured is None and shape in self.shapes and self.refused is None:
            with self.tracing:
                self._capture(shape, ids_BS)
            captured = self._graphs.get(shape)
        if captured is None:
            self.eager += 1
            # A model's own code may turn process-wide switches, such as which attention is used.
            with self.tracing:
                return self.read(ids_BS)
        captured.ids_BS.copy_(ids_BS, non_blocking=True)
        captured.graph.replay()
        return captured.reading

    def _capture(self, shape: tuple[int, int], ids_BS: Tensor) -> None:
        static = ids_BS.clone()
        for _ in range(_WARM_UPS):
            self.read(static)
        torch.cuda.current_stream().synchronize()
        graph = torch.cuda.CUDAGraph()
        try:
            # On the device's own stream: the default one for captures is the first device's.
            stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]  # torch has no types here
            # Another thread may touch the device meanwhile: only this one's faults count.
            # All graphs use one memory: results are packed before another is replayed.
            with torch.cuda.graph(
                graph, pool=self._memory, stream=stream, capture_error_mode="thread_local"
            ):
                reading = self.read(static)
        except torch.OutOfMemoryError:
            raise  # the worker reads less at once
        except RuntimeError as error:  # the model does what no graph can hold
            self.refused = " ".join(str(error).split())[:200]
            return
        self._memory = graph.pool()
        self._graphs[shape] = Captured(graph, static, reading)
