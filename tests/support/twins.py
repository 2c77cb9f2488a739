"""The argv by which a command runs on a host that has no Python."""

from agentops.commands.base import Command
from agentops.commands.script import ScriptCommand, shell_source


def shell_twin_argv(command: Command) -> tuple[str, ...] | None:
    """The same command by its sh script alone; None if it has none."""
    if not isinstance(command, ScriptCommand) or command.shell is None:
        return None
    return ("sh", "-c", shell_source(command.shell), "agentops", *command.script_arguments())
