"""Signatures of GPU memory and kernels. Rows only; specific ones stand first."""

import re

from agentops.diagnosis.signature import Row

_UNITS_MIB = {"KiB": 1 / 1024, "MiB": 1, "GiB": 1024}
_FRAGMENTED_PERCENT = 20
_CONTEXT_MIB = 3_072
_NAMED = re.compile(r"\bProcess \d+ has ([\d.]+) ([KMG]iB) memory in use")
_OWN = re.compile(r"([\d.]+) ([KMG]iB) is (?:allocated|reserved) by PyTorch")


def _fragmented(found: re.Match[str]) -> bool:
    """Reserved but unallocated memory is more than a fifth of the card."""
    total = float(found["total"]) * _UNITS_MIB[found["total_unit"]]
    idle = float(found["idle"]) * _UNITS_MIB[found["idle_unit"]]
    return idle * 100 > total * _FRAGMENTED_PERCENT


def _foreign(found: re.Match[str]) -> bool:
    """Somebody else's process is named: not only this one, under the pid of its own namespace.

    Where the allocator cannot find itself by its pid, it lists itself among the others, with a
    little more than it allocated and reserved.
    """
    text = found.string
    own = [float(n) * _UNITS_MIB[unit] for n, unit in _OWN.findall(text)]
    if "this process has" in text or not own:
        return True
    named = [float(n) * _UNITS_MIB[unit] for n, unit in _NAMED.findall(text)]
    return len(named) > 1 or not 0 <= named[0] - sum(own) <= _CONTEXT_MIB


_ADVICE = r"(?i)\b(if you (?:see|get)|in case of|retry(?:ing)? on|handler for|except )\b"
_OOM = r"(?:CUDA|HIP) out of memory\. Tried to allocate [\d.]+ [KMG]i?B"
# Other runtimes, and the driver itself, say the same without the allocator's numbers.
_BARE_OOM = (
    r"(?:CUDA|HIP) error: out of memory\b|RESOURCE_EXHAUSTED: Out of memory"
    r"|\bOOM when allocating tensor\b|\bcudaErrorMemoryAllocation\b"
)

MEMORY = (
    Row(
        "F04",
        "root",
        "R1",
        "out of memory",
        r"Triton Error \[CUDA\]: out of memory",
        "autotuning found no headroom while the batch's tensors were alive",
        "an autotune frame in the stack; free memory at that step; only on a new shape",
        "a bug in the kernel",
        unless=_ADVICE,
    ),
    Row(
        "F02",
        "root",
        "R1",
        "out of memory",
        _OOM + r".*\bProcess \d+ has [\d.]+ [KMG]i?B memory in use",
        "another process holds memory of this GPU",
        "the holder's identity by NSpid, and the list of compute processes",
        "that this job's own peak is too high, or that the holder may be ended",
        unless=_ADVICE,
        holds=_foreign,
    ),
    Row(
        "F03",
        "root",
        "R1",
        "reserved by pytorch but unallocated",
        _OOM
        + r".{0,300}total capacity of (?P<total>[\d.]+) (?P<total_unit>[KMG]iB).{0,600}?"
        + r"(?P<idle>[\d.]+) (?P<idle_unit>[KMG]iB) is reserved by PyTorch but unallocated",
        "the allocator's memory is fragmented",
        "reserved minus allocated above a fifth of the card",
        "that the model is too big",
        unless=_ADVICE,
        holds=_fragmented,
    ),
    Row(
        "F01",
        "root",
        "R0",
        "out of memory|oom when allocating|cudaerrormemoryallocation",
        rf"{_OOM}|{_BARE_OOM}",
        "the job's own peak does not fit",
        "peak per step and a memory snapshot; the step of earlier failures",
        "a leak, or a foreign process",
        unless=_ADVICE,
    ),
    Row(
        "F05",
        "root",
        "R0",
        "out of resource|too much shared data",
        r"out of resource: shared memory, Required: \d+, Hardware limit: \d+"
        r"|uses too much shared data \(0x",
        "a kernel wants more on-chip shared memory than this GPU has",
        "required against limit; the GPU's architecture",
        "that GPU memory is short: this memory is on the chip, and a restart changes nothing",
    ),
    Row(
        "F07",
        "either",
        "R1",
        "_status_",
        r"\bCU(?:BLAS|DNN|SOLVER|SPARSE|FFT)_STATUS_(?:ALLOC_FAILED|NOT_INITIALIZED)\b",
        "a handle of a CUDA library could not be made: no memory, or an earlier CUDA error",
        "free memory at that time; the first CUDA error of the log",
        "a fault of that library",
    ),
    Row(
        "F08",
        "root",
        "R1",
        "illegal memory access",
        r"(?:CUDA error|Triton Error \[CUDA\]|cudaErrorIllegalAddress|CUDA_ERROR_ILLEGAL_ADDRESS)"
        r": an illegal memory access was encountered",
        "a kernel reached outside its memory, perhaps long before this line",
        "the same at small size with launch blocking; Xid 31 or 13 at that time",
        "that the line names the kernel at fault: it surfaces later than its cause",
    ),
    Row(
        "F09",
        "root",
        "R0",
        "device-side assert|assertion",
        # The kernel's own words come first; the error surfaces at a later call.
        r"CUDA error: device-side assert triggered"
        r"|\.cu:\d+: .*\bthread: \[\d+,\d+,\d+\],? Assertion .+ failed",
        "an index was out of range: a label or a token",
        "the last batch's ids against the vocabulary",
        "a hardware fault: the same data will do it again",
    ),
    Row(
        "F11",
        "root",
        "R0",
        "with cuda capability sm_|no kernel image is available|only supports",
        r"with CUDA capability sm_\d+ is not compatible with the current PyTorch installation"
        r"|no kernel image is available for execution on the device"
        r"|\bonly supports (?:\w+ )+GPUs or newer",
        "the wheel holds no kernels for this GPU",
        "torch.cuda.get_arch_list() against the card",
        "a broken card or driver",
    ),
    Row(
        "F10",
        "cascade",
        "R5",
        "cuda",
        r"CUDA kernel errors might be asynchronously reported"
        r"|[Cc]onsider passing CUDA_LAUNCH_BLOCKING",
        "advice that follows any CUDA error",
        "the error above it",
        "anything: it is never a root",
    ),
)
