"""What nvidia-smi's answers mean: one cell, one failure text, one MIG block. Pure.

Sources: the tool's own words as collected from bug reports and as measured with driver 580; each is
in ``tests/support/samples``.
"""

import re
from decimal import Decimal
from typing import Literal

from agentops.commands.base import Count, Observation

Missing = Literal[
    "not_supported", "not_available", "unknown_error", "err", "no_permission", "other"
]
ToolState = Literal[
    "ok",
    "no_tool",
    "hung",
    "no_devices",
    "driver_mismatch",
    "nvml_unknown_error",
    "no_driver",
    "gpu_lost",
    "device_handle",
    "bad_field",
    "failed",
]

_MISSING: dict[str, Missing] = {
    "[not supported]": "not_supported",
    "not supported": "not_supported",
    "[n/a]": "not_available",
    "n/a": "not_available",
    "[unknown error]": "unknown_error",
    "unknown error": "unknown_error",
    "err!": "err",
    "[insufficient permissions]": "no_permission",
    "[no permission]": "no_permission",
}
# Order matters: the first text that is found decides. The status alone would not tell them apart.
_FAILURES: tuple[tuple[str, ToolState], ...] = (
    ("driver/library version mismatch", "driver_mismatch"),
    ("couldn't communicate with the nvidia driver", "no_driver"),
    ("gpu is lost", "gpu_lost"),
    ("unable to determine the device handle", "device_handle"),
    ("failed to initialize nvml: unknown error", "nvml_unknown_error"),
    ("failed to initialize nvml", "failed"),
    ("no devices were found", "no_devices"),
    ("is not a valid field to query", "bad_field"),
)
_INTEGER_MAX = 2**53
# No exponent: a short text must not stand for a number that nothing can hold.
_NUMBER = re.compile(r"[0-9]{1,20}(\.[0-9]{1,20})?")


class Reading(Observation):
    """One number of the tool's, or why there is none. A missing number is never zero."""

    value: Count | None
    missing: Missing | None


class MigDevice(Observation):
    """One instance of a card in MIG mode; its memory in MiB is its own, not the card's."""

    gpu_index: Count
    gpu_instance: Count
    compute_instance: Count
    memory_used_mib: Reading
    memory_total_mib: Reading


def reading(cell: str | None, *, scale: int = 1) -> Reading:
    """Read one CSV cell; *scale* 1000 turns watts into milliwatts.

    >>> reading("132.49", scale=1000).value
    132490
    >>> reading("[N/A]").missing
    'not_available'
    """
    text = (cell or "").strip()
    if text.lower() in _MISSING:
        return Reading(value=None, missing=_MISSING[text.lower()])
    # With nounits there is none; a table or an old version may still print one.
    number = text.split(" ")[0].removesuffix("MiB").removesuffix("%").removesuffix("W")
    if not _NUMBER.fullmatch(number):
        return Reading(value=None, missing="other")
    value = int(Decimal(number) * scale)
    if value >= _INTEGER_MAX:
        return Reading(value=None, missing="other")
    return Reading(value=value, missing=None)


def tool_state(status: int | None, *, has_tool: bool, timed_out: bool, text: str) -> ToolState:
    """What the tool's end means; *text* is both streams, for failures go to either."""
    if timed_out:
        return "hung"
    if not has_tool:
        return "no_tool"
    lowered = text.lower()
    for needle, state in _FAILURES:
        if needle in lowered:
            return state
    return "ok" if status == 0 else "failed"


def mig_devices(xml: str) -> tuple[MigDevice, ...]:
    """The MIG instances in the output of ``nvidia-smi -q -x``.

    Read by pattern: the input is foreign, and no entity in it must ever be expanded.
    """
    found = []
    for index, gpu in enumerate(re.findall(r"<gpu id=.*?</gpu>", xml, re.DOTALL)):
        for block in re.findall(r"<mig_device>(.*?)</mig_device>", gpu, re.DOTALL):
            instance, compute = (
                reading(_tag(block, tag)).value
                for tag in ("gpu_instance_id", "compute_instance_id")
            )
            if instance is None or compute is None:
                continue
            memory = _tag(block, "fb_memory_usage") or ""
            found.append(
                MigDevice(
                    gpu_index=index,
                    gpu_instance=instance,
                    compute_instance=compute,
                    memory_used_mib=reading(_tag(memory, "used")),
                    memory_total_mib=reading(_tag(memory, "total")),
                )
            )
    return tuple(found)


def _tag(text: str, name: str) -> str | None:
    found = re.search(rf"<{name}>(.*?)</{name}>", text, re.DOTALL)
    return None if found is None else found.group(1).strip()
