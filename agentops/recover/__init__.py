"""The loop: observe, decide, act, verify, until an incident has a resolution."""

from agentops.recover.loop import Recovery, recover
from agentops.recover.opening import Terms, engine_for
from agentops.recover.sources import Sources, read_sources

__all__ = ["Recovery", "Sources", "Terms", "engine_for", "read_sources", "recover"]
