"""Signatures of numerics, data, storage and progress. Rows only; specific ones stand first."""

from agentops.diagnosis.signature import Row

_NAN = r"(?:nan|NaN|NAN|inf|Inf|-inf)\b"

_CHECKED = r"(?i)\b(skipping|ignor\w+|check(?:ing)? for|assert|isnan|if .* is nan)\b"
_NOT_FINITE = (
    rf"\b(?:train_)?loss[ =:'\"]+{_NAN}|[Nn]on-finite (?:loss|gradient|grad)"
    rf"|\bgrad[_ ]?norm[ =:'\"]+{_NAN}|Loss is {_NAN}"
    r"|\bfound (?:NaN|Inf|NaN/Inf) in local grad norm"
    r"|Minimum loss scale reached|loss scale already at minimum"
    r"|\breturned nan values in its \d+th output"
)
# "inf" alone would stand in every line of level INFO.
_NOT_FINITE_NEEDLES = (
    "nan|non-finite|=inf|: inf|loss inf|norm inf|is inf|=-inf|: -inf|' inf|loss scale reached"
    "|scale already at minimum"
)

DATA = (
    Row(
        "F62",
        "root",
        "R1",
        "bus error|insufficient shared memory",
        r"DataLoader worker \(pid\S* \d+\) is killed by signal: Bus error"
        r"|insufficient shared memory \(shm\)",
        "shared memory (/dev/shm) is full",
        "its free bytes while the job runs",
        "a broken machine",
    ),
    Row(
        "F64",
        "root",
        "R5",
        "dataloader worker",
        r"DataLoader worker \(pid\(?s?\)?\S* [\d, ]+\)"
        r"(?: exited unexpectedly| is killed by signal: (?!Bus|Interrupt|Terminated))",
        "a worker was killed or crashed",
        "the kernel's record of kills; the worker's own traceback",
        "that the loader's code is at fault",
    ),
    Row(
        "F63",
        "root",
        "R1",
        "ancdata|too many open files",
        r"received 0 items of ancdata|\[Errno 24\]|\(os error 24\)"
        r"|\w: Too many open files\b|> in read-write mode: Too many open files",
        "the limit of open files is reached",
        "open files of the process against its limit",
        "a leak of memory",
    ),
    Row(
        "F65",
        "root",
        "R1",
        "file write failed|inline_container|no space left on device|quota exceeded|storagefull",
        r"PytorchStreamWriter failed writing file \S+: file write failed"
        r"|enforce fail at inline_container\.cc"
        r"|\[Errno (?:28|122)\]|\(os error (?:28|122)\)|\bkind: (?:StorageFull|\w*QuotaExceeded)\b"
        r"|\w: No space left on device$",
        "the disk is full, or a quota is reached",
        "free bytes and inodes of the volume that holds the output path",
        "that the disk which was looked at is the one that is full",
        lasting=True,
    ),
    Row(
        "storage_gone",
        "root",
        "R2",
        "[errno 5]|[errno 107]|[errno 112]|[errno 116]|[errno 121]|stale file handle"
        "|stale nfs file handle|transport endpoint is not connected",
        r"\[Errno (?:5|107|112|116|121)\]|\bStale (?:NFS )?file handle\b"
        r"|\bTransport endpoint is not connected\b",
        "the storage behind a path went away, or answers with errors",
        "the mount, from the job's own namespace; the kernel's log",
        "that the file is damaged",
    ),
    Row(
        "F67",
        "root",
        "R1",
        "deserializing header|metadataincomplete|incomplete metadata|header too small"
        "|reading zip archive|unpicklingerror|ran out of input",
        r"[Ee]rror while deserializing header: \w+"
        r"|MetadataIncompleteBuffer|incomplete metadata, file not fully covered"
        r"|\bheader too small\b|PytorchStreamReader failed reading zip archive"
        r"|UnpicklingError: (?:invalid load key|pickle data was truncated)"
        r"|EOFError: Ran out of input",
        "a file of a model or checkpoint is cut short, or is none",
        "its size against the offsets in its header; its hash against a manifest",
        "that the model's code is at fault",
    ),
    Row(
        "state_mismatch",
        "root",
        "R0",
        "loaded state dict|loading state_dict|size mismatch for",
        r"\bloaded state dict (?:contains|has)\b|Error\(s\) in loading state_dict for \w"
        r"|size mismatch for \S+: copying a param with shape",
        "a checkpoint of another model, vocabulary or optimizer",
        "the configuration that wrote it against this one",
        "that the file is damaged",
    ),
    Row(
        "F59",
        "root",
        "R0",
        _NOT_FINITE_NEEDLES,
        _NOT_FINITE,
        "the loss is not a finite number",
        "the history of the gradient's norm; that batch again",
        "that the data is at fault: a race of streams looks the same",
        unless=_CHECKED,
    ),
    # Never matched by itself: a line of F59 becomes it where the log tells of a second stream.
    Row(
        "F58",
        "root",
        "R0",
        "\0",
        r"(?!)",
        "the loss is not finite, and copies run on another stream",
        "whether it vanishes with a synchronisation or record_stream; the first tensor with a NaN",
        "that the learning rate or the data is at fault",
    ),
    Row(
        "F60",
        "info",
        "R4",
        "spike",
        r"(?i)\bloss spike\b.*\d",
        "a spike of the loss, and it stays finite",
        "whether it recovers within some steps; whether the run was just resumed",
        "that the run is lost",
    ),
    Row(
        "F71",
        "root",
        "R0",
        "error:|can't open file",
        r"^(?:\S+: )?(?:FileNotFoundError|PermissionError): \[Errno (?:2|13)\]"
        r"|: can't open file '[^']+': \[Errno (?:2|13)\]",
        "a path is wrong, not mounted yet, or not this user's",
        "the path as the job's user sees it; mounts; other ranks",
        "that the file does not exist anywhere",
    ),
    Row(
        "F69",
        "info",
        "R4",
        "clocks",
        r"(?i)clocks?[ _](?:event|throttle)[ _]reasons?[^\n]*0x0*(?!0\b)[0-9a-f]*[1-9a-f]",
        "the GPU's clocks are held down",
        "reasons over a window; link width and generation; recompiles",
        "that the job's code got slower",
    ),
)
