"""Shell text as a shell would take it apart: words, pipelines, substitutions, here-documents.

Total: any text gives a list. Unlike ``reports.shell``, which judges the form of recorded lines,
this follows every way by which text becomes a command. Source: POSIX.1-2017, Shell Command
Language, 2.2 to 2.10, and bash's ``|&``, ``<<<``, ``$'…'``, ``<(…)``. Not here: what a command
means (``agentops.hook.layers``).
"""

import re
from dataclasses import dataclass, field

_OPERATORS = ("&&", "||", ";;", "|&", ";", "|", "&", "\n", "(", ")")
_REDIRECTION = re.compile(r"(?:\d+|&)?(?:<<<|<<-?|>>|>&|<&|<>|&>>|&>|>\||>|<)")
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "e": "\x1b", "\\": "\\"}
_CODE = re.compile(r"x([0-9a-fA-F]{1,2})|u([0-9a-fA-F]{1,4})|([0-7]{1,3})")
LENGTH_MAX = 200_000


@dataclass(slots=True)
class Simple:
    """One simple command.

    words have their quotes taken off; open says which of them hold an expansion, so that nobody
    knows what they will be. stdin is text that it reads from a here-document, a here-string or an
    echo before it; None where it reads something unknown. piped says that a pipe feeds it.
    """

    words: list[str] = field(default_factory=list)
    open: list[bool] = field(default_factory=list)
    stdin: str | None = None
    piped: bool = False
    background: bool = False
    writes: bool = False


@dataclass(slots=True)
class Script:
    """All simple commands of a text in order, and the scripts in its substitutions."""

    commands: list[Simple] = field(default_factory=list)
    inside: list[str] = field(default_factory=list)


def read(text: str) -> Script:
    r"""Take *text* apart.

    >>> [c.words for c in read('A=1 ssh h "p\\"k" | b; c >x $(d e)').commands]
    [['A=1', 'ssh', 'h', 'p"k'], ['b'], ['c', '']]
    >>> read('c $(d e)').inside
    ['d e']
    """
    return _Reader(text[:LENGTH_MAX].replace("\\\r\n", "").replace("\\\n", "")).run()


