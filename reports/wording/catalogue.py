"""The sentence catalogue: one template for each predicate, strictly run.

Here: loading, overriding and checking templates, and turning a claim into spans of text. A
template can print cited values only; its own words hold no digit, no quotation mark and no strong
word. Not here: pages (``reports.render``).
"""

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from typing import Any, Literal

from jinja2 import StrictUndefined, Template, nodes
from jinja2.exceptions import TemplateError
from jinja2.sandbox import SandboxedEnvironment
from pydantic import BaseModel, ConfigDict, JsonValue

from reports.claims import Claim, ClaimError
from reports.wording.cited import FILTERS, Cited
from reports.wording.lexicon import STRONG_WORDS

_OPEN, _SEP, _CLOSE = "\x02", "\x1f", "\x03"
_SPAN = re.compile(f"{_OPEN}([a-z]+){_SEP}([^{_CLOSE}]*){_CLOSE}")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
_SPACE = re.compile(r"\s+")
_DIGIT = re.compile(r"\d")
_QUOTATION = re.compile('["`\u00ab\u00bb\u2018\u201c\u201d\u201e\u2039\u203a]')
_WORD = re.compile(r"[a-z][a-z'-]*")


class WordingError(ValueError):
    """A template breaks the rules; the text names the template and the remedy."""


class Span(BaseModel):
    """A piece of a sentence: static ``text``, or a cited ``value``, ``code`` or ``quote``."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    style: Literal["text", "value", "code", "quote"]
    text: str


@dataclass(frozen=True, slots=True)
class Catalogue:
    """Words for headings and templates for claims, in one language."""

    language: str
    sentences: Mapping[str, str]
    unknowns: Mapping[str, str]
    rows: Mapping[str, tuple[str, ...]]
    columns: Mapping[str, tuple[str, ...]]
    titles: Mapping[str, str]
    labels: Mapping[str, str]

    def sentence(self, claim: Claim) -> tuple[Span, ...]:
        """The claim as a sentence; an UNKNOWN one by its own template.

        Raises:
            WordingError: No template, or one that prints what the claim does not hold.
        """
        table = self.unknowns if claim.kind == "UNKNOWN" else self.sentences
        source = table.get(claim.predicate)
        if source is None:
            source = self.unknowns["default"] if claim.kind == "UNKNOWN" else None
        if source is None:
            raise WordingError(f"no sentence for {claim.predicate!r}; add it to the catalogue")
        spans = run(source, claim)
        if claim.alternatives:
            spans += run(self.labels["alternatives"], claim)
        return spans

    def row(self, claim: Claim) -> tuple[tuple[Span, ...], ...]:
        """The claim as cells of a table row."""
        return tuple(run(source, claim) for source in self.rows[claim.predicate])

    def templates(self) -> Iterator[tuple[str, str]]:
        """Every template with the name under which an override replaces it."""
        yield from ((f"sentence.{name}", source) for name, source in self.sentences.items())
        yield from ((f"unknown.{name}", source) for name, source in self.unknowns.items())
        for name, cells in self.rows.items():
            yield from ((f"row.{name}.{place}", cell) for place, cell in enumerate(cells))


@lru_cache(maxsize=8)
def load(*overrides: str, language: str = "en") -> Catalogue:
    """The packaged catalogue, entries replaced one by one by the TOML texts given.

    Raises:
        WordingError: An override is no TOML, or a template in it breaks the rules.
    """
    packaged = files("reports.wording").joinpath(f"{language}.toml").read_text("utf-8")
    tables: dict[str, dict[str, Any]] = {}
    for text in (packaged, *overrides):
        try:
            parsed = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise WordingError(f"the catalogue is not TOML: {error}") from error
        for name, entries in parsed.items():
            tables.setdefault(name, {}).update(entries)
    catalogue = Catalogue(
        language=language,
        sentences=tables["sentence"],
        unknowns=tables["unknown"],
        rows={name: tuple(cells) for name, cells in tables["row"].items()},
        columns={name: tuple(heads) for name, heads in tables["column"].items()},
        titles=tables["title"],
        labels=tables["label"],
    )
    problems = [
        problem for name, source in catalogue.templates() for problem in faults(name, source)
    ]
    if problems:
        raise WordingError("; ".join(problems))
    return catalogue


def faults(name: str, source: str) -> list[str]:
    """What is wrong with a template's own words; empty when nothing is."""
    try:
        tree = environment().parse(source)
    except TemplateError as error:
        return [f"{name}: {error}"]
    texts = [node.data for node in tree.find_all(nodes.TemplateData)]
    for call in tree.find_all(nodes.Filter):
        texts += [
            str(argument.value) for argument in call.args if isinstance(argument, nodes.Const)
        ]
    found = []
    for text in texts:
        if _DIGIT.search(text):
            found.append(f"{name}: static text holds a digit: {text.strip()!r}")
        if _QUOTATION.search(text):
            found.append(f"{name}: static text holds a quotation mark: {text.strip()!r}")
        strong = sorted(set(_WORD.findall(text.lower())) & STRONG_WORDS)
        if strong:
            found.append(f"{name}: static text holds a strong word: {', '.join(strong)}")
    return found


