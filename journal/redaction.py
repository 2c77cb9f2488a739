"""Secrets taken out before anything is hashed or stored. Pure.

A secret is replaced by ``[redacted:RULE]``; the event counts how often each rule struck, and says
nothing of the secret's length. Rules: names of fields and of ``NAME=value`` assignments, argv
flags, userinfo in URLs, known token formats, private key blocks, and long strings of high entropy.
Not here: the quick look that spares most texts the rules (``journal.secret_signs``),
destroying an output that is stored already (``journal.blobs.shred``).
"""

import math
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple, get_args

from pydantic import BaseModel, JsonValue

from journal.blobs import Output
from journal.events import JsonObject, KeyRotated, Payload, Sealed, SegmentStarted, SessionStarted
from journal.lines import canonical, check, encoded
from journal.secret_signs import may_assign_secrets, may_hold_secrets

_NAMES = (
    r"(?:[A-Za-z0-9_-]*[_-])?"
    r"(?:password|passwd|passphrase|secret|api[_-]?key|apikey|access[_-]?key|private[_-]?key|"
    r"auth[_-]?token|access[_-]?token|refresh[_-]?token|session[_-]?token|bearer[_-]?token|"
    r"token|credentials?|authorization)"
)
_FIELD = re.compile(_NAMES, re.IGNORECASE)
_FLAG = re.compile(rf"--?{_NAMES}", re.IGNORECASE)
# A bare "token: x" is ordinary prose of parsers and trainers; with "=" it is an assignment, unless
# a count follows (max_token=512). What stands before the name does not matter, so nothing anchors
# the pattern on its left and it stays linear.
_ASSIGNMENT = re.compile(
    r"((?:password|passwd|passphrase|secret|api[_-]?key|access[_-]?key|private[_-]?key|secret[_-]key"
    r"|credentials?|authorization|token(?=[=](?![0-9]{1,9}\b)))=|"
    r"(?:password|passwd|passphrase|api[_-]?key|secret[_-]key|access[_-]key)\"?\s?:\s?\"?)"
    r"([^\s\"',;&]+)",
    re.IGNORECASE,
)
_HEADER = re.compile(r"\b((?:Bearer|Basic)\s+)([A-Za-z0-9._~+/=-]{8,})")
_USERINFO = re.compile(r"\b([a-z][a-z0-9+.-]*://)([^/\s@\"'<>]+)@", re.IGNORECASE)
_PEM = re.compile(
    r"-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY-----.*?(?:-----END (?:[A-Z0-9]+ )*PRIVATE KEY-----|\Z)",
    re.DOTALL,
)
_FORMATS = re.compile(
    r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b"
    r"|\bgh[pousr]_[A-Za-z0-9]{30,}\b|\bgithub_pat_[A-Za-z0-9_]{30,}\b|\bglpat-[A-Za-z0-9_-]{20,}"
    r"|\bhf_[A-Za-z0-9]{30,}\b|\bsk-[A-Za-z0-9_-]{20,}|\bxox[abprs]-[A-Za-z0-9-]{10,}"
    r"|\bAIza[0-9A-Za-z_-]{35}|\bnpm_[A-Za-z0-9]{36}\b|\bpypi-[A-Za-z0-9_-]{32,}"
    r"|\beyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}"
)
# Digests are hex and carry at most 4 bits a letter; host key fingerprints follow "SHA256:".
_DENSE = re.compile(r"(?<![A-Za-z0-9+/_=:.-])[A-Za-z0-9+_-]{40,256}={0,2}(?![A-Za-z0-9+/_.-])")
_ENTROPY_BITS = 4.6
# Cheap looks that decide whether a slow rule is asked at all.
_NAME_PARTS = ("passw", "passphrase", "secret", "token=", "key", "credential", "authorization")
_PREFIXES = (
    "AKIA", "ASIA", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "glpat-", "hf_", "sk-",
    "xox", "AIza", "npm_", "pypi-", "eyJ",
)  # fmt: skip
_DENSE_LETTERS = 40
_SECRET_LETTERS = 8  # no rule needs less: a name, a sign and a value, or a URL with userinfo
# The journal's own facts hold public keys, digests and versions, and no words from outside.
_OWN = frozenset({KeyRotated, Sealed, SegmentStarted, SessionStarted})


class Clean(NamedTuple):
    """A payload fit to be stored.

    payload is what remains once the secrets are out, text its canonical JSON without its kind,
    struck how often each rule struck.
    """

    payload: Payload
    text: str
    struck: dict[str, int]


@dataclass(frozen=True, slots=True)
class Redactor:
    """The rules; ``enabled`` False stores everything as it is (tests of raw bytes)."""

    enabled: bool = True

    def payload(self, payload: Payload) -> Clean:
        """The payload with its secrets out.

        Raises:
            LineProfileError: The payload holds what a line cannot.
        """
        data = _fields_of(payload)
        check(data)
        text = encoded(data)
        if not self.enabled or type(payload) in _OWN or not may_hold_secrets(text):
            return Clean(payload, text.decode(), {})
        counts: Counter[str] = Counter()
        data = _dumped(payload)
        data = {name: _value(name, value, counts) for name, value in data.items()}
        if not counts:
            return Clean(payload, text.decode(), {})
        text = canonical(data)
        return Clean(type(payload).model_validate_json(text), text.decode(), dict(counts))

    def output(self, output: Output) -> tuple[Output, dict[str, int]]:
        """An output with its secrets out, and how often each rule struck.

        The bytes around a secret pass unchanged, also those that are not UTF-8.
        """
        if not self.enabled or not may_hold_secrets(output.kept):
            return output, {}
        counts: Counter[str] = Counter()
        text = output.kept.decode("utf-8", "surrogateescape")
        clean = text_without_secrets(text, counts)
        if not counts:
            return output, {}
        kept = clean.encode("utf-8", "surrogateescape")
        return Output(kept, output.length_bytes, output.truncated), dict(counts)


