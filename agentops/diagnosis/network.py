"""Signatures of collectives and the network. Rows only; specific ones stand first."""

from agentops.diagnosis.signature import Row

_SHM = "/dev/shm/"  # noqa: S108 - as it stands in logs

NETWORK = (
    Row(
        "F22",
        "cascade",
        "R2",
        "caught collective operation timeout|communicator was aborted on rank|timed out waiting",
        r"Watchdog caught collective operation timeout: WorkNCCL\("
        r"|NCCL communicator was aborted on rank \d+"
        r"|Timed out waiting \d+ms for (?:recv|send) operation",
        "some rank stopped before: the others waited for it",
        "the rank that enqueued least; its log, state and Xid in the ten minutes before",
        "a slow network; and a longer timeout is no remedy",
    ),
    Row(
        "F23",
        "root",
        "R1",
        "no space left on device",
        rf"{_SHM}\S.*No space left on device|No space left on device\b.*{_SHM}",
        "shared memory (/dev/shm) is full: a model kept there, or what killed jobs left",
        "its free bytes; its files by owner, and which owners are dead",
        "that the disk is full",
    ),
    Row(
        "F25",
        "root",
        "R0",
        "no socket interface found",
        r"Bootstrap ?: no socket interface found",
        "NCCL_SOCKET_IFNAME names an interface that is not there, or it is down",
        "the interfaces and the job's environment",
        "a broken network card",
    ),
    Row(
        "F27",
        "root",
        "R1",
        "eaddrinuse|address already in use",
        r"(?:errno: |\[Errno |code: -|os error )98\b",
        "the port is held by an old job or by somebody else's",
        "who listens there: identity and age",
        "that the holder is stale: never end a process by its port",
    ),
    Row(
        "F29",
        "root",
        "R2",
        "libnccl",
        r"segfault at [0-9a-f]+ ip \S+ sp \S+ error \d+ in libnccl\.so",
        "NCCL crashed, or a peer's end took it down",
        "its version; an Xid nearby",
        "a fault of the job's code",
    ),
    Row(
        "F30",
        "info",
        "R4",
        "nvidia-peermem",
        r"nvidia-peermem nv_get_p2p_free_callback:\d+ ERROR detected invalid context",
        "a registration outlived its context",
        "whether a process ended just before",
        "a fault of the driver: it mostly follows a process's end",
    ),
    Row(
        "F31",
        "cascade",
        "R2",
        "connection closed by|socket recv failed|or there was a network error|ncclremoteerror"
        "|got completion from peer",
        r"NCCL WARN .*(?:Connection closed by remote peer|[Ss]ocket recv failed)"
        r"|\bConnection closed by remote peer \S+<\d+>"
        r"|socketProgress: Connection closed by remote peer"
        r"|\bSocket recv failed\b"
        r"|\]\s*Connection closed by peer \[|remote process exited or there was a network error"
        r"|^\s*ncclRemoteError: |Got completion from peer \S+ with status=\d+",
        "a peer has ended",
        "the peer's own log, first",
        "that the network is broken",
    ),
)
