"""Signal one process if it still is the one that was meant. Runs on hosts."""

from __future__ import annotations

import json
import os
import signal
import sys
import time

from agentops.commands.remote.identity import (
    answer,
    here,
    own_chain,
    read_bytes,
    stat_fields,
)

# One sample of state D means little; this many, with one wchan, mean that no signal is taken.
D_SAMPLES = 5
D_PAUSE_S = 0.05
# Waits that show as D and yet end at SIGKILL: the parent of a vfork, by the kernel's age.
KILLABLE_WAITS = frozenset({b"kernel_clone", b"wait_for_vfork_done", b"_do_fork", b"do_fork"})
# Programs whose end takes sessions or the host with it. Compared with the kernel's comm.
PROTECTED = frozenset({
    "sshd", "sshd-session", "sshd-auth", "systemd", "init", "tmux: server", "screen", "dockerd",
    "containerd", "containerd-shim", "lxc-start", "dbus-daemon", "systemd-logind", "agetty",
})  # fmt: skip


def comm_of(pid: int) -> str:
    """The kernel's name of the process."""
    return (read_bytes("/proc/%d/comm" % pid) or b"").decode("utf-8", "replace").rstrip("\n")


def is_init_somewhere(pid: int) -> bool:
    """Whether the process is the first one of a namespace below this one."""
    for line in (read_bytes("/proc/%d/status" % pid) or b"").splitlines():
        if line.startswith(b"NSpid:"):
            return line.split()[-1] == b"1"
    return False


def stays_uninterruptible(pid: int) -> bool:
    """Whether every one of several samples shows state D in one place of the kernel."""
    places = set()
    for _ in range(D_SAMPLES):
        fields = stat_fields(pid)
        if fields is None or fields[0] != b"D":
            return False
        places.add(read_bytes("/proc/%d/wchan" % pid))
        time.sleep(D_PAUSE_S)
    return len(places) == 1 and not places & KILLABLE_WAITS


def refusal_of(  # noqa: PLR0911 - one guard a line
    victim: dict[str, object], pid: int, fields: list[bytes] | None
) -> str | None:
    """Why this process must not be signalled; None if it may be."""
    place = here()
    if any(place[key] != victim[key] for key in place):
        return "identity_changed"
    if pid <= 1 or pid in own_chain():
        return "protected"
    if fields is None:
        return "gone"
    if int(fields[19]) != victim["start_ticks"]:
        return "identity_changed"
    if fields[0] in (b"Z", b"X"):
        return "zombie"
    if comm_of(pid) in PROTECTED or is_init_somewhere(pid):
        return "protected"
    if fields[0] == b"D" and stays_uninterruptible(pid):
        return "uninterruptible"
    return None


def deliver(victim: dict[str, object], pid: int, number: int) -> dict[str, object]:
    """Open a handle first, check then: after that a reused pid cannot be hit."""
    handle = None
    try:
        if hasattr(os, "pidfd_open"):
            handle = os.pidfd_open(pid)
    except ProcessLookupError:
        pass
    except OSError:
        handle = None
    fields = stat_fields(pid)
    state = "absent" if fields is None else fields[0].decode()
    quality = "recheck" if handle is None else "pidfd"
    refusal = refusal_of(victim, pid, fields)
    if refusal is None:
        try:
            if handle is None:
                os.kill(pid, number)
            else:
                signal.pidfd_send_signal(handle, number)
        except ProcessLookupError:
            refusal = "gone"
        except PermissionError:
            refusal = "not_permitted"
    delivered = refusal is None
    return {"delivered": delivered, "quality": quality, "refusal": refusal, "state_before": state}


def main() -> None:
    """Arguments: the victim's identity as JSON, the signal's name without SIG."""
    victim = json.loads(sys.argv[1])
    answer(deliver(victim, victim["pid"], getattr(signal, "SIG" + sys.argv[2])))


if __name__ == "__main__":
    main()
