"""Signatures of driver, host and container. Rows only; specific ones stand first."""

from agentops.diagnosis.signature import Row

# As launchers and shells say how a process ended; its number follows.
_ENDED = (
    r"(?i:\b(?:exit ?code|returncode|exit(?:s|ed)?(?: with)?(?: return)? (?:code|status|with code))"
    r"\s*[:=]?\s*)"
)

MACHINE = (
    Row(
        "F45",
        "root",
        "R3",
        "driver/library version mismatch",
        r"Driver/library version mismatch",
        "the user-space driver was upgraded, the kernel's module was not",
        "/proc/driver/nvidia/version against the library; the package manager's history",
        "that running jobs are broken: they keep working and must not be ended for it",
    ),
    Row(
        "F46",
        "root",
        "R1",
        "system not yet initialized",
        r"[Ee]rror(?: 802)?: system not yet initialized",
        "the fabric manager is missing or of another version",
        "its service's state, and both versions",
        "a fault of the job",
    ),
    Row(
        "F48",
        "either",
        "R5",
        "driver initialization failed|no devices were found|determine the device handle"
        "|no cuda gpus are available|couldn't communicate with the nvidia|no nvidia driver on",
        r"CUDA driver initialization failed, you might not have a CUDA gpu"
        r"|^No devices were found"
        r"|Unable to determine the device handle for (?:GPU|gpu)"
        r"|: No CUDA GPUs are available|: Found no NVIDIA driver on your system"
        r"|^NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver",
        "no device is reachable from here",
        "nvidia-smi -L on the host and in the container; /dev/nvidia*; the kernel's log",
        "that the machine has no GPU",
        outside=True,
    ),
    Row(
        "F49",
        "confirm",
        "R3",
        "blocked for more than",
        r"INFO: task (?P<name>\S+):(?P<pid>\d+) blocked for more than \d+ seconds",
        "a task waits in the kernel: driver or storage stalls",
        "its wait channel and stack; the kernel's log",
        "that a signal can end it",
    ),
    Row(
        "F50",
        "root",
        "R3",
        "nvidia_dev_put_uuid",
        r"(?:WARNING|RIP|Call Trace).*nvidia_dev_put_uuid|WARNING:.*nvidia_dev_put_uuid",
        "a driver fault: calls to it hang after a process's end",
        "one timed call, not more",
        "that asking again helps: each call may hang too",
    ),
    Row(
        "F51",
        "info",
        "R4",
        "soft lockup",
        r"watchdog: BUG: soft lockup - CPU#\d+ stuck for \d+s! \[[^\]]+\]",
        "a processor was kept busy in the kernel",
        "whether it comes back; load and NUMA placement",
        "that the named process is at fault",
    ),
    Row(
        "F53",
        "confirm",
        "R0",
        "oom-kill:|out of memory: kill|oom_kill event|oom-kill event|oomkilled",
        r"oom-kill:constraint=CONSTRAINT_\w+.*task=|[Oo]ut of memory: Killed process \d+"
        r"|Memory cgroup out of memory: Kill(?:ed)? process|Detected \d+ oom[-_]kill event"
        r"|\b[Rr]eason\W{1,12}OOMKilled\b",
        "the kernel killed a process for want of host or cgroup memory",
        "the cgroup's count of oom_kill; /dev/shm counts as well",
        "that GPU memory was short",
        outside=True,
    ),
    Row(
        "F52",
        "root",
        "R1",
        "no such process",
        r"kill: \(?\d+\)?\s*(?:-|:)? ?[Nn]o such process|bash: kill: \(\d+\) - No such process",
        "the listed pid is not one of this namespace",
        "NSpid on the host; who holds /dev/nvidia* there; a zombie's parent",
        "that the memory is free",
        outside=True,
    ),
    Row(
        "F55",
        "root",
        "R2",
        "exitcode|exit code|exit status|exit with|exited|return code|returncode"
        "|segmentation fault|bus error|core dumped|sigsegv|sigabrt|sigbus|sigill|sigfpe",
        rf"{_ENDED}(?:-(?:4|6|7|8|11)|13[2456]|139)\b|\bSignal (?:4|6|7|8|11) \(SIG[A-Z]+\)"
        r"|Segmentation fault$|\S +\(core dumped\)(?:\s|$)|^Bus error$"
        r"|died with <Signals\.SIG(?:SEGV|ABRT|BUS|ILL|FPE): \d+>"
        r"|\*\*\* SIG(?:SEGV|ABRT|BUS|ILL|FPE) received\b",
        "native code crashed",
        "the core file or last frame; the kernel's segfault line",
        "a hardware fault",
        outside=True,
    ),
    Row(
        "F54",
        "root",
        "R5",
        "exitcode|exit code|exit status|exit with|exited|return code|returncode|killed|sigkill",
        rf"{_ENDED}(?:-9|137)\b"
        r"|^(?:\S+: line \d+:\s+\d+ )?Killed(?:\s*$|\s{2,}\S)|Signal 9 \(SIGKILL\)"
        r"|died with <Signals\.SIGKILL: 9>",
        "something sent SIGKILL",
        "our own journal: did we? the kernel's log: did it? then other actors",
        "that memory ran out: without the kernel's record it is not known",
        unless=r"(?i)killed process|oom",
        outside=True,
    ),
    Row(
        "container_failed",
        "root",
        "R5",
        "error response from daemon|nvidia-container-cli|oci runtime",
        r"\bError response from daemon: |\bnvidia-container-cli: [\w ]+ error"
        r"|\bOCI runtime (?:create|exec) failed",
        "the container could not be started, or not with its devices",
        "the container runtime's log; nvidia-smi on the host; the toolkit's version",
        "a fault of the job",
        outside=True,
    ),
    Row(
        "F56",
        "root",
        "R5",
        "still waiting to acquire lock|could not be acquired",
        r"Still waiting to acquire lock on \S+\.lock \(elapsed: [\d.]+ seconds\)"
        r"|Timeout: The file lock '[^']+' could not be acquired",
        "a lock is held by a living download, or its file was left behind",
        "who holds it; its age; whether the holder moves bytes",
        "that the lock is stale",
        outside=True,
    ),
    Row(
        "F57",
        "root",
        "R1",
        ".incomplete",
        r"\S\.incomplete\b.{0,200}\b(?:stall|not growing|no progress|timed out)",
        "a download stands still",
        "its bytes over a minute; the same with HF_HUB_DISABLE_XET=1",
        "that the network is down",
        outside=True,
    ),
)
