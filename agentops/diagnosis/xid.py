"""Signatures of NVIDIA Xid lines in the kernel's log. Rows only; specific ones stand first.

The words for remedies follow NVIDIA's catalogue of Xid errors.
"""

from agentops.diagnosis.signature import Relaunch, Role, Row

_LINE = r"NVRM: Xid \(PCI:[0-9a-fA-F:.]+\): (?:{numbers})(?=[,\s])"


def _row(
    id_: str, numbers: str, role: Role, relaunch: Relaunch, title: str, probe: str, not_proof: str
) -> Row:
    """One row of the Xid table; *numbers* are alternatives of a pattern."""
    pattern = _LINE.format(numbers=numbers)
    return Row(id_, role, relaunch, "xid", pattern, title, probe, not_proof, outside=True)


XID = (
    _row(
        "F44",
        "154",
        "info",
        "R3",
        "the driver names the recovery that it wants",
        "the action's name in the line",
        "that the action may be taken without a person",
    ),
    _row(
        "F32",
        "13",
        "root",
        "R1",
        "graphics engine exception: mostly the application's own",
        "the same kernel each time? other GPUs?",
        "a broken card",
    ),
    _row(
        "F33",
        "31",
        "root",
        "R1",
        "GPU memory page fault: mostly an illegal access of the application",
        "the same at small size with launch blocking",
        "a broken card",
    ),
    _row(
        "F34",
        "43",
        "either",
        "R1",
        "the GPU stopped an application's channel",
        "another Xid just before",
        "a broken card: it mostly follows a fault of the application",
    ),
    _row(
        "F35",
        "45",
        "cascade",
        "R4",
        "preemptive cleanup after a channel or process ended",
        "another Xid within five seconds; whether we ended a process",
        "a fault: it also appears when a CUDA process is killed",
    ),
    _row(
        "F36",
        "48|171|172",
        "root",
        "R3",
        "double-bit ECC error",
        "remapped rows and volatile counters",
        "a fault of the application",
    ),
    _row(
        "F37",
        "63",
        "info",
        "R4",
        "a row remap was recorded; it takes effect at the next reset",
        "whether a remap is pending",
        "that the running job must be stopped",
    ),
    _row(
        "F38",
        "64",
        "root",
        "R3",
        "a row remap failed",
        "whether it comes back after a reset",
        "a fault of the application",
    ),
    _row(
        "F40",
        "79",
        "root",
        "R3",
        "the GPU has fallen off the bus",
        "the number of devices that the kernel sees",
        "anything about the job: ask the GPU nothing meanwhile",
    ),
    _row(
        "F41",
        "94|95",
        "root",
        "R3",
        "an ECC error, contained (94: that application only) or not (95)",
        "which application; row remaps",
        "that other jobs are hurt, for 94",
    ),
    _row(
        "F42",
        "109|46|62",
        "root",
        "R3",
        "the GPU hangs: context switch, engine or micro-controller",
        "power, temperature, a hung kernel",
        "that killing the job mends the card",
    ),
    _row(
        "F43",
        "119|120",
        "root",
        "R3",
        "the GPU's system processor does not answer",
        "which function and process the line names",
        "that the process it names is at fault: nvidia-smi is mostly a victim",
    ),
    _row(
        "xid_link",
        "74|121|136|14[4-9]|150",
        "root",
        "R3",
        "a link between GPUs, or to the processor, failed",
        "the link that the line names; its counters of errors",
        "a fault of the collectives' library",
    ),
    _row(
        "xid_other",
        r"\d+",
        "either",
        "R5",
        "an Xid that no signature knows",
        "its number in NVIDIA's catalogue",
        "that the card is broken: many numbers are a program's own",
    ),
    Row(
        "ecc_error",
        "root",
        "R3",
        "uncorrectable|eccuncorrectable",
        r"error: uncorrectable (?:ECC|NVLink) error encountered"
        r"|\b(?:CUDA_ERROR_ECC_UNCORRECTABLE|cudaErrorECCUncorrectable)\b",
        "the GPU's memory or link gave data that could not be corrected",
        "the kernel's log for Xid 48, 63, 64, 94, 95; remapped rows and volatile counters",
        "a fault of the application",
    ),
    Row(
        "F40",
        "root",
        "R3",
        "fallen off the bus",
        r"GPU has fallen off the bus(?:\.|,|$| and is not responding)",
        "the GPU has fallen off the bus",
        "the number of devices that the kernel sees",
        "anything about the job: ask the GPU nothing meanwhile",
    ),
)
