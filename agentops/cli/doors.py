"""The one door and the job that is meant, for the commands that act on hosts."""

from dataclasses import dataclass
from pathlib import Path

from agentops.cli.policies import policy_for
from agentops.config import Settings
from agentops.errors import ConfigError
from agentops.executor import Executor
from agentops.hosts import Host
from agentops.policy import PolicyConfig
from agentops.recover import Sources, read_sources
from agentops.transport import connector
from journal import Actor, Journal, SystemClock


def open_door(
    settings: Settings, journal: Journal, config: PolicyConfig, *, actor: Actor | None = None
) -> Executor:
    """The executor over the inventory's hosts, jump hosts included; whoever asks, if not actor."""
    return Executor(
        journal,
        clock=SystemClock(),
        config=config,
        connect=connector(settings.inventory),
        actor=actor,
        leases=settings.places.leases,
    )


@dataclass(frozen=True, slots=True)
class Meant:
    """One job of the policy on one host; source names the policy's file."""

    job: str
    host: Host
    config: PolicyConfig
    sources: Sources
    source: str


def job_meant(settings: Settings, job: str, host: str) -> Meant:
    """The job of that name in the policy in force, its repairs' files read.

    Raises:
        ConfigError: the policy cannot be used, or has no such job.
        UsageError: the inventory has no such host.
    """
    entry = settings.inventory.get(host)
    config, source = policy_for(settings)
    if job not in config.job:
        known = ", ".join(sorted(config.job)) or "none"
        raise ConfigError(
            f"{source}: job {job!r} is not in it (it has: {known}); add [job.{job}], for a job that"
            " runs by: agentops adopt --host NAME --pid PID --write"
        )
    folder = Path.cwd() if settings.policy is None else settings.policy.parent
    config, sources = read_sources(config, folder)
    return Meant(job, entry, config, sources, source)
