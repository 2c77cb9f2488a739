"""Through the layers of a typed command line, down to what runs on which host.

Here: what wraps a command (environment, sudo, shells, loops, ssh, containers), and who hands a text
on to a shell. Parsing may only raise: what cannot be followed is kept as an unknown command of its
host. Not here: which commands act (``agentops.hook.advice``).
"""

import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

from agentops.hook.words import Simple, read

_DEPTH_MAX = 24
_SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ash", "ksh", "fish", "rbash"})
_RESERVED = frozenset(
    {"if", "then", "elif", "else", "while", "until", "do", "!", "{", "time", "coproc"}
)
_ENDS = frozenset({"fi", "done", "}", "esac", "in"})
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*\+?=")
# Programs that run the rest of their words; the letters are options that take a value.
_CARRIERS: Mapping[str, str] = {
    "sudo": "ugCDhprRtTU", "doas": "uC", "env": "uCS", "nohup": "", "setsid": "", "nice": "n",
    "ionice": "cnpPu", "time": "fo", "timeout": "ks", "gtimeout": "ks", "stdbuf": "ioe",
    "exec": "a", "command": "", "builtin": "", "xargs": "aEeIiLlnPsd", "watch": "n",
    "strace": "eopsuPEaI", "flock": "wE", "chrt": "", "taskset": "", "numactl": "NmCip",
    "unbuffer": "", "busybox": "", "toybox": "", "parallel": "jNnLSI", "caffeinate": "",
    "chroot": "", "systemd-run": "puEHM", "srun": "", "torify": "", "proxychains": "",
    "sshpass": "pfd",
    "rlwrap": "", "catchsegv": "", "firejail": "", "run-one": "", "ts": "", "unshare": "",
}  # fmt: skip
_WITH_PLAIN_WORDS: Mapping[str, int] = {
    "timeout": 1, "gtimeout": 1, "flock": 1, "taskset": 1, "chrt": 1, "chroot": 1,
}  # fmt: skip
_SSH = frozenset({"ssh", "autossh", "slogin", "dbclient", "mosh", "et"})
_SSH_VALUE = frozenset("BbcDEeFIiJLlmOoPpQRSWwM")


@dataclass(frozen=True, slots=True)
class Far:
    """Where a command runs: the ssh destination, None for this machine, and the containers."""

    destination: str | None = None
    layers: tuple[str, ...] = ()

    @property
    def is_remote(self) -> bool:
        """Whether it is another machine, or a container."""
        return self.destination is not None or bool(self.layers)


@dataclass(frozen=True, slots=True)
class Found:
    """One command that would run; name is its program's, () for words that nobody can know."""

    where: Far
    argv: tuple[str, ...]
    open: bool = False
    piped: bool = False
    background: bool = False
    writes: bool = False
    fed: bool = False

    @property
    def name(self) -> str:
        """The program's base name."""
        return self.argv[0].rsplit("/", 1)[-1] if self.argv else ""


def commands(text: str) -> Iterator[Found]:
    """Every command that *text* would run, here or elsewhere, in the order of the text."""
    yield from _script(text, Far(), 0)


def commands_of(argv: tuple[str, ...]) -> Iterator[Found]:
    """The same for an argv that no shell reads first."""
    yield from _simple(Simple(list(argv), [False] * len(argv)), Far(), 0)


def _script(text: str, where: Far, depth: int) -> Iterator[Found]:
    if depth > _DEPTH_MAX:
        yield Found(where, (text[:200],), open=True)
        return
    script = read(text)
    for inner in script.inside:
        yield from _script(inner, where, depth + 1)
    for command in script.commands:
        yield from _simple(command, where, depth + 1)


def _simple(command: Simple, where: Far, depth: int) -> Iterator[Found]:
    """Take the wrappers off one simple command."""
    words, opened = list(command.words), list(command.open)
    while words and _is_prefix(words[0]):
        del words[0], opened[0]
    if not words or (len(words) == 1 and words[0] in _ENDS):
        return
    name = words[0].rsplit("/", 1)[-1]
    rest = replace_words(command, words, opened)
    follow = _FOLLOW.get(name)
    if depth > _DEPTH_MAX:
        yield Found(where, tuple(words), open=True)
    elif follow is not None:
        yield from follow(rest, where, depth)
    else:
        yield _found(rest, where)


def _is_prefix(word: str) -> bool:
    return word in _RESERVED or _ASSIGNMENT.match(word) is not None


def replace_words(command: Simple, words: list[str], opened: list[bool]) -> Simple:
    """The same command with other words."""
    return replace(command, words=words, open=opened)


