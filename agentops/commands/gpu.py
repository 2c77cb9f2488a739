"""The GPUs of a host: ``gpu_status`` (devices) and ``gpu_processes`` (who holds their memory).

Here: the commands and their rows. Not here: what the tool's words mean (``smi``).
"""

from collections.abc import Mapping, Sequence
from typing import ClassVar

from agentops.commands.base import Count, Malformed, Observation
from agentops.commands.metrics import cards
from agentops.commands.place import Place
from agentops.commands.script import ScriptCommand
from agentops.commands.smi import MigDevice, Reading, ToolState, mig_devices, reading, tool_state
from journal.events import Effect, Identity, Retry

_TEXT_MAX = 500
_MIG_ENABLED = "Enabled"
_DEVICE_FIELDS = (
    "index",
    "uuid",
    "name",
    "memory.used",
    "memory.total",
    "utilization.gpu",
    "power.draw",
    "temperature.gpu",
    "ecc.errors.uncorrected.volatile.total",
    "mig.mode.current",
    "persistence_mode",
    "driver_version",
)


class GpuDevice(Observation):
    """One card. Utilization is percent of the last sample; power is in milliwatts."""

    index: Reading
    uuid: str
    name: str
    memory_used_mib: Reading
    memory_total_mib: Reading
    utilization_percent: Reading
    power_mw: Reading
    temperature_c: Reading
    ecc_uncorrected: Reading
    mig: bool | None
    persistence: bool | None
    driver: str


class GpuStatusSeen(Observation):
    """What nvidia-smi and the kernel say about the cards.

    state is what the tool's end means; devices are trusted only with "ok". kernel_devices counts
    the driver's own list: fewer rows than that means a card that the tool cannot see.
    unified_memory says that cards share the machine's memory: what is free is memory_available_kib.
    """

    state: ToolState
    exit_status: int | None
    text: str
    kernel_devices: Count | None
    devices: tuple[GpuDevice, ...]
    mig_devices: tuple[MigDevice, ...]
    unified_memory: bool
    memory_available_kib: Count
    dropped_fields: tuple[str, ...]
    stuck_pids: tuple[int, ...]

    def holds(self) -> bool | None:
        """Without an answer of the tool nothing was learned; no devices is an answer."""
        return True if self.state in {"ok", "no_devices"} else None


class GpuProcess(Observation):
    """One row of the tool's table of processes.

    identity is None unless the pid is a living process of this PID namespace; the tool may speak in
    pids of another one. namespace_pids lead from here inwards.
    """

    gpu_uuid: str
    pid: Reading
    name: str
    memory_mib: Reading
    identity: Identity | None
    state: str | None
    namespace_pids: tuple[int, ...]


class GpuProcessesSeen(Observation):
    """Who holds GPU memory, as far as it can be attributed from here.

    holders are pids of this namespace that have a card open, from /proc, whatever the tool says. An
    empty list of processes proves nothing while a card's memory is in use.
    """

    state: ToolState
    exit_status: int | None
    text: str
    processes: tuple[GpuProcess, ...]
    holders: tuple[int, ...]
    unread_rows: int
    stuck_pids: tuple[int, ...]

    def holds(self) -> bool | None:
        """Without an answer of the tool nothing was learned; no devices is an answer."""
        return True if self.state in {"ok", "no_devices"} else None


class _Said(Observation):
    tool: str | None
    status: int | None
    timed_out: bool
    stdout: str
    stderr: str
    asked: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        return f"{self.stdout}\n{self.stderr}".strip()

    @property
    def state(self) -> ToolState:
        return tool_state(
            self.status,
            has_tool=self.tool is not None,
            timed_out=self.timed_out,
            text=self.text,
        )


class _Owner(Observation):
    pid: Count
    state: str | None
    start_ticks: Count | None
    namespace_pids: tuple[Count, ...]


class _Place(Place):
    kernel_devices: Count | None
    stuck: tuple[Count, ...]
    memory_available_kib: Count
    owners: tuple[_Owner, ...] = ()
    holders: tuple[Count, ...] = ()


