"""Ask or tell tmux. Runs on hosts.

Arguments: "list", "capture PANE LINES" or "interrupt PANE IDENTITY".
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys

from agentops.commands.remote.identity import answer, here, start_ticks, stat_fields, text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

TIMEOUT_S = 10
# Session names hold no colon; the command may, so it stands last. A tab would come back as "_".
FIELDS = (
    "session_name", "window_index", "pane_index", "pane_id", "pane_pid", "pane_dead",
    "pane_in_mode", "session_attached", "pid", "pane_current_command",
)  # fmt: skip
FORMAT = ":".join("#{%s}" % name for name in FIELDS)


def ask(*arguments: str) -> tuple[int | None, bytes, bytes]:
    """Run tmux; None when there is no tmux or it does not answer."""
    if shutil.which("tmux") is None:
        return None, b"", b"no tmux on PATH"
    try:
        said = subprocess.run(
            ["tmux", *arguments],
            stdin=subprocess.DEVNULL, capture_output=True, timeout=TIMEOUT_S, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return None, b"", b"tmux did not answer"
    return said.returncode, said.stdout, said.stderr


def foreground(pid: int) -> tuple[int, int]:
    """Process group in the foreground of the pane's terminal, and the start of its leader."""
    fields = stat_fields(pid)
    group = -1 if fields is None else int(fields[5])
    return group, start_ticks(group) if group > 0 else 0


def panes() -> tuple[dict[str, object], list[dict[str, object]]]:
    """Every pane of every session of this user's server."""
    status, out, err = ask("list-panes", "-a", "-F", FORMAT)
    head: dict[str, object] = {
        "status": status, "error": text(err[:500]), "uid": os.getuid(),
        "socket_folder": os.environ.get("TMUX_TMPDIR", "/tmp"),  # noqa: S108 - tmux's own default
    }  # fmt: skip
    head.update(here())
    rows = []
    for line in out.decode("utf-8", "backslashreplace").splitlines() if status == 0 else ():
        name, window, pane, pane_id, pid, dead, mode, attached, server, command = line.split(":", 9)
        group, leader = foreground(int(pid))
        rows.append({
            "session": name, "window": int(window), "pane": int(pane), "pane_id": pane_id,
            "pid": int(pid), "start_ticks": start_ticks(pid), "dead": dead == "1",
            "in_mode": mode not in ("", "0"), "attached": int(attached or 0), "command": command,
            "foreground_pgid": group, "foreground_start_ticks": leader,
            "server_pid": int(server), "server_start_ticks": start_ticks(server),
        })  # fmt: skip
    return head, rows


def interrupt(pane: str, victim: dict[str, Any]) -> dict[str, object]:
    """Send C-c to a pane if its foreground group still is the one that was meant."""
    place = here()
    head, rows = panes()
    found = next((row for row in rows if row["pane_id"] == pane), None)
    refusal = None
    if head["status"] != 0:
        refusal = "no_server"
    elif found is None:
        refusal = "no_pane"
    elif found["in_mode"]:
        # In copy mode the key goes to tmux itself, and the status is 0 all the same.
        refusal = "pane_in_mode"
    elif any(place[key] != victim[key] for key in place) or (
        (found["foreground_pgid"], found["foreground_start_ticks"])
        != (victim["pid"], victim["start_ticks"])
    ):
        refusal = "identity_changed"
    status = None
    if refusal is None:
        status, _, _ = ask("send-keys", "-t", pane, "C-c")
        refusal = None if status == 0 else "tmux_failed"
    return {"sent": refusal is None, "refusal": refusal, "status": status}


def main() -> None:
    """See the module's first line."""
    verb, *rest = sys.argv[1:]
    if verb == "list":
        head, rows = panes()
        answer(head, *rows)
    elif verb == "capture":
        status, out, err = ask("capture-pane", "-p", "-J", "-t", rest[0], "-S", "-" + rest[1])
        answer({"status": status, "text": text(out), "error": text(err[:500])})
    else:
        answer(interrupt(rest[0], json.loads(rest[1])))


if __name__ == "__main__":
    main()
