"""``agentops hook``: a coding agent's pre-tool hook; exit 2 with one line stops the tool.

What comes in may be anything: an unreadable input passes, since the server and the executor enforce
policy anyway and a hook only points the way. Not here: what is stopped (``agentops.hook``), what
the settings say (``agentops.cli.hook_settings``).
"""

import argparse
import json
import sys
from collections.abc import Iterator
from importlib import import_module

from agentops.cli.status import Status
from agentops.hook.advice import advice
from agentops.hook.layers import Found, commands, commands_of

_INPUT_MAX = 1_000_000
_DEPTH_MAX = 6
# Cursor reads an answer in JSON from every hook; the others want nothing on standard output.
_CURSOR_EVENT = "beforeShellExecution"


def register(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command."""
    parser = commands.add_parser(
        "hook", help="a pre-tool hook: points from a typed ssh … pkill to the agentops call"
    )
    parser.add_argument(
        "words",
        metavar="ARGV",
        nargs=argparse.REMAINDER,
        help="the command; without it, the hook's JSON on standard input",
    )
    parser.set_defaults(run=_hook)


def _hook(arguments: argparse.Namespace) -> Status:
    words = tuple(arguments.words[1:] if arguments.words[:1] == ["--"] else arguments.words)
    given = None if words else _input()
    found = tuple(_of_argv(words) if words else _of_value(given, 0))
    line = None
    if any(one.where.is_remote for one in found):
        # Most commands are no business of ours: they shall not wait for settings to be read.
        line = advice(found, import_module("agentops.cli.hook_settings").known())
    if isinstance(given, dict) and given.get("hook_event_name") == _CURSOR_EVENT:
        deny = {"permission": "deny", "user_message": line, "agent_message": line}
        sys.stdout.write(json.dumps({} if line is None else deny) + "\n")
    if line is None:
        return Status.YES
    sys.stderr.write(line + "\n")
    return Status.USAGE


def _of_argv(words: tuple[str, ...]) -> Iterator[Found]:
    """One word is a line for a shell, several are an argv."""
    return commands(words[0]) if len(words) == 1 else commands_of(words)


def _input() -> object:
    """What the message says; text that is no message is a plain command line."""
    text = sys.stdin.buffer.read(_INPUT_MAX).decode("utf-8", "replace")
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _of_value(given: object, depth: int) -> Iterator[Found]:
    """The command in a hook's message: Claude Code's, Codex's, Cursor's, or a bare one."""
    if isinstance(given, str):
        yield from commands(given)
    elif isinstance(given, list) and all(isinstance(word, str) for word in given) and given:
        yield from commands_of(tuple(given))
    elif isinstance(given, dict) and depth < _DEPTH_MAX:
        for key in ("tool_input", "toolInput", "command", "cmd", "argv", "arguments", "script"):
            if key in given:
                yield from _of_value(given[key], depth + 1)
