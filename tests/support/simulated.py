"""States of the engine as they really come about: simulated runs, stopped at any decision."""

from functools import cache
from pathlib import Path

from agentops.bench.drawing import simulated_config
from agentops.bench.simulate import Loop
from agentops.policy import Close, Decision, PolicyConfig, PolicyState, parse_policy

SHIPPED = Path(__file__).parents[2] / "agentops" / "policy" / "files" / "dev.toml"


@cache
def config() -> PolicyConfig:
    """The shipped rules with the simulated job."""
    return simulated_config(parse_policy(SHIPPED.read_text(encoding="utf-8"), SHIPPED.name))


@cache
def moments(seed: int) -> tuple[tuple[PolicyState, int, Decision], ...]:
    """Each state of a run at which a decision was made, with its time and the decision."""
    run = Loop(seed, config())
    run.begin()
    found: list[tuple[PolicyState, int, Decision]] = []
    close: Close | None = None
    while close is None:
        state, now_us = run.state, run.now_us()
        close = run.step()
        found.append((state, now_us, run.decisions[-1]))
    return tuple(found)
