"""Signatures of collectives and the network. Rows only; specific ones stand first."""

from agentops.diagnosis.signature import Row

_SHM = "/dev/shm/"  # noqa: S108 - as it stands in logs

NETWORK = (
    Row(
        "F22",
        "cascade",
        "R2",
        "caught collective operation timeout|communicator was aborted on rank|timed out waiting"
        "|due to a collective timeout|watchdog got stuck|heartbeat monitor timed out",
        r"Watchdog caught collective operation timeout: WorkNCCL\("
        r"|NCCL communicator was aborted on rank \d+"
        r"|Timed out waiting \d+ms for (?:recv|send) operation"
        r"|Received a dump signal due to a collective timeout|watchdog got stuck for \d+ seconds"
        r"|\bHeartbeat monitor timed out!",
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
        lasting=True,
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
        "|got completion from peer|socketimpl|distnetworkerror|got error:",
        r"NCCL WARN .{0,200}(?:Connection closed by remote peer|[Ss]ocket recv failed)"
        r"|\bConnection closed by remote peer \S+<\d+>"
        r"|socketProgress: Connection closed by remote peer"
        r"|\bSocket recv failed\b"
        r"|\]\s*Connection closed by peer \[|remote process exited or there was a network error"
        r"|^\s*ncclRemoteError: |Got completion from peer \S+ with status=\d+"
        r"|\b(?:recv|send)\w* failed on SocketImpl|store->get\('[^']*'\) got error: "
        r"|DistNetworkError: (?:Connection reset by peer|Broken pipe|[Ff]ailed to recv)",
        "a peer has ended",
        "the peer's own log, first",
        "that the network is broken",
    ),
    Row(
        "access_denied",
        "root",
        "R0",
        "client error|gatedrepoerror|repositorynotfounderror|accessdenied|expiredtoken"
        "|invalidaccesskeyid|unauthorized|forbidden",
        r"\b(?:401|403) Client Error\b|\b(?:GatedRepo|RepositoryNotFound)Error: "
        r"|\bHTTP (?:[Ee]rror|status code)? ?:?(?:401|403)\b"
        r"|An error occurred \((?:AccessDenied|ExpiredToken|InvalidAccessKeyId)\) when calling",
        "a service refuses: no right to it, or no valid token",
        "which account the job's own token belongs to, and its rights",
        "that the thing does not exist: it is hidden from who may not see it",
    ),
    Row(
        "service_busy",
        "root",
        "R2",
        "client error|server error|too many requests|slowdown|throttling",
        r"\b(?:408|429) Client Error\b|\b5\d\d Server Error\b|\(429 Too Many Requests\)"
        r"|\bHTTP [Ee]rror (?:429|50\d)\b"
        r"|An error occurred \((?:SlowDown|Throttling\w*)\) when calling",
        "a service limits the rate, or fails on its side",
        "its answer's headers; how many of our processes ask it at once",
        "that it will be refused again: wait longer each time",
    ),
    Row(
        "name_resolution",
        "root",
        "R2",
        "name resolution|name or service not known|could not resolve host|getaddrinfo failed",
        r"Temporary failure in name resolution|Name or service not known"
        r"|[Cc]ould not resolve host|getaddrinfo failed",
        "a host's name cannot be resolved",
        "the same name from the job's own namespace; its resolver's settings",
        "that the other side is down",
    ),
)
