"""The trap box: a private host with real processes, for the demo, the tests and the benchmark."""

from agentops.box.box import Box, BoxAddress
from agentops.box.oracle import Oracle, Watched
from agentops.box.processes import Truth
from agentops.box.sshd import ServerOptions

__all__ = ["Box", "BoxAddress", "Oracle", "ServerOptions", "Truth", "Watched"]
