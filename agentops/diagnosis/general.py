"""Signatures that say little: they count where no other row knows more. Rows only; matched last."""

from agentops.diagnosis.signature import Row

GENERAL = (
    Row(
        "cuda_error",
        "either",
        "R5",
        "cuda error|cuda driver error|_status_",
        r"\bCUDA(?: driver)? error: (?!out of memory)[a-z]"
        r"|\bCU(?:BLAS|DNN)_STATUS_(?!SUCCESS)[A-Z_]+",
        "a CUDA call failed; the error may belong to an earlier call",
        "the kernel's log for an Xid at that time; the first CUDA error of any rank",
        "that the line names the call at fault",
    ),
    Row(
        "nccl_error",
        "either",
        "R2",
        "nccl error in|ncclsystemerror|ncclunhandledcudaerror|ncclinternalerror",
        r"\bNCCL error in: |^\s*nccl(?:System|UnhandledCuda|Internal)Error: ",
        "a collective's call failed",
        "the NCCL WARN lines before it, on every rank",
        "that the network is broken",
    ),
    Row(
        "dynamo_failed",
        "either",
        "R0",
        "torch._dynamo.exc|torch._inductor.exc",
        r"\btorch\._(?:dynamo|inductor)\.exc\.\w+",
        "tracing or compiling the model failed",
        "the exception that it names; the same without compiling",
        "a fault of the model's mathematics",
    ),
    Row(
        "unreachable",
        "either",
        "R2",
        "connectionerror|connecterror|connecttimeout|readtimeout|maxretryerror|connectionrefusederror"
        "|connectionreseterror|[errno 101]|[errno 110]|[errno 111]|[errno 113]",
        r"^(?:\w+\.)*(?:ConnectionError|ConnectError|ConnectTimeout|ReadTimeout|MaxRetryError"
        r"|ConnectionRefusedError|ConnectionResetError|TimeoutError)(?::|$)"
        r"|^\w*Error: .*\[Errno (?:101|110|111|113)\]",
        "a connection was refused, reset, or timed out",
        "whether the other side lives; the same connection from the job's own namespace",
        "that the network is at fault: the other side may have ended",
    ),
    Row(
        "child_failed",
        "cascade",
        "R5",
        "childfailederror|calledprocesserror|processraisedexception|processexitedexception",
        r"\bChildFailedError:|\bCalledProcessError: Command .*returned non-zero exit status"
        r"|\bProcess(?:Raised|Exited)Exception:",
        "a launcher tells that one of its processes failed",
        "that process's own output, and which one failed first",
        "anything about the cause",
        outside=True,
    ),
)
