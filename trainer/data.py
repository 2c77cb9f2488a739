"""From conversations in JSON Lines to a prepared directory that training reads.

A line is ``{"messages": [{"role", "content"}, …]}`` or ``{"input_ids": […], "loss_mask": […]}``,
with an optional ``"domain"`` (else the file's name). Only answers are supervised: each assistant
turn from where generation begins to its end-of-turn token. The directory holds
``corpus.safetensors`` and ``manifest.json`` with digests of all that went in. Shares are
``trainer.stats``'.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from trainer.chat import ChatFormat, Message
from trainer.corpus import Corpus
from trainer.errors import DataError
from trainer.files import canonical, sha256_of, write_whole
from trainer.reading import Json

CORPUS, MANIFEST = "corpus.safetensors", "manifest.json"
SCHEMA = 1
_SHARE_BITS = 32


@dataclass(frozen=True)
class Sample:
    """One document before it is stored."""

    ids: tuple[int, ...]
    supervised: tuple[bool, ...]
    domain: str


@dataclass
class _Gathered:
    ids: list[int] = field(default_factory=list)
    supervised: list[bool] = field(default_factory=list)
    offsets: list[int] = field(default_factory=lambda: [0])
    domain_of: list[int] = field(default_factory=list)
    domains: dict[str, int] = field(default_factory=dict)
    seen: set[bytes] = field(default_factory=set)
    dropped: Counter[str] = field(default_factory=Counter)
    shortened: int = 0

    def add(self, sample: Sample, max_length: int) -> None:
        """Take a sample in, or count why not."""
        ids, supervised = sample.ids[:max_length], sample.supervised[:max_length]
        digest = hashlib.sha256(repr(ids).encode()).digest()
        if not any(supervised):
            self.dropped["no answer within max_length"] += 1
        elif digest in self.seen:
            self.dropped["duplicate"] += 1
        else:
            self.seen.add(digest)
            self.shortened += len(ids) < len(sample.ids)
            self.ids += ids
            self.supervised += supervised
            self.offsets.append(len(self.ids))
            self.domain_of.append(self.domains.setdefault(sample.domain, len(self.domains)))

    def corpus(self) -> Corpus:
        """All of it, in order."""
        return Corpus(
            ids=torch.tensor(self.ids, dtype=torch.int32),
            supervised=torch.tensor(self.supervised, dtype=torch.bool),
            offsets=torch.tensor(self.offsets),
            domains=tuple(self.domains),
            domain_of=torch.tensor(self.domain_of),
        )


def prepare(
    sources: Sequence[Path],
    chat: ChatFormat | None,
    destination: Path,
    *,
    max_length: int,
    template_options: Mapping[str, Json],
) -> dict[str, Json]:
    """Tokenise ``sources`` into ``destination`` and give the manifest.

    Args:
        sources: JSON Lines files, read in this order.
        chat: The target model's tokenizer; None when all lines hold token ids.
        destination: Made when missing; an earlier corpus in it is replaced.
        max_length: Most tokens of a document; the rest of it is cut off.
        template_options: What the chat template was given, for the manifest.

    Raises:
        DataError: a line cannot be used; names file, line and remedy.
    """
    gathered = _Gathered()
    for source in sources:
        for sample in read_samples(source, chat):
            gathered.add(sample, max_length)
    corpus = gathered.corpus()
    if not len(corpus):
        raise DataError(f"{sources[0]}: no document is left; dropped {dict(gathered.dropped)}")
    destination.mkdir(parents=True, exist_ok=True)
    _store(corpus, destination / CORPUS)
    manifest: dict[str, Json] = {
        "schema": SCHEMA,
        "sources": [{"name": each.name, "sha256": sha256_of(each)} for each in sources],
        "chat_format": None if chat is None else chat.digest,
        "template_options": dict(template_options),
        "stop_ids": [*sorted(chat.eos_ids)] if chat is not None else [],
        "max_length": max_length,
        "documents": len(corpus),
        "tokens": len(corpus.ids),
        "supervised_tokens": int(corpus.supervised.sum()),
        "shortened": gathered.shortened,
        "dropped": dict(gathered.dropped),
        "corpus": corpus.digest,
        "files": {CORPUS: sha256_of(destination / CORPUS)},
    }
    write_whole(destination / MANIFEST, json.dumps(manifest, indent=1).encode() + b"\n")
    return manifest


def load_prepared(directory: Path) -> tuple[Corpus, dict[str, Json]]:
    """The corpus of a prepared directory, its digest proved, and the manifest.

    Raises:
        DataError: a file is missing, damaged, or of another schema.
    """
    try:
        manifest = json.loads((directory / MANIFEST).read_bytes())
        if manifest["schema"] != SCHEMA:
            raise DataError(f"{directory}: schema {manifest['schema']} is not {SCHEMA}")
        if sha256_of(directory / CORPUS) != manifest["files"][CORPUS]:
            raise DataError(f"{directory / CORPUS}: damaged, its SHA-256 is not the manifest's")
        with safe_open(directory / CORPUS, framework="pt") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - no mapping
            domains = json.loads(file.metadata()["domains"])
    except (OSError, KeyError, json.JSONDecodeError, SafetensorError) as error:
        raise DataError(
            f"{directory}: no prepared data ({error!r}); make it with 'trainer data prepare'"
        ) from error
    return Corpus(domains=tuple(domains), **tensors), manifest


def split(corpus: Corpus, evaluation_share: float) -> tuple[Corpus, Corpus]:
    """Training and held-out documents.

    A document's prompt alone decides, so no prompt stands on both sides, and adding data moves
    no document from one side to the other.
    """
    limit = int(evaluation_share * 2**_SHARE_BITS)
    training: list[int] = []
    held_out: list[int] = []
    for index in range(len(corpus)):
        document = corpus[index]
        prompt = document.ids[: document.prompt_length]
        digest = hashlib.sha256(prompt.numpy().tobytes()).digest()
        drawn = int.from_bytes(digest[: _SHARE_BITS // 8], "big")
        (held_out if drawn < limit else training).append(index)
    return corpus.select(training), corpus.select(held_out)


def read_samples(path: Path, chat: ChatFormat | None) -> Iterator[Sample]:
    """The documents of one JSON Lines file.

    Raises:
        DataError: names file, line number, and what was expected.
    """
    try:
        with path.open(encoding="utf-8") as file:
            for number, line in enumerate(file, start=1):
                if line.strip():
                    yield from _samples(line, f"{path}:{number}", path.stem, chat)
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: cannot be read ({error})") from error


def _samples(line: str, where: str, stem: str, chat: ChatFormat | None) -> Iterator[Sample]:
    try:
        record = json.loads(line)
    except json.JSONDecodeError as error:
        raise DataError(f"{where}: not JSON ({error})") from error
    if not isinstance(record, dict):
        raise DataError(f"{where}: expected an object with 'messages' or 'input_ids'")
    domain = str(record.get("domain", stem))
    if "input_ids" in record:
        yield _from_ids(record, where, domain)
    elif chat is None:
        raise DataError(f"{where}: has messages, which need the target model's tokenizer")
    else:
        yield from supervise_answers(_messages(record, where), chat, domain, where)


def _from_ids(record: Mapping[str, Json], where: str, domain: str) -> Sample:
    ids, mask = record.get("input_ids"), record.get("loss_mask")
    if not isinstance(ids, list) or not isinstance(mask, list) or len(ids) != len(mask):
        raise DataError(f"{where}: expected 'input_ids' and 'loss_mask', lists of one length")
    if not all(isinstance(item, int) for item in (*ids, *mask)):
        raise DataError(f"{where}: 'input_ids' and 'loss_mask' hold integers only")
    return Sample(tuple(map(int, ids)), tuple(map(bool, mask)), domain)  # type: ignore[arg-type]  # checked above


def _messages(record: Mapping[str, Json], where: str) -> tuple[Message, ...]:
    turns = record.get("messages")
    if not isinstance(turns, list) or not turns:
        raise DataError(f"{where}: expected 'messages', a list of turns")
    messages: list[Message] = []
    for turn in turns:
        role = turn.get("role") if isinstance(turn, dict) else None
        content = turn.get("content") if isinstance(turn, dict) else None
        if not isinstance(role, str) or not isinstance(content, str):
            raise DataError(f"{where}: a turn needs 'role' and 'content', both text")
        messages.append(Message(role, content))
    return tuple(messages)


def supervise_answers(
    messages: Sequence[Message], chat: ChatFormat, domain: str, where: str
) -> Iterator[Sample]:
    """One sample with every answer supervised, where the template allows; else one an answer.

    A template that rewrites earlier turns (dropping their thoughts, say) renders a conversation
    that no serving round ever saw; then each answer is a sample with the turns before it.

    Raises:
        DataError: even a single answer's rendering does not begin with its own prompt.
    """
    answers = [index for index, message in enumerate(messages) if message.role == "assistant"]
    if not answers:
        return
    last = answers[-1] + 1
    text = chat.render(messages[:last], opens_answer=False)
    spans = _answer_spans(messages, answers, text, chat)
    if spans is not None:
        yield _sample(text, spans, chat, domain)
        return
    for index in answers:
        text = chat.render(messages[: index + 1], opens_answer=False)
        spans = _answer_spans(messages, [index], text, chat)
        if spans is None:
            raise DataError(
                f"{where}: the chat template's answer does not begin where its prompt ends;"
                " render the conversations yourself and give input_ids with loss_mask"
            )
        yield _sample(text, spans, chat, domain)


def _answer_spans(
    messages: Sequence[Message], answers: Sequence[int], text: str, chat: ChatFormat
) -> list[tuple[int, int]] | None:
    """Characters of each answer in ``text``, or None when a rendering is not a prefix of it."""
    spans: list[tuple[int, int]] = []
    for index in answers:
        prompt = chat.render(messages[:index], opens_answer=True)
        turn = chat.render(messages[: index + 1], opens_answer=False)
        if not (text.startswith(turn) and turn.startswith(prompt)):
            return None
        spans.append((len(prompt), len(turn)))
    return spans


def _sample(text: str, spans: Sequence[tuple[int, int]], chat: ChatFormat, domain: str) -> Sample:
    encoded = chat.encode(text)
    supervised = [False] * len(encoded.ids)
    for first, last in spans:
        inside = [
            place
            for place, (start, stop) in enumerate(encoded.spans)
            if first <= start and stop <= last and stop > start
        ]
        # The template may put a newline after the turn; the model ends at its end-of-turn token.
        ends = [place for place in inside if encoded.ids[place] in chat.eos_ids]
        for place in inside:
            supervised[place] = not ends or place <= ends[-1]
    return Sample(encoded.ids, tuple(supervised), domain)


def _store(corpus: Corpus, path: Path) -> None:
    tensors = {
        "ids": corpus.ids,
        "supervised": corpus.supervised,
        "offsets": corpus.offsets,
        "domain_of": corpus.domain_of,
    }
    beside = path.with_name(f".{path.name}.tmp")
    save_file(tensors, beside, metadata={"domains": canonical(list(corpus.domains)).decode()})
    beside.replace(path)
