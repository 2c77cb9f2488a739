"""What a number means that commands report: the metric cards that several of them share.

A card says what was measured and what it does not prove. Not here: cards of one command alone,
which stand with that command.
"""

from collections.abc import Mapping

_SHARED: Mapping[str, str] = {
    "age_s": "Host clock minus the file's last change, in whole seconds.",
    "available_bytes": "What an ordinary user may still write.",
    "cpu_ticks": "User and system time of all threads since the start, in clock ticks; it never"
    " falls. A difference of two readings is work done, one reading is not.",
    "free_bytes": "Free in the file system at that moment; every writer shares it.",
    "held_since_ticks": "Start of each process that has the file open, in ticks since boot.",
    "memory_available_kib": "The kernel's estimate of what can be had without swapping; in a"
    " container it may be the whole machine's.",
    "memory_total_kib": "The machine's memory; in a container it may be the whole machine's.",
    "namespace_init_start_ticks": "Start of the PID namespace's first process, in ticks since boot;"
    " it tells a restarted container apart.",
    "rss_kib": "Resident pages in KiB; shared pages count in every process that maps them.",
    "size_bytes": "Length of the file at that moment. It says nothing of what is in it.",
    "start_ticks": "Start of the process in clock ticks since boot, as the kernel counts: part of"
    " its identity, and no wall-clock time.",
    "ticks_per_s": "Clock ticks in a second, to read the others by.",
    "total_bytes": "Size of the file system, what is kept for root included.",
    "uptime_ticks": "Clock ticks since boot at the reading, by the same clock as start_ticks.",
}


def cards(*shared: str, **own: str) -> dict[str, str]:
    """The cards of a command: shared ones by name, and its own with their text.

    Raises:
        KeyError: there is no shared card of that name.
    """
    return {**{name: _SHARED[name] for name in shared}, **own}