class GpuStatus(ScriptCommand):
    """Memory, load, power, errors and MIG state of every GPU, by nvidia-smi."""

    name: ClassVar[str] = "gpu_status"
    effect: ClassVar[Effect] = "observes"
    intrusiveness: ClassVar[int] = 1
    retry: ClassVar[Retry] = "repeat"
    assumptions: ClassVar[tuple[str, ...]] = (
        "nvidia-smi speaks with the driver that the job uses",
        "memory in use falls some time after its process ended",
        "an idle card uses some memory; its recorded baseline is the measure, not zero",
    )
    silence: ClassVar[str] = "Nothing was learned; a tool that hangs is reported as hung."
    metric_cards: ClassVar[dict[str, str]] = cards(
        "memory_available_kib",
        memory_used_mib="Device memory in use, the driver's own share included; it is more than"
        " the sum over processes.",
        memory_total_mib="Device memory of the card or of its slice, as the driver tells it.",
        utilization_percent="Share of the last sample period in which a kernel ran. A busy wait"
        " counts as work.",
        power_mw="Board power of the last sample; a single ERR! is a transient.",
        temperature_c="Of the chip, at the last sample.",
    )
    python: ClassVar[tuple[str, ...]] = ("identity", "gpu_query", "gpu_status")
    deadline_ms: ClassVar[int] = 60_000

    def script_arguments(self) -> tuple[str, ...]:
        """The fields to ask for, in the order of the rows."""
        return ("devices", *_DEVICE_FIELDS)

    def read(self, rows: Sequence[dict[str, object]]) -> GpuStatusSeen | Malformed:
        """The place, the CSV, and the XML where a card is in MIG mode."""
        if len(rows) not in (2, 3):
            return Malformed(f"two or three rows were expected, {len(rows)} arrived")
        place = _Place.model_validate(rows[0])
        said = _Said.model_validate(rows[1])
        devices: list[GpuDevice] = []
        if said.state == "ok":
            for number, line in enumerate(said.stdout.splitlines(), 1):
                cells = [cell.strip() for cell in line.split(",")]
                if len(cells) != len(said.asked):
                    return Malformed(f"nvidia-smi's row {number} has {len(cells)} cells")
                devices.append(_device(dict(zip(said.asked, cells, strict=True))))
        xml = _Said.model_validate(rows[2]).stdout if len(rows) > 2 else ""  # noqa: PLR2004
        return GpuStatusSeen(
            state=said.state,
            exit_status=said.status,
            text=said.text[:_TEXT_MAX] if said.state != "ok" else "",
            kernel_devices=place.kernel_devices,
            devices=tuple(devices),
            mig_devices=mig_devices(xml),
            unified_memory=bool(devices) and all(_shares_memory(device) for device in devices),
            memory_available_kib=place.memory_available_kib,
            dropped_fields=said.dropped,
            stuck_pids=place.stuck,
        )


class GpuProcesses(ScriptCommand):
    """Which processes hold GPU memory, with their identity where it can be known."""

    name: ClassVar[str] = "gpu_processes"
    effect: ClassVar[Effect] = "observes"
    intrusiveness: ClassVar[int] = 1
    retry: ClassVar[Retry] = "repeat"
    assumptions: ClassVar[tuple[str, ...]] = (
        "in a container nvidia-smi may list pids of the host, or none at all",
        "an ended process may hold memory until its parent has reaped it",
    )
    silence: ClassVar[str] = (
        "Nothing was learned; an empty table with memory in use proves nothing."
    )
    metric_cards: ClassVar[dict[str, str]] = cards(
        memory_mib="Device memory of one process; contexts and the driver's share are left out.",
    )
    python: ClassVar[tuple[str, ...]] = ("identity", "gpu_query", "gpu_status")
    deadline_ms: ClassVar[int] = 60_000

    def script_arguments(self) -> tuple[str, ...]:
        """The question."""
        return ("processes",)

    def read(self, rows: Sequence[dict[str, object]]) -> GpuProcessesSeen | Malformed:
        """The place with the owners, then the CSV."""
        if len(rows) != 2:  # noqa: PLR2004
            return Malformed(f"two rows were expected, {len(rows)} arrived")
        place = _Place.model_validate(rows[0])
        said = _Said.model_validate(rows[1])
        owners = {owner.pid: owner for owner in place.owners}
        found: list[GpuProcess] = []
        unread = 0
        for line in said.stdout.splitlines() if said.state == "ok" else ():
            cells = [cell.strip() for cell in line.split(",")]
            if len(cells) < len(said.asked):
                unread += 1
                continue
            # A process's name may hold commas; the other cells cannot.
            found.append(_process(place, owners, (*cells[:2], ", ".join(cells[2:-1]), cells[-1])))
        return GpuProcessesSeen(
            state=said.state,
            exit_status=said.status,
            text=said.text[:_TEXT_MAX] if said.state != "ok" else "",
            processes=tuple(found),
            holders=place.holders,
            unread_rows=unread,
            stuck_pids=place.stuck,
        )


def _device(cells: Mapping[str, str]) -> GpuDevice:
    return GpuDevice(
        index=reading(cells.get("index")),
        uuid=cells.get("uuid", ""),
        name=cells.get("name", ""),
        memory_used_mib=reading(cells.get("memory.used")),
        memory_total_mib=reading(cells.get("memory.total")),
        utilization_percent=reading(cells.get("utilization.gpu")),
        power_mw=reading(cells.get("power.draw"), scale=1000),
        temperature_c=reading(cells.get("temperature.gpu")),
        ecc_uncorrected=reading(cells.get("ecc.errors.uncorrected.volatile.total")),
        mig=_switch(cells.get("mig.mode.current")),
        persistence=_switch(cells.get("persistence_mode")),
        driver=cells.get("driver_version", ""),
    )


def _process(place: _Place, owners: Mapping[int, _Owner], cells: tuple[str, ...]) -> GpuProcess:
    uuid, pid, name, memory = cells
    number = reading(pid)
    owner = None if number.value is None else owners.get(number.value)
    identity = None
    if owner is not None and owner.start_ticks is not None:
        identity = place.at(owner.pid, owner.start_ticks)
    return GpuProcess(
        gpu_uuid=uuid,
        pid=number,
        name=name,
        memory_mib=reading(memory),
        identity=identity,
        state=None if owner is None else owner.state,
        namespace_pids=() if owner is None else owner.namespace_pids,
    )


def _shares_memory(device: GpuDevice) -> bool:
    # GB10 and its like answer [N/A] for both, and work: the card's memory is the machine's.
    return (
        device.memory_used_mib.missing == "not_available"
        and device.memory_total_mib.missing == "not_available"
    )


def _switch(cell: str | None) -> bool | None:
    return {"Enabled": True, "Disabled": False}.get(cell or "")
