"""Reading shell commands: words, operators, pipelines, and scripts inside scripts.

Here: a parser for what people send through ``ssh … 'sh -c "…"'``, and facts that follow from the
form alone: what runs after what, which exit status can come back, which pattern finds its own
shell. It reads the POSIX list grammar (quotes, ``;``, ``&``, ``&&``, ``||``, ``|``, redirections);
compound commands are kept as plain words. Not here: whether anything ran.
"""

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

Operator = Literal["&&", "||", ";", "&", ""]

_OPERATORS = ("&&", "||", ";;", ";", "|&", "|", "&", "\n")
_REDIRECTION = re.compile(r"(?:\d*|&)(?:>>|>&|<&|>|<)(?:\d+|-)?(?!\()")
_SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ash"})
_SSH_WITH_VALUE = frozenset("bcDeFIiJLlmOopQRSWw")
_ALWAYS_TRUE = frozenset({"true", ":", "echo", "printf"})
_CHECKS = frozenset({"pgrep", "test", "[", "grep", "cmp", "diff", "pidof", "stat", "fuser", "lsof"})
_PATTERN_TOOLS = frozenset({"pkill", "pgrep", "killall"})
_TRANSPARENT = frozenset({"sudo", "nohup", "exec", "command", "time", "nice", "setsid"})


@dataclass(frozen=True, slots=True)
class Simple:
    """One simple command: its words, without redirections."""

    argv: tuple[str, ...]

    @property
    def name(self) -> str:
        """The program's base name, or nothing for an empty command."""
        return self.argv[0].rsplit("/", 1)[-1] if self.argv else ""

    @property
    def text(self) -> str:
        """The command in words."""
        return " ".join(self.argv)


@dataclass(frozen=True, slots=True)
class Item:
    """One pipeline and the operator that follows it."""

    pipeline: tuple[Simple, ...]
    after: Operator

    @property
    def last(self) -> Simple:
        """The command whose status is the pipeline's."""
        return self.pipeline[-1]


@dataclass(frozen=True, slots=True)
class Script:
    """A list of pipelines, and the text that it was read from."""

    text: str
    items: tuple[Item, ...]

    def commands(self) -> Iterator[Simple]:
        """Its simple commands in order, not going into scripts inside."""
        for item in self.items:
            yield from item.pipeline


@dataclass(frozen=True, slots=True)
class Nested:
    """A script with the simple commands that wrap it, the outermost first."""

    script: Script
    wrappers: tuple[Simple, ...]


def parse(text: str) -> Script:
    """Read a command line. Total: what it cannot read becomes one plain command.

    >>> [(i.last.name, i.after) for i in parse("a x; b | c && d || true").items]
    [('a', ';'), ('c', '&&'), ('d', '||'), ('true', '')]
    """
    items: list[Item] = []
    pipeline: list[Simple] = []
    words: list[str] = []
    for token, is_operator in _tokens(text):
        if not is_operator:
            words.append(token)
        elif token in {"|", "|&"}:
            pipeline.append(Simple(tuple(words)))
            words = []
        else:
            pipeline.append(Simple(tuple(words)))
            after = _after(token)
            if any(simple.argv for simple in pipeline):
                items.append(Item(tuple(s for s in pipeline if s.argv), after))
            pipeline, words = [], []
    pipeline.append(Simple(tuple(words)))
    if any(simple.argv for simple in pipeline):
        items.append(Item(tuple(s for s in pipeline if s.argv), ""))
    return Script(text, tuple(items))


def _after(token: str) -> Operator:
    match token:
        case "&&":
            return "&&"
        case "||":
            return "||"
        case "&":
            return "&"
        case _:
            return ";"


def _tokens(text: str) -> Iterator[tuple[str, bool]]:  # noqa: C901  (one state machine)
    """Words and operators; quotes are taken off, redirections dropped."""
    place, word, quoted, skip = 0, "", False, False
    while place < len(text):
        char = text[place]
        if char == "\\" and place + 1 < len(text):
            word, quoted, place = word + text[place + 1], True, place + 2
        elif char in "'\"":
            inner, place = _quoted(text, place)
            word, quoted = word + inner, True
        elif not word and (found := _REDIRECTION.match(text, place)):
            place = found.end()
            skip = found[0][-1] in "<>"
        elif operator := _operator(text, place):
            if (word or quoted) and not skip:
                yield word, False
            word, quoted, skip, place = "", False, False, place + len(operator)
            yield operator, True
        elif char in " \t":
            if word or quoted:
                if not skip:
                    yield word, False
                skip = False
            word, quoted, place = "", False, place + 1
        else:
            word, place = word + char, place + 1
    if (word or quoted) and not skip:
        yield word, False


def _operator(text: str, place: int) -> str:
    return next((op for op in _OPERATORS if text.startswith(op, place)), "")


def _quoted(text: str, place: int) -> tuple[str, int]:
    """The inside of a quoted part, and the place behind it."""
    mark = text[place]
    inner, place = "", place + 1
    while place < len(text) and text[place] != mark:
        if (
            mark == '"'
            and text[place] == "\\"
            and text[place + 1 : place + 2] in {'"', "\\", "$", "`"}
        ):
            place += 1
        inner, place = inner + text[place], place + 1
    return inner, place + 1