class _Reader:
    """The state of one reading."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._script = Script()
        self._now = Simple()
        self._waiting: list[tuple[Simple, str, bool]] = []

    def run(self) -> Script:
        """Read to the end."""
        while self._at < len(self._text):
            if self._rest().startswith("#"):
                self._to_line_end()
            elif found := _REDIRECTION.match(self._text, self._at):
                if found[0].startswith("<") and self._peek(found.end()) == "(" and found[0] == "<":
                    self._word()
                else:
                    self._redirection(found[0], found.end())
            elif operator := self._operator():
                self._at += len(operator)
                self._end(operator)
            elif self._text[self._at] in " \t\r\f\v":
                self._at += 1
            else:
                self._word()
        self._end("")
        return self._script

    def _rest(self) -> str:
        return self._text[self._at : self._at + 2]

    def _peek(self, at: int) -> str:
        return self._text[at : at + 1]

    def _operator(self) -> str:
        return next((op for op in _OPERATORS if self._text.startswith(op, self._at)), "")

    def _to_line_end(self) -> None:
        end = self._text.find("\n", self._at)
        self._at = len(self._text) if end < 0 else end

    def _end(self, operator: str) -> None:
        """One command is over; what follows a pipe reads what it wrote."""
        done, self._now = self._now, Simple()
        if done.words:
            done.background = operator == "&"
            self._script.commands.append(done)
        if operator in {"|", "|&"}:
            self._now.piped = True
            self._now.stdin = _spoken(done)
        if operator == "\n":
            self._here_documents()

    def _here_documents(self) -> None:
        for command, mark, strip in self._waiting:
            lines = []
            while self._at < len(self._text):
                end = self._text.find("\n", self._at)
                end = len(self._text) if end < 0 else end
                line = self._text[self._at : end]
                self._at = end + 1
                if (line.lstrip("\t") if strip else line) == mark:
                    break
                lines.append(line)
            command.stdin = "\n".join(lines)
        self._waiting = []

    def _redirection(self, sign: str, end: int) -> None:
        self._at = end
        kind = sign.lstrip("0123456789")
        while self._peek(self._at) in {" ", "\t"}:
            self._at += 1
        aim, _ = self._one_word()
        if kind in {"<<", "<<-"}:
            self._waiting.append((self._now, aim, kind == "<<-"))
        elif kind == "<<<":
            self._now.stdin = aim
        elif ">" in kind and not re.fullmatch(r"/dev/(null|stdout|stderr)|\d+|-", aim):
            self._now.writes = True

    def _word(self) -> None:
        word, is_open = self._one_word()
        self._now.words.append(word)
        self._now.open.append(is_open)

    def _one_word(self) -> tuple[str, bool]:
        """The next word without its quotes, and whether an expansion is in it."""
        parts: list[str] = []
        is_open = False
        start = self._at
        while self._at < len(self._text):
            char = self._text[self._at]
            if char in " \t\r\f\v\n" or (self._operator() and self._at > start):
                break
            if char in "<>" and self._at > start:
                break
            text, opens = self._piece(char)
            parts.append(text)
            is_open = is_open or opens
            if self._at == start:
                break
        return "".join(parts), is_open

    def _piece(self, char: str) -> tuple[str, bool]:
        """One quoted part, escape, expansion or letter."""
        if char == "\\":
            self._at += 2
            return self._text[self._at - 1 : self._at], False
        if char == "'":
            return self._until("'"), False
        if self._rest() == "$'":
            self._at += 1
            return self._ansi(), False
        if char == '"' or self._rest() == '$"':
            self._at += char == "$"
            return self._double()
        if char in "$`" or self._rest() in {"<(", ">("}:
            return self._expansion()
        self._at += 1
        return char, False

    def _until(self, mark: str) -> str:
        end = self._text.find(mark, self._at + 1)
        end = len(self._text) if end < 0 else end
        inner = self._text[self._at + 1 : end]
        self._at = end + 1
        return inner

    def _ansi(self) -> str:
        """``$'…'``, whose escapes name letters."""
        out: list[str] = []
        self._at += 1
        while self._at < len(self._text) and self._text[self._at] != "'":
            char = self._text[self._at]
            self._at += 1
            if char != "\\":
                out.append(char)
                continue
            code = _CODE.match(self._text, self._at)
            if code is not None:
                self._at = code.end()
                digits = code[1] or code[2]
                out.append(chr(int(digits, 16) if digits else int(code[3], 8)))
            else:
                char = self._peek(self._at)
                self._at += 1
                out.append(_ESCAPES.get(char, char))
        self._at += 1
        return "".join(out)

    def _double(self) -> tuple[str, bool]:
        out: list[str] = []
        is_open = False
        self._at += 1
        while self._at < len(self._text) and self._text[self._at] != '"':
            char = self._text[self._at]
            if char == "\\" and self._peek(self._at + 1) in {'"', "\\", "$", "`"}:
                out.append(self._peek(self._at + 1))
                self._at += 2
            elif char in "$`":
                text, opens = self._expansion()
                out.append(text)
                is_open = is_open or opens
            else:
                out.append(char)
                self._at += 1
        self._at += 1
        return "".join(out), is_open

    def _expansion(self) -> tuple[str, bool]:
        """``$(…)``, backticks, ``${…}``, ``$name``: noted, and left out of the word or kept."""
        start = self._at
        char = self._text[start]
        if char == "`":
            self._script.inside.append(self._until("`").replace("\\`", "`"))
            return "", True
        if self._peek(start + 1) == "(":
            self._at = _closing(self._text, start + 1) + 1
            self._script.inside.append(self._text[start + 2 : self._at - 1])
            return "", True
        if self._peek(start + 1) == "{":
            end = self._text.find("}", start)
            self._at = len(self._text) if end < 0 else end + 1
        else:
            found = re.compile(r"\$(\w+|[@*#?$!-])?").match(self._text, start)
            self._at = start + 1 if found is None else max(found.end(), start + 1)
        return self._text[start : self._at], self._at > start + 1


def _closing(text: str, start: int) -> int:
    """The place of the parenthesis that closes the one at *start*; the end where none does."""
    depth, at = 0, start
    while at < len(text):
        char = text[at]
        if char == "\\":
            at += 1
        elif char == "'":
            end = text.find("'", at + 1)
            at = len(text) if end < 0 else end
        elif char == "(":
            depth += 1
        elif char == ")":
            depth -= 1
            if depth == 0:
                return at
        at += 1
    return len(text)


def _spoken(command: Simple) -> str | None:
    """What a command that only speaks writes; None where nobody knows."""
    words = command.words
    name = words[0].rsplit("/", 1)[-1] if words else ""
    if any(command.open):
        return None
    if name in {"echo", "printf"}:
        said = [word for word in words[1:] if not re.fullmatch(r"-[neE]+|--", word)]
        return " ".join(said).replace("\\n", "\n")
    return command.stdin if name == "cat" and len(words) == 1 else None
