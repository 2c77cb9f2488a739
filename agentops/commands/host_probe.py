"""What kind of host this is: ``probe_host``.

Here: clock, shells, tools, PATH, namespaces, memory. Not here: processes, GPUs.
"""

from collections.abc import Sequence
from typing import ClassVar

from agentops.commands.base import Count, Malformed
from agentops.commands.metrics import cards
from agentops.commands.place import Place
from agentops.commands.script import ScriptCommand, only
from journal.events import Effect, Retry


class HostProbed(Place):
    """One host at one moment. unix_ms is the host's own clock.

    tools are found on PATH, tools_off_path only elsewhere: that is how a tool is "not found" in
    one layer and found in another. load_1m is the kernel's decimal text. shell_tax_us is what the
    login shell's start-up files cost every command, None unless it was asked for. limits are the
    soft ones of a process here as the kernel says them ("unlimited" or a number), and the smallest
    memory limit of its control groups, where there is one.
    """

    uptime_ticks: Count
    ticks_per_s: Count
    unix_ms: Count
    hostname: str
    kernel: str
    machine: str
    python: str | None
    pidfd: bool
    uid: Count
    home: str | None
    login_shell: str | None
    path: tuple[str, ...]
    tools: dict[str, str | None]
    tools_off_path: dict[str, str]
    cpus: Count
    load_1m: str
    memory_total_kib: Count
    memory_available_kib: Count
    cgroup: str
    init_comm: str
    init_visible: bool
    limits: dict[str, str]
    shell_tax_us: Count | None


class ProbeHost(ScriptCommand):
    """Clock, kernel, shells, tools, PATH, namespaces, memory and limits of the innermost layer."""

    name: ClassVar[str] = "probe_host"
    parser_version: ClassVar[int] = 2
    effect: ClassVar[Effect] = "observes"
    intrusiveness: ClassVar[int] = 0
    retry: ClassVar[Retry] = "repeat"
    assumptions: ClassVar[tuple[str, ...]] = (
        "PATH is the one of a non-interactive session in this layer",
        "in a container /proc/meminfo may show the whole machine's memory",
    )
    silence: ClassVar[str] = "Nothing was learned about the host."
    metric_cards: ClassVar[dict[str, str]] = cards(
        *("memory_available_kib", "memory_total_kib", "namespace_init_start_ticks"),
        *("ticks_per_s", "uptime_ticks"),
        unix_ms="The host's wall clock; its distance from the controller's includes half of the"
        " round trip.",
        shell_tax_us="Shortest of three starts of the login shell minus shortest of sh.",
    )
    python: ClassVar[tuple[str, ...]] = ("identity", "probe_host")
    shell: ClassVar[str | None] = "probe_host"

    measure_shell: bool = False
    """Also time the login shell, which takes three starts of it."""

    def script_arguments(self) -> tuple[str, ...]:
        """Whether to time the login shell."""
        return ("shell",) if self.measure_shell else ()

    def read(self, rows: Sequence[dict[str, object]]) -> HostProbed | Malformed:
        """One row."""
        return HostProbed.model_validate(only(rows))
