"""Instructions made of text that ships with Python and its installed packages.

    python -m benchmarks.prompts OUT.jsonl [--count 60000] [--seed 0]

No download: functions and docstrings of the standard library, its reference manual
(``pydoc_data.topics``), descriptions of installed packages, tables of the standard library (HTTP
statuses, error numbers, time zones, characters), and sums. Each line is a conversation of one user
turn with its domain; no domain holds more than its share, lines are shuffled, none comes twice.
The model's answers are written by ``benchmarks.h200_acceptance regenerate``.
"""

import argparse
import ast
import email
import errno
import http
import json
import os
import random
import re
import sys
import sysconfig
import unicodedata
import zoneinfo
from collections.abc import Callable, Iterator
from importlib.metadata import distributions
from pathlib import Path
from pydoc_data.topics import topics

_LONGEST = 1200  # characters quoted in a prompt, some 300 tokens
_SHORTEST = 120
_NOT_CODE = {"test", "tests", "idlelib", "lib2to3", "site-packages", "__pycache__", "turtledemo"}


def main() -> int:
    """Write the prompts and say how many of each domain there are."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("output", type=Path)
    parser.add_argument("--count", type=int, default=60_000)
    parser.add_argument("--seed", type=int, default=0)
    chosen = parser.parse_args()
    prompts = make_prompts(chosen.count, chosen.seed)
    with chosen.output.open("w", encoding="utf-8") as file:
        for domain, text in prompts:
            turn = {"role": "user", "content": text}
            file.write(json.dumps({"messages": [turn], "domain": domain}) + "\n")
    counts: dict[str, int] = {}
    for domain, _ in prompts:
        counts[domain] = counts.get(domain, 0) + 1
    print(json.dumps({"prompts": len(prompts), "python": sys.version.split()[0], **counts}))
    return 0


def make_prompts(count: int, seed: int) -> list[tuple[str, str]]:
    """At most ``count`` pairs of domain and text, domains as equal as their supply allows."""
    draw = random.Random(seed)  # noqa: S311 - a seeded choice of texts, no secret
    made: dict[str, list[str]] = {}
    for domain, source in _DOMAINS.items():
        texts = list(dict.fromkeys(source(draw)))
        draw.shuffle(texts)
        made[domain] = texts
    chosen: list[tuple[str, str]] = []
    left = count
    # The poorest domain first: what it cannot give is shared among the others.
    for number, domain in enumerate(sorted(made, key=lambda each: len(made[each]))):
        share = left // (len(made) - number)
        taken = made[domain][:share]
        left -= len(taken)
        chosen += [(domain, text) for text in taken]
    draw.shuffle(chosen)
    return chosen


def _code(draw: random.Random) -> Iterator[str]:
    """Functions of the standard library, to explain, document, test, improve, or write anew."""
    asks = (
        "Explain what this Python function does:\n\n```python\n{code}\n```",
        "Write a docstring for this function:\n\n```python\n{code}\n```",
        "Write three unit tests for this function:\n\n```python\n{code}\n```",
        "Add type hints to this function:\n\n```python\n{code}\n```",
        "Can this code be made simpler? If so, show how.\n\n```python\n{code}\n```",
    )
    for name, docstring, code in _functions():
        if docstring:
            first = docstring.strip().splitlines()[0]
            yield f"Write a Python function named `{name}`. {first}"
        if _SHORTEST <= len(code) <= _LONGEST:
            yield draw.choice(asks).format(code=code)


def _manual(draw: random.Random) -> Iterator[str]:
    """Paragraphs of Python's reference manual, to restate, question, and exemplify."""
    asks = (
        "Explain the following in simple words:\n\n{text}",
        "Give an example that shows what this means:\n\n{text}",
        "Summarise in one sentence:\n\n{text}",
        "Write three questions that a student could be asked about this text:\n\n{text}",
        "Turn this into a list of short points:\n\n{text}",
        "Rewrite this text so that a child of ten understands it:\n\n{text}",
    )
    for text in topics.values():
        for paragraph in _paragraphs(text):
            for ask in draw.sample(asks, 3):
                yield ask.format(text=paragraph)


def _packages(draw: random.Random) -> Iterator[str]:
    """Descriptions of installed packages, to summarise, sell, and criticise."""
    asks = (
        "Summarise this text:\n\n{text}",
        "Write a short advertisement based on this text:\n\n{text}",
        "What questions does this text leave open?\n\n{text}",
        "Write an e-mail to a colleague that explains this:\n\n{text}",
        "Rewrite this text in a formal tone:\n\n{text}",
        "What are the advantages and disadvantages of what is described here?\n\n{text}",
    )
    for distribution in distributions():
        metadata = email.message_from_string(distribution.read_text("METADATA") or "")
        description = metadata.get_payload()
        if not isinstance(description, str):
            continue
        for paragraph in _paragraphs(description):
            for ask in draw.sample(asks, 3):
                yield ask.format(text=paragraph)