def _found(command: Simple, where: Far) -> Found:
    return Found(
        where,
        tuple(command.words),
        open=bool(command.open) and command.open[0],
        piped=command.piped,
        background=command.background,
        writes=command.writes,
        fed=command.stdin is not None,
    )


def _after_options(words: list[str], with_value: str) -> int:
    """Where the options of words[0] end."""
    at = 1
    while at < len(words) and words[at].startswith("-") and words[at] != "-":
        word = words[at]
        at += 1
        if word == "--":
            break
        if not word.startswith("--") and word[-1] in with_value and len(word) == len("-x"):
            at += 1
    return at


def _carrier(command: Simple, where: Far, depth: int) -> Iterator[Found]:
    """A program that runs the rest of its words."""
    words, opened = command.words, command.open
    name = words[0].rsplit("/", 1)[-1]
    at = _after_options(words, _CARRIERS[name]) + _WITH_PLAIN_WORDS.get(name, 0)
    if name == "flock" and "-c" in words[1:-1]:
        yield from _script(words[words.index("-c") + 1], where, depth + 1)
        return
    if name == "env" and "-S" in words[1:-1]:
        yield from _script(words[words.index("-S") + 1], where, depth + 1)
        return
    if at >= len(words):
        yield _found(command, where)
        return
    inner = replace_words(command, words[at:], opened[at:])
    yield from _simple(inner, where, depth + 1)


def _shell(command: Simple, where: Far, depth: int) -> Iterator[Found]:
    """``sh -c TEXT``, a shell that reads its commands, or a script file."""
    words = command.words
    for at, word in enumerate(words[1:-1], start=1):
        if re.fullmatch(r"[-+][A-Za-z]*c[A-Za-z]*", word):
            text_at = at + 1
            while text_at < len(words) - 1 and words[text_at].startswith("-"):
                text_at += 1
            if command.open[text_at] and not words[text_at].strip():
                yield _found(command, where)
            yield from _script(words[text_at], where, depth + 1)
            return
        if not word.startswith(("-", "+")):
            break
    at = _after_options(words, "oO")
    if at >= len(words) or "-s" in words[1:]:
        if command.stdin is not None:
            yield from _script(command.stdin, where, depth + 1)
        elif command.piped:
            yield replace(_found(command, where), open=True)
        return
    yield _found(command, where)


def _ssh(command: Simple, _: Far, depth: int) -> Iterator[Found]:
    """Another machine; ssh joins the words by blanks, and a shell there reads them."""
    destination, at, remote = _destination(command.words)
    if destination is None:
        return
    far = Far(destination.removeprefix("ssh://"), ())
    if remote is not None:
        yield from _script(remote, far, depth + 1)
    if at < len(command.words):
        opened = any(command.open[at:])
        text = " ".join(command.words[at:])
        yield from _followed(text, far, depth, command, opened=opened)
    elif command.stdin is not None:
        yield from _script(command.stdin, far, depth + 1)
    elif command.piped:
        yield Found(far, ("sh",), open=True)


def _destination(words: list[str]) -> tuple[str | None, int, str | None]:
    """Destination, where the command begins, and a RemoteCommand among the options."""
    at = 1
    destination = user = remote = None
    while at < len(words):
        word = words[at]
        at += 1
        if word.startswith("-") and word not in {"-", "--"}:
            name = next((letter for letter in word[1:] if letter in _SSH_VALUE), "")
            value = word.partition(name)[2] if name else ""
            if name and not value:
                value, at = "".join(words[at : at + 1]), at + 1
            if name == "l":
                user = value
            if name == "o" and value.lower().replace(" ", "").startswith("remotecommand="):
                remote = value.partition("=")[2]
        elif destination is None and word != "--":
            destination = word
        elif word != "--":
            at -= 1
            break
    if user is not None and destination is not None and "@" not in destination:
        destination = f"{user}@{destination}"
    return destination, at, remote


def _followed(text: str, far: Far, depth: int, command: Simple, *, opened: bool) -> Iterator[Found]:
    """What the far shell makes of *text*; it reads the same input as ssh does."""
    script = read(text)
    for inner in script.inside:
        yield from _script(inner, far, depth + 1)
    if opened and not script.commands:
        yield Found(far, ("",), open=True)
    for place, inside in enumerate(script.commands):
        if place == 0 and not inside.piped and inside.stdin is None:
            inside.stdin, inside.piped = command.stdin, command.piped
        inside.background = inside.background or command.background
        yield from _simple(inside, far, depth + 1)


