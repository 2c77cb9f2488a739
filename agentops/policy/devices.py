"""What a recorded look at the cards says of their memory.

Here: reading ``gpu_status`` observations, totally: what cannot be read of every card is not read at
all. Not here: what is concluded from it (``agentops.policy.releasing``).
"""

from typing import Final

from agentops.policy.facts import FactValue

STATUS: Final = ("gpu", "status")
# By how many MiB the newest look that showed less than the look before it showed less.
FELL: Final = ("gpu", "fell_mib")


def used_mib(status: FactValue) -> tuple[int, ...] | None:
    """Used memory of each card; None where a look does not tell it of every card.

    Cards that share the machine's memory have none of their own to be freed.
    """
    if not isinstance(status, dict) or status.get("state") != "ok":
        return None
    listed, kernel = status.get("devices"), status.get("kernel_devices")
    if not isinstance(listed, list) or (isinstance(kernel, int) and kernel > len(listed)):
        return None
    if status.get("unified_memory") is True:
        return ()
    found: list[int] = []
    for device in listed:
        reading = device.get("memory_used_mib") if isinstance(device, dict) else None
        value = reading.get("value") if isinstance(reading, dict) else None
        if not isinstance(value, int):
            return None
        found.append(value)
    return tuple(found) if found else None


def fallen_mib(before: FactValue, now: FactValue) -> int:
    """How much less the same cards hold now than before; 0 where that is not shown."""
    earlier, later = used_mib(before), used_mib(now)
    if earlier is None or later is None or len(earlier) != len(later):
        return 0
    return max(0, sum(earlier) - sum(later))
