"""Programs that stand in for hardware or services, written where a test's host finds them."""

import textwrap
from pathlib import Path

from agentops.box import Box


def put_program(folder: Path, name: str, text: str) -> Path:
    """An executable script in a folder of a host's PATH."""
    path = folder / name
    path.write_text(textwrap.dedent(text).lstrip())
    path.chmod(0o755)
    return path


def put_smi(
    box: Box, *, devices: str = "", processes: str = "", status: int = 0, container: str = "200"
) -> None:
    """An nvidia-smi that prints these rows (or this failure) and ends with this status."""
    folder = box.directory / "containers" / container / "bin"
    (folder / "devices.txt").write_text(devices)
    (folder / "processes.txt").write_text(processes)
    put_program(
        folder,
        "nvidia-smi",
        f"""
        #!/bin/sh
        case $1 in
        --query-gpu=*) cat {folder}/devices.txt ;;
        --query-compute-apps=*) cat {folder}/processes.txt ;;
        esac
        exit {status}
        """,
    )
