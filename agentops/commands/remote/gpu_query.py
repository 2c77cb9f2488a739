"""Ask nvidia-smi one question, with a deadline of its own. Runs on hosts."""

from __future__ import annotations

import os
import shutil
import subprocess

from agentops.commands.remote.identity import text

SMI_PATHS = ("/usr/bin/nvidia-smi", "/usr/local/bin/nvidia-smi", "/usr/local/nvidia/bin/nvidia-smi")
SMI_LIMIT = 1 << 20


def smi(arguments: list[str], timeout_s: float) -> dict[str, object]:
    """What nvidia-smi printed, or why it could not be asked."""
    tool = shutil.which("nvidia-smi") or next((p for p in SMI_PATHS if os.access(p, os.X_OK)), None)
    row: dict[str, object] = {
        "tool": tool, "status": None, "timed_out": False, "stdout": "", "stderr": "",
    }  # fmt: skip
    if tool is None:
        return row
    process = subprocess.Popen(
        [tool, *arguments],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    try:
        out, err = process.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired:
        # In state D it takes no signal; waiting for it would hang this script as well.
        process.kill()
        row["timed_out"] = True
        return row
    row["status"] = process.returncode
    row["stdout"] = text(out[:SMI_LIMIT])
    row["stderr"] = text(err[:4096])
    return row


def memory_used_mib(timeout_s: float) -> list[int | None] | None:
    """Used memory of every GPU in nvidia-smi's order; None when it cannot be asked."""
    said = smi(["--query-gpu=memory.used", "--format=csv,noheader,nounits"], timeout_s)
    if said["status"] != 0:
        return None
    lines = str(said["stdout"]).split("\n")
    return [int(x) if x.strip().isdigit() else None for x in lines if x.strip()]