def _into(command: Simple, where: Far, depth: int) -> Iterator[Found]:
    """A container, a namespace: one layer further in, without a shell."""
    words = command.words
    entry = _INTO[words[0].rsplit("/", 1)[-1]]
    found = entry(words)
    if found is None:
        yield _found(command, where)
        return
    layer, at = found
    inside = replace(where, layers=(*where.layers, layer))
    if at >= len(words):
        if command.stdin is not None:
            yield from _script(command.stdin, inside, depth + 1)
        elif command.piped:
            yield Found(inside, ("sh",), open=True)
        return
    yield from _simple(replace_words(command, words[at:], command.open[at:]), inside, depth + 1)


def _exec_of(
    kind: str, with_value: str, verbs: tuple[str, ...]
) -> Callable[[list[str]], tuple[str, int] | None]:
    """A reader for ``TOOL exec [OPTIONS] NAME [--] COMMAND``."""

    def at_of(words: list[str]) -> tuple[str, int] | None:
        verb_at = next((i for i, word in enumerate(words[1:], start=1) if word in verbs), None)
        if verb_at is None:
            return None
        at = verb_at + _after_options(words[verb_at:], with_value)
        if at >= len(words):
            return None
        layer = f"{kind}:{words[at]}"
        at += 1
        while at < len(words) and (words[at].startswith("-")):
            at += 2 if words[at] in {"--keep-env", "-c", "-n", "--container"} else 1
        return layer, at

    return at_of


def _nsenter(words: list[str]) -> tuple[str, int] | None:
    at, pid = 1, ""
    while at < len(words) and words[at].startswith("-"):
        word = words[at]
        at += 1
        if word in {"-t", "--target"}:
            pid, at = "".join(words[at : at + 1]), at + 1
        elif word.startswith("--target="):
            pid = word.partition("=")[2]
        elif word == "--":
            break
        elif word in {"-S", "-G", "--setuid", "--setgid"}:
            at += 1
    return f"nsenter:{pid}", at


def _lxc_attach(words: list[str]) -> tuple[str, int] | None:
    at, name = 1, ""
    while at < len(words) and words[at].startswith("-") and words[at] != "--":
        word = words[at]
        at += 1
        if word in {"-n", "--name"}:
            name, at = "".join(words[at : at + 1]), at + 1
        elif word.startswith("--name="):
            name = word.partition("=")[2]
    return f"pct:{name}", at + (at < len(words) and words[at] == "--")


_INTO: Mapping[str, Callable[[list[str]], tuple[str, int] | None]] = {
    "pct": _exec_of("pct", "", ("exec", "enter")),
    "docker": _exec_of("docker", "uweH", ("exec",)),
    "podman": _exec_of("docker", "uwe", ("exec",)),
    "nerdctl": _exec_of("docker", "uwe", ("exec",)),
    "kubectl": _exec_of("kubectl", "nc", ("exec",)),
    "lxc": _exec_of("lxc", "", ("exec",)),
    "machinectl": _exec_of("machine", "", ("shell",)),
    "nsenter": _nsenter,
    "lxc-attach": _lxc_attach,
}  # fmt: skip


def _su(command: Simple, where: Far, depth: int) -> Iterator[Found]:
    words = command.words
    for flag in ("-c", "--command"):
        if flag in words[1:-1]:
            yield from _script(words[words.index(flag) + 1], where, depth + 1)
            return
    yield _found(command, where)


def _find(command: Simple, where: Far, depth: int) -> Iterator[Found]:
    """``find`` itself, and what it executes for each file."""
    words = command.words
    for flag in ("-exec", "-execdir", "-ok"):
        if flag in words[1:-1]:
            at = words.index(flag) + 1
            yield from _script(shlex.join(words[at:]).replace("';'", ""), where, depth + 1)
            return
    yield _found(command, where)


def _eval(command: Simple, where: Far, depth: int) -> Iterator[Found]:
    yield from _script(" ".join(command.words[1:]), where, depth + 1)


def _copy(command: Simple, where: Far, _: int) -> Iterator[Found]:
    """``scp`` and ``rsync`` to another machine write files there; from it they read."""
    place, colon, path = command.words[-1].partition(":")
    if colon and path and "/" not in place and len(command.words) > len("ab"):
        yield replace(_found(command, Far(place)), writes=True)
    else:
        yield _found(command, where)


_FOLLOW: Mapping[str, Callable[[Simple, Far, int], Iterator[Found]]] = {
    **dict.fromkeys(_CARRIERS, _carrier),
    **dict.fromkeys(_SHELLS, _shell),
    **dict.fromkeys(_SSH, _ssh),
    **dict.fromkeys(_INTO, _into),
    "scp": _copy,
    "rsync": _copy,
    "eval": _eval,
    "su": _su,
    "find": _find,
}
