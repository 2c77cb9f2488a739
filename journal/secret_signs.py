"""Whether a text could hold a secret at all: one linear pass before the rules are asked. Pure.

Most texts hold none, and this is on the way of every append. The look is one regular expression of
pydantic's own engine (the Rust crate ``regex``: an automaton, no backtracking), which strikes
wherever any rule of ``journal.redaction`` could, and sometimes where none does. False is certain.
Not here: the rules, and what is put in a secret's place.
"""

from functools import cache
from typing import Annotated

from pydantic import StringConstraints, TypeAdapter

_WORD = "[A-Za-z0-9+_-]"
_WORD_NO_CAPITAL = "[a-z0-9+_-]"
_DENSE_LETTERS = 40
# What must stand in a text for the rule by names, flags, assignments, headers, URLs to strike. The
# text may be JSON, where a name ends in a quote and white space may be escaped.
_NAMED = (
    "passw", "passphrase", "secret", "credential", "authorization", 'token[="]',
    "(?:api|access|private)[_-]?key", "private key-", r"bearer[\s\\\x1c-\x1f]",
    r"basic[\s\\\x1c-\x1f]", "://",
)  # fmt: skip
# The token formats without their \b: in JSON an escaped line end puts a letter before them.
_FORMATS = (
    "(?:AKIA|ASIA)[0-9A-Z]{16}", "gh[pousr]_[A-Za-z0-9]{30}", "github_pat_[A-Za-z0-9_]{30}",
    "glpat-[A-Za-z0-9_-]{20}", "hf_[A-Za-z0-9]{30}", "sk-[A-Za-z0-9_-]{20}",
    "xox[abprs]-[A-Za-z0-9-]{10}", "AIza[0-9A-Za-z_-]{35}", "npm_[A-Za-z0-9]{36}",
    "pypi-[A-Za-z0-9_-]{32}", "eyJ[A-Za-z0-9_-]{8}",
)  # fmt: skip


# Where the rule for assignments could strike: all of its names, without what follows the sign.
_ASSIGNED = (
    "(?i:password|passwd|passphrase|secret(?:[_-]key)?|api[_-]?key|access[_-]?key|private[_-]?key|"
    r'credentials?|authorization|token)(?:=|"?[\s\x1c-\x1f]?:)'
)


def may_hold_secrets(text: bytes) -> bool:
    """Whether any rule could strike in this UTF-8 text, plain or inside JSON; False is certain.

    Bytes that are not UTF-8 are for the rules to look at.

    >>> may_hold_secrets(b'{"comm":"python"}'), may_hold_secrets(b'{"hf_token":"x"}')
    (False, True)
    """
    if _signs().validator.isinstance_python(text):
        return True
    return not (text.isascii() or _is_utf8(text))


def may_assign_secrets(text: str) -> bool:
    """Whether the rule for assignments could strike in this text; False is certain.

    The rule itself costs a hundred times as much, and the scripts that commands send are long.

    >>> may_assign_secrets("key = 1"), may_assign_secrets("api_key=1")
    (False, True)
    """
    if _assignments().validator.isinstance_python(text):
        return True
    return not (text.isascii() or _is_whole(text))


@cache
def _assignments() -> TypeAdapter[str]:
    return TypeAdapter(Annotated[str, StringConstraints(pattern=_ASSIGNED)])


@cache
def _signs() -> TypeAdapter[str]:
    """Compiled at first use: commands that only read need it not."""
    alternatives = "|".join((f"(?i:{'|'.join(_NAMED)})", *_FORMATS, _dense()))
    return TypeAdapter(Annotated[str, StringConstraints(pattern=alternatives)])


def _dense() -> str:
    """A word of 40 letters or more that has a capital: fewer, or none, are no dense secret.

    Spelt out by where the first capital stands, so that the automaton stays small.
    """
    last = _DENSE_LETTERS - 1
    by_place = [f"{_WORD_NO_CAPITAL}{{{at}}}[A-Z]{_WORD}{{{last - at}}}" for at in range(last)]
    by_place.append(f"{_WORD_NO_CAPITAL}{{{last},}}[A-Z]")
    return f"(?:^|[^A-Za-z0-9+_-])(?:{'|'.join(by_place)})"


def _is_utf8(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True


def _is_whole(text: str) -> bool:
    """Whether it has no lone surrogate, which the engine would not look at."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