def text_without_secrets(text: str, counts: Counter[str]) -> str:
    """The text with each secret replaced; the rules that struck are counted.

    >>> found = Counter()
    >>> text_without_secrets("curl https://me:hunter2@host/x --token=abc", found)
    'curl https://[redacted:url]@host/x --token=[redacted:assignment]'
    >>> sorted(found.items())
    [('assignment', 1), ('url', 1)]
    """
    if len(text) < _SECRET_LETTERS:
        return text
    low = text.lower()
    if "private key-----" in low:
        text = _PEM.sub(_whole("private_key", counts), text)
    if "://" in text and "@" in text:
        text = _USERINFO.sub(_userinfo(counts), text)
    if "bearer " in low or "basic " in low:
        text = _HEADER.sub(_second("header", counts), text)
    if any(prefix in text for prefix in _PREFIXES):
        text = _FORMATS.sub(_whole("token_format", counts), text)
    if any(part in low for part in _NAME_PARTS) and may_assign_secrets(text):
        text = _ASSIGNMENT.sub(_second("assignment", counts), text)
    if len(text) >= _DENSE_LETTERS and _holds_dense(text):
        text = _DENSE.sub(_dense(counts), text)
    return text


def _holds_dense(text: str) -> bool:
    """Whether a dense secret could stand in it: only words between white space that are long."""
    return any(
        _DENSE.search(word) for word in [w for w in text.split() if len(w) >= _DENSE_LETTERS]
    )


def _fields_of(payload: Payload) -> JsonObject:
    """The payload's fields without its kind, for encoding; a list may be a tuple still.

    Where no model lies inside, its own dictionary holds all that ``model_dump`` would make anew.
    """
    fields = payload.__dict__
    for name in _models_in(type(payload)):
        if fields[name]:
            return _dumped(payload)
    plain = fields.copy()
    del plain["kind"]
    return plain


def _dumped(payload: Payload) -> JsonObject:
    data: JsonObject = payload.model_dump(mode="json")
    del data["kind"]
    return data


@cache
def _models_in(kind: type[Payload]) -> tuple[str, ...]:
    """The fields of a payload class that hold models."""
    return tuple(
        name for name, field in kind.model_fields.items() if _holds_model(field.annotation)
    )


def _holds_model(annotation: object) -> bool:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return True
    return any(map(_holds_model, get_args(annotation)))


def _value(name: str, value: JsonValue, counts: Counter[str]) -> JsonValue:
    if isinstance(value, str):
        if value and _FIELD.fullmatch(name):
            counts["field"] += 1
            return "[redacted:field]"
        return text_without_secrets(value, counts)
    if isinstance(value, dict):
        return {key: _value(key, inner, counts) for key, inner in value.items()}
    if isinstance(value, list):
        return _listed(name, value, counts)
    return value


def _listed(name: str, values: list[JsonValue], counts: Counter[str]) -> list[JsonValue]:
    """Lists may be argv: the word after a secret flag is a secret."""
    clean: list[JsonValue] = []
    after_flag = False
    for value in values:
        if after_flag and isinstance(value, str):
            counts["flag"] += 1
            clean.append("[redacted:flag]")
        else:
            clean.append(_value(name, value, counts))
        after_flag = isinstance(value, str) and _FLAG.fullmatch(value) is not None
    return clean


def _whole(rule: str, counts: Counter[str]) -> Callable[[re.Match[str]], str]:
    def replace(_: re.Match[str]) -> str:
        counts[rule] += 1
        return f"[redacted:{rule}]"

    return replace


def _second(rule: str, counts: Counter[str]) -> Callable[[re.Match[str]], str]:
    """Keep what names the secret, replace the secret, unless a rule before did."""

    def replace(match: re.Match[str]) -> str:
        if match[2].startswith("[redacted:"):
            return match[0]
        counts[rule] += 1
        return f"{match[1]}[redacted:{rule}]"

    return replace


def _userinfo(counts: Counter[str]) -> Callable[[re.Match[str]], str]:
    def replace(match: re.Match[str]) -> str:
        if ":" not in match[2]:  # ssh://user@host names a user, not a secret
            return match[0]
        counts["url"] += 1
        return f"{match[1]}[redacted:url]@"

    return replace


def _dense(counts: Counter[str]) -> Callable[[re.Match[str]], str]:
    def replace(match: re.Match[str]) -> str:
        word = match[0]
        shares = [count / len(word) for count in Counter(word).values()]
        entropy = -sum(share * math.log2(share) for share in shares)
        mixed = re.search(r"[a-z]", word) and re.search(r"[A-Z]", word) and re.search(r"\d", word)
        if not mixed or entropy < _ENTROPY_BITS:
            return word
        counts["entropy"] += 1
        return "[redacted:entropy]"

    return replace