def _places(draw: random.Random) -> Iterator[str]:
    """Places that time zones are named after."""
    asks = (
        "Write a short story that takes place in {place}.",
        "What would you show a visitor who has one day in {place}?",
        "Write a letter home from someone who has just moved to {place}.",
        "Describe a morning in {place} in one paragraph.",
        "Plan a weekend in {place} for a family with two children.",
        "Write a dialogue between two friends who meet again in {place}.",
        "What should one know about the climate of {place}?",
        "Write a poem of eight lines about {place}.",
        "It is {hour} o'clock in {place}. Describe what people there are doing.",
        "Write the first paragraph of a detective story that is set in {place}.",
    )
    for zone in sorted(zoneinfo.available_timezones()):
        place = zone.rpartition("/")[2].replace("_", " ")
        if "/" not in zone or not place.replace(" ", "").isalpha() or place.isupper():
            continue
        for ask in asks:
            yield ask.format(place=place, hour=draw.randint(0, 23))


def _facts(draw: random.Random) -> Iterator[str]:
    """Tables of the standard library, asked for in words."""
    for status in http.HTTPStatus:
        yield f"What does the HTTP status {status.value} ({status.phrase}) mean?"
        yield f"A web server answers {status.value}. What should its operator look at first?"
    for number, name in errno.errorcode.items():
        yield f"What does the error {name} ({os.strerror(number)}) mean, and when does it occur?"
        yield f"A program stops with '{os.strerror(number)}'. How do I find the cause?"
    for code in range(0x21, 0x3000):
        name = unicodedata.name(chr(code), "")
        if name and draw.random() < 0.15:
            yield f"What is the character {chr(code)} ({name.lower()}) used for?"


def _sums(draw: random.Random) -> Iterator[str]:
    """Small problems of arithmetic, told as stories."""
    things = ("apples", "books", "tickets", "stamps", "bottles", "chairs", "coins", "pencils")
    people = ("Ada", "Bruno", "Chen", "Dalia", "Emeka", "Fatima", "Goran", "Hana", "Igor", "Jun")
    stories = (
        "{a} has {x} {thing}, gets {y} more and gives {z} away. How many are left? Explain.",
        "{x} {thing} cost {y} euros each. {a} pays with {m} euros. How much is the change?",
        "{a} and {b} share {m} {thing} so that {a} gets {z} more than {b}. How many does each get?",
        "A box holds {z} {thing}. How many boxes does {a} need for {m} {thing}? Explain.",
        "{a} reads {y} pages a day. How many days does {a} need for a book of {m} pages?",
        "What is {x} times {y}? Show the steps.",
        "{a} is {x} years old. {b} is {y} years older. How old will {b} be in {z} years?",
    )
    for _ in range(12_000):
        a, b = draw.sample(people, 2)
        yield draw.choice(stories).format(
            a=a, b=b, thing=draw.choice(things), x=draw.randint(2, 60), y=draw.randint(2, 40),
            z=draw.randint(2, 30), m=draw.randint(60, 900),
        )  # fmt: skip


def _words(draw: random.Random) -> Iterator[str]:
    """Ordinary words of all those texts, to define, rhyme with, and write about."""
    asks = (
        "Define the word '{word}' and use it in two sentences.",
        "Write a short poem in which the word '{word}' occurs.",
        "What is the opposite of '{word}'? Explain.",
        "Name five things that have to do with '{word}' and say why.",
        "Tell a story of about a hundred words in which '{word}' and '{other}' play a part.",
        "What do '{word}' and '{other}' have in common?",
    )
    text = " ".join(topics.values()).lower()
    words = sorted(set(re.findall(r"\b[a-z]{4,12}\b", text)))
    for word in words:
        for ask in draw.sample(asks, 4):
            yield ask.format(word=word, other=draw.choice(words))


_DOMAINS: dict[str, Callable[[random.Random], Iterator[str]]] = {
    "code": _code,
    "manual": _manual,
    "packages": _packages,
    "places": _places,
    "facts": _facts,
    "sums": _sums,
    "words": _words,
}


def _functions() -> Iterator[tuple[str, str | None, str]]:
    """Name, docstring and source of each public function of the standard library."""
    root = Path(sysconfig.get_paths()["stdlib"])
    for path in sorted(root.rglob("*.py")):
        if _NOT_CODE & set(path.relative_to(root).parts):
            continue
        try:
            source = path.read_text(encoding="utf-8")
            tree, lines = ast.parse(source), source.splitlines()
        except (SyntaxError, UnicodeDecodeError):
            continue  # files that are there to be wrong
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
                code = "\n".join(lines[node.lineno - 1 : node.end_lineno])
                yield node.name, ast.get_docstring(node), code


def _paragraphs(text: str) -> Iterator[str]:
    """Paragraphs of prose: long enough to ask about, and without tables, badges or code."""
    for block in re.split(r"\n\s*\n", text):
        flat = " ".join(block.split())
        letters = sum(character.isalpha() or character == " " for character in flat)
        if _SHORTEST <= len(flat) <= _LONGEST and letters > 0.85 * len(flat):
            yield flat


if __name__ == "__main__":
    raise SystemExit(main())