def inside(simple: Simple) -> str | None:
    """The command line that a command hands on to a shell or another host, or None.

    >>> inside(Simple(("ssh", "-o", "ConnectTimeout=10", "root@h", "pct exec 200 -- ls")))
    'pct exec 200 -- ls'
    >>> inside(Simple(("bash", "-lc", "a; b")))
    'a; b'
    """
    argv = simple.argv
    name = simple.name
    if name in _SHELLS:
        place = next((i for i, w in enumerate(argv) if re.fullmatch(r"-[a-z]*c[a-z]*", w)), None)
        return argv[place + 1] if place is not None and place + 1 < len(argv) else None
    if name == "ssh":
        return _ssh_command(argv)
    if name in {"pct", "docker", "kubectl", "podman"} and len(argv) > 1 and argv[1] == "exec":
        rest = argv[argv.index("--") + 1 :] if "--" in argv else argv[3:]
        return shlex.join(rest) or None
    if name == "timeout":
        rest = tuple(w for w in argv[1:] if not w.startswith("-"))[1:]
        return shlex.join(rest) or None
    if name in _TRANSPARENT:
        return shlex.join(argv[1:]) or None
    return None


def _ssh_command(argv: tuple[str, ...]) -> str | None:
    """What is behind the host; ssh joins the words by blanks and quotes nothing."""
    place = 1
    while place < len(argv) and argv[place].startswith("-"):
        place += 2 if argv[place][-1] in _SSH_WITH_VALUE and len(argv[place]) == len("-o") else 1
    rest = argv[place + 1 :]
    return " ".join(rest) or None


def nested(text: str) -> Iterator[Nested]:
    """The script and every script inside it, outermost first."""
    yield from _nested(parse(text), ())


def _nested(script: Script, wrappers: tuple[Simple, ...]) -> Iterator[Nested]:
    yield Nested(script, wrappers)
    for simple in script.commands():
        inner = inside(simple)
        if inner is not None:
            yield from _nested(parse(inner), (*wrappers, simple))


def innermost(text: str) -> Script:
    """The script that does the work: the deepest one, the first of those."""
    return max(nested(text), key=lambda found: len(found.wrappers)).script


def always_zero(script: Script) -> bool:
    """Whether the exit status is nought whatever happens.

    >>> always_zero(parse("test -f x && echo ok || echo missing")), always_zero(parse("a && b"))
    (True, False)
    """
    if not script.items:
        return False
    last = script.items[-1]
    before = script.items[-2].after if len(script.items) > 1 else ";"
    if last.last.name not in _ALWAYS_TRUE:
        return False
    if before == "&&":
        return False
    return before in {"||", ";", "&"}


def status_thrown_away(script: Script) -> tuple[Simple, ...]:
    """Checks whose exit status is covered by ``|| true`` and the like."""
    found = []
    for item, following in zip(script.items, script.items[1:], strict=False):
        covered = item.after == "||" and following.last.name in {"true", ":"}
        if covered and item.last.name in _CHECKS:
            found.append(item.last)
    return tuple(found)


def hidden_failures(script: Script) -> tuple[Simple, ...]:
    """Commands whose failure neither stops the script nor shows in its status.

    They stand before a ``;`` (or are covered by ``||``) in a script without ``set -e``.
    """
    if any(s.argv[:2] == ("set", "-e") for s in script.commands()):
        return ()
    return tuple(item.last for item in script.items[:-1] if item.after in {";", "&"})


def conditional(script: Script, first: str) -> bool | None:
    """Whether what follows a command runs only if it succeeds; None when it is not there."""
    for item in script.items:
        if any(simple.name == first for simple in item.pipeline):
            return item.after == "&&"
    return None


def pattern_of(simple: Simple) -> str | None:
    """The pattern of a full-command-line match (``pkill -f``, ``pgrep -f``), or None."""
    if simple.name not in _PATTERN_TOOLS:
        return None
    flags = [w for w in simple.argv[1:] if re.fullmatch(r"-[A-Za-z]+", w)]
    words = [w for w in simple.argv[1:] if not w.startswith("-")]
    full = any("f" in flag for flag in flags)
    return words[-1] if full and words else None


def self_matches(text: str) -> tuple[tuple[Simple, Simple], ...]:
    """Pattern tools whose pattern is in the command line of a shell around them.

    pkill and pgrep leave out themselves only, so that shell is found, and by pkill signalled.
    """
    found = []
    for level in nested(text):
        for simple in level.script.commands():
            pattern = pattern_of(simple)
            if pattern is None or any("A" in w for w in simple.argv[1:] if w.startswith("-")):
                continue
            for wrapper in level.wrappers:
                if wrapper.name in _SHELLS and _matches(pattern, wrapper.text):
                    found.append((simple, wrapper))
                    break
            else:
                if level.wrappers and _matches(pattern, level.script.text):
                    found.append((simple, level.wrappers[-1]))
    return tuple(found)


def _matches(pattern: str, text: str) -> bool:
    try:
        return re.search(pattern, text) is not None
    except re.error:
        return pattern in text
