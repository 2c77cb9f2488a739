"""What a pipeline will cost on each of its devices, and which stage will hold the others up.

Counted from the same figures as the plan of a run without one (``trainer.plan``): operations over
speed for time, tensors for memory. Devices are taken to be alike. A device that both reads and
trains does one after the other.
"""

from dataclasses import dataclass

from trainer.config import RunConfig
from trainer.devices import dealt

_BUFFERS = 2  # sets of features on a drafter's device


@dataclass(frozen=True)
class StageCosts:
    """Bytes and seconds that the devices share out.

    Attributes:
        target_bytes: Weights of the target model.
        table_bytes: Its embedding and head.
        drafter_bytes: A drafter with optimiser, gradients and activations, features left out.
        gradient_bytes: Of one replica.
        feature_bytes: A token's features.
        target_s: To read a step's tokens, on one device.
        draft_s: To train on them, on one device, without the optimiser.
        optimizer_s: The optimiser's step, which every replica does whole.
        memory_bytes: Of one device that may be planned for.
    """

    target_bytes: int
    table_bytes: int
    drafter_bytes: int
    gradient_bytes: int
    feature_bytes: int
    target_s: float
    draft_s: float
    optimizer_s: float
    memory_bytes: float


@dataclass(frozen=True)
class DevicePlan:
    """One device: how many of each it holds, bytes, and seconds of work a step."""

    device: str
    targets: int
    drafters: int
    memory: int
    fits: bool
    seconds_per_step: float


@dataclass(frozen=True)
class PipelinePlan:
    """The whole pipeline; ``pool_steps`` is how many steps' features its host memory holds."""

    devices: tuple[DevicePlan, ...]
    pool_bytes: int
    pool_steps: float
    seconds_per_step: float
    bottleneck: str


def plan_pipeline(config: RunConfig, costs: StageCosts, *, gpus: int) -> PipelinePlan:
    """The cost of ``config.pipeline`` on so many GPUs."""
    settings = config.pipeline
    assert settings is not None
    targets, drafters = dealt(settings, gpus)
    in_flight = (settings.copies + 1) * settings.token_budget * costs.feature_bytes
    fed = _BUFFERS * config.rows_per_pass * config.row_tokens * costs.feature_bytes
    ranks = len(drafters)
    found = []
    for device in dict.fromkeys((*targets, *drafters)):
        reading, training = targets.count(device), drafters.count(device)
        memory = reading * (costs.target_bytes + in_flight)
        memory += training * (costs.drafter_bytes + fed)
        memory += training * costs.gradient_bytes * (ranks > 1)
        memory += costs.table_bytes * (training > 0 and reading == 0)
        seconds = reading * costs.target_s / len(targets)
        seconds += training * (costs.draft_s / ranks + costs.optimizer_s)
        found.append(
            DevicePlan(device, reading, training, memory, memory <= costs.memory_bytes, seconds)
        )
    slowest = max(found, key=lambda each: each.seconds_per_step)
    tokens = config.rows_per_step * config.row_tokens
    return PipelinePlan(
        devices=tuple(found),
        pool_bytes=settings.pool_bytes,
        pool_steps=settings.pool_bytes / (tokens * costs.feature_bytes),
        seconds_per_step=slowest.seconds_per_step,
        bottleneck=_what(slowest),
    )


def _what(device: DevicePlan) -> str:
    if device.targets and device.drafters:
        return f"{device.device}, which reads and trains"
    return "targets" if device.targets else "drafters"
