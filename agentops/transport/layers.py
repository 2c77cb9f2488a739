"""The layers of a route: pure functions from an argv to the argv that carries it one layer in.

Here: one function a layer, and their folding. No layer but ssh goes through a shell, so only
``shell_line`` quotes, and once. Not here: who runs the result (``ssh``, ``local``).
"""

import shlex
from collections.abc import Callable, Mapping

from agentops.errors import UsageError
from agentops.hosts import Layer

Argv = tuple[str, ...]


def pct(argument: str, argv: Argv) -> Argv:
    """Run in a Proxmox container.

    ``--keep-env 0`` is spelled out because the default changes with PVE 9. pct hands argv to
    lxc-attach unchanged: no shell.

    Source: pve-container, src/PVE/CLI/pct.pm, ``exec``.
    """
    return ("pct", "exec", argument, "--keep-env", "0", "--", *argv)


def docker(argument: str, argv: Argv) -> Argv:
    """Run in a Docker container; ``-i`` carries stdin, and without ``-t`` streams stay apart."""
    return ("docker", "exec", "-i", argument, *argv)


def sudo(argument: str, argv: Argv) -> Argv:
    """Run as another user; ``-n`` fails instead of asking for a password that nobody can type."""
    return ("sudo", "-n", "-u", argument, "--", *argv)


def nsenter(argument: str, argv: Argv) -> Argv:
    """Run in all namespaces of the process *argument*, without a shell."""
    return ("nsenter", "--target", argument, "--all", "--", *argv)


LAYERS: Mapping[str, Callable[[str, Argv], Argv]] = {
    "pct": pct,
    "docker": docker,
    "sudo": sudo,
    "nsenter": nsenter,
}


def wrap(layers: tuple[Layer, ...], argv: Argv) -> Argv:
    """Carry *argv* through the layers; the first layer is the outermost.

    >>> wrap((Layer.from_text("pct:200"), Layer.from_text("sudo:ops")), ("id",))[:5]
    ('pct', 'exec', '200', '--keep-env', '0')
    """
    for layer in reversed(layers):
        argv = LAYERS[layer.kind](layer.argument, argv)
    return argv


def shell_line(argv: Argv) -> str:
    """One line for a POSIX login shell.

    ``exec`` makes the frame the session's leader, so a signal sent to the session's process group
    reaches the command and not only a shell before it.

    Raises:
        UsageError: an argument holds a NUL byte, which no argv can carry.
    """
    for place, argument in enumerate(argv):
        if "\0" in argument:
            raise UsageError(f"argument {place} holds a NUL byte, which no command line can carry")
    return "exec " + shlex.join(argv)