def environment() -> SandboxedEnvironment:
    """A sandbox in which only cited values can be printed."""
    made = SandboxedEnvironment(undefined=StrictUndefined, finalize=_finalize, autoescape=False)
    made.filters = {**FILTERS, "named": _named}
    made.globals = {}
    made.tests["known"] = _known
    return made


def _known(value: object) -> bool:
    """Whether a claim holds this value at all."""
    return isinstance(value, Cited) and value.cited_raw is not None


def _named(value: Cited) -> Cited:
    """A recorded short name with what it stands for, in the packaged language."""
    meaning = _names().get(value.printed)
    shown = value.printed.replace("_", " ")
    return Cited(value.cited_raw, f"{shown} ({meaning})" if meaning else shown)


@lru_cache(maxsize=1)
def _names() -> Mapping[str, str]:
    """Meanings of short names, from the packaged catalogue."""
    packaged = files("reports.wording").joinpath("en.toml").read_text("utf-8")
    names: dict[str, str] = tomllib.loads(packaged)["name"]
    return names


def _finalize(value: object) -> str:
    """Refuse everything that no claim stands behind."""
    if not isinstance(value, Cited):
        raise ClaimError(f"a template may print cited values only, not {value!r}")
    clean = _CONTROL.sub("\N{REPLACEMENT CHARACTER}", value.printed)
    text = clean if value.cited_style == "quote" else _SPACE.sub(" ", clean)
    return f"{_OPEN}{value.cited_style}{_SEP}{text}{_CLOSE}"


def run(source: str, claim: Claim) -> tuple[Span, ...]:
    """Run one template on a claim."""
    names: dict[str, JsonValue] = {
        "value": claim.value,
        "args": claim.args,
        "alternatives": list(claim.alternatives),
    }
    try:
        text = _compiled(source).render({name: Cited(value) for name, value in names.items()})
    except (TemplateError, ValueError, TypeError) as error:
        raise WordingError(f"the template of {claim.predicate!r} fails: {error}") from error
    return tuple(_spans(text))


@lru_cache(maxsize=512)
def _compiled(source: str) -> Template:
    """The template, compiled once: a report runs the same few hundreds of times."""
    return environment().from_string(source)


def _spans(text: str) -> Iterator[Span]:
    place = 0
    for match in _SPAN.finditer(text):
        static = _SPACE.sub(" ", text[place : match.start()])
        if static:
            yield Span(style="text", text=static)
        yield Span.model_validate({"style": match[1], "text": match[2]})
        place = match.end()
    static = _SPACE.sub(" ", text[place:])
    if static.strip():
        yield Span(style="text", text=static.rstrip() if static != " " else static)
