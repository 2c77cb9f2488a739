"""Where processes are: one PID namespace of one boot, as every script that names some says it."""

from agentops.commands.base import Count, Observation
from journal.events import Identity


class Place(Observation):
    """What all identities of one PID namespace share.

    The start of the namespace's first process tells a restarted container apart, where boot and
    namespace read the same.
    """

    boot_id: str
    pid_namespace: Count
    namespace_init_start_ticks: Count

    def at(self, pid: int, start_ticks: int) -> Identity:
        """The identity of one process of this place."""
        return Identity(
            boot_id=self.boot_id,
            pid_namespace=self.pid_namespace,
            namespace_init_start_ticks=self.namespace_init_start_ticks,
            pid=pid,
            start_ticks=start_ticks,
        )
