"""Which device each target and drafter is on.

``auto`` deals the GPUs out in turn, targets first, so one GPU does both and two do one each; where
there is none, or ``device`` is ``cpu``, it is the CPU.
"""

from dataclasses import dataclass

import torch

from trainer.config import PipelineSettings, RunConfig
from trainer.errors import ConfigError


@dataclass(frozen=True)
class PipelineDevices:
    """One device a target and one a drafter; they may be the same."""

    targets: tuple[torch.device, ...]
    drafters: tuple[torch.device, ...]

    @property
    def has_gpu(self) -> bool:
        """Whether any of them is a GPU."""
        return any(each.type == "cuda" for each in (*self.targets, *self.drafters))


def devices_of(config: RunConfig) -> PipelineDevices:
    """The devices of a run with a pipeline.

    Raises:
        ConfigError: a name is none, or there is no such device here.
    """
    settings = config.pipeline
    assert settings is not None
    gpus = torch.cuda.device_count() if config.device != "cpu" else 0
    targets, drafters = dealt(settings, gpus)
    return PipelineDevices(
        tuple(_device("pipeline.targets", each, gpus) for each in targets),
        tuple(_device("pipeline.drafters", each, gpus) for each in drafters),
    )


def dealt(settings: PipelineSettings, gpus: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Names of the targets' and the drafters' devices, with so many GPUs to deal out.

    >>> dealt(PipelineSettings(targets=("auto", "auto"), drafters=("auto",)), 3)
    (('cuda:0', 'cuda:1'), ('cuda:2',))
    >>> dealt(PipelineSettings(), 1)
    (('cuda:0',), ('cuda:0',))
    """
    given = (*settings.targets, *settings.drafters)
    named = [
        (f"cuda:{number % gpus}" if gpus else "cpu") if name == "auto" else name
        for number, name in enumerate(given)
    ]
    count = len(settings.targets)
    return tuple(named[:count]), tuple(named[count:])


def _device(where: str, name: str, gpus: int) -> torch.device:
    if name == "cpu":
        return torch.device("cpu")
    kind, _, index = name.partition(":")
    if kind != "cuda" or not index.isdecimal():
        raise ConfigError(f"{where}: '{name}' is none of 'auto', 'cpu', 'cuda:0', 'cuda:1', …")
    if int(index) >= gpus:
        raise ConfigError(f"{where}: '{name}' asked for, but {gpus} GPUs can be used here")
    return torch.device(name)
