"""The recorded answers of real hosts, with the commands that asked for them."""

import json
from pathlib import Path

from agentops.commands import COMMANDS, Command, Completed

FOLDER = Path(__file__).parents[1] / "golden" / "commands"
GOLDENS = tuple(sorted(FOLDER.glob("*/*.json")))


def load(path: Path) -> tuple[Command, Completed, dict[str, object]]:
    """Command, answer, and the golden itself."""
    golden = json.loads(path.read_text())
    command = COMMANDS[path.parent.name].model_validate_json(json.dumps(golden["arguments"]))
    out, err = (golden[name].encode("utf-8", "surrogateescape") for name in ("stdout", "stderr"))
    return command, Completed(golden["exit_status"], out, err), golden


def any_command(name: str) -> Command:
    """A command of that name with arguments that were used on a real host."""
    return load(next((FOLDER / name).glob("*.json")))[0]
