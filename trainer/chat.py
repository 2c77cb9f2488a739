"""A tokenizer with its chat template: conversations to text, and text to token ids with places.

What counts as an answer in a rendered conversation is ``trainer.data``'s. The digest names the
tokenizer and the template together, since a drafter trained under one serves badly under another.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from trainer.config import GgufTarget, RandomTarget, SafetensorsTarget
from trainer.errors import TargetError
from trainer.files import canonical
from trainer.loading import gguf_path
from trainer.reading import Json


@dataclass(frozen=True)
class Message:
    """One turn of a conversation; ``role`` is ``system``, ``user``, ``assistant`` or ``tool``."""

    role: str
    content: str


@dataclass(frozen=True)
class Encoded:
    """Token ids, and the half-open run of characters each came from."""

    ids: tuple[int, ...]
    spans: tuple[tuple[int, int], ...]


class ChatFormat(Protocol):
    """What :mod:`trainer.data` needs of a tokenizer."""

    eos_ids: frozenset[int]
    digest: str

    def render(self, messages: Sequence[Message], *, opens_answer: bool) -> str:
        """The conversation as text; ``opens_answer`` ends it where an answer would begin."""
        ...

    def encode(self, text: str) -> Encoded:
        """Tokens of a rendered text; no special token is added."""
        ...

    def decode(self, ids: Sequence[int]) -> str:
        """The text of some tokens."""
        ...


class HuggingFaceFormat:
    """A fast tokenizer of the ``transformers`` library, with the chat template it ships."""

    def __init__(self, tokenizer: Any, options: Mapping[str, Json]) -> None:  # noqa: ANN401 - untyped library
        self.tokenizer = tokenizer
        self.options = dict(options)
        self.eos_ids = frozenset({int(tokenizer.eos_token_id)})
        facts: Json = {
            "vocabulary": dict(sorted(tokenizer.get_vocab().items())),
            "template": tokenizer.chat_template,
            "options": self.options,
        }
        self.digest = hashlib.sha256(canonical(facts)).hexdigest()

    def render(self, messages: Sequence[Message], *, opens_answer: bool) -> str:
        """The conversation as text."""
        plain = [{"role": each.role, "content": each.content} for each in messages]
        return str(
            self.tokenizer.apply_chat_template(
                plain, tokenize=False, add_generation_prompt=opens_answer, **self.options
            )
        )

    def encode(self, text: str) -> Encoded:
        """Tokens of a rendered text."""
        found = self.tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
        return Encoded(tuple(found["input_ids"]), tuple(map(tuple, found["offset_mapping"])))

    def decode(self, ids: Sequence[int]) -> str:
        """The text of some tokens."""
        return str(self.tokenizer.decode(list(ids)))


def has_tokenizer(settings: RandomTarget | SafetensorsTarget | GgufTarget) -> bool:
    """Whether a tokenizer comes with the target model; a model of bare token ids has none."""
    if isinstance(settings, SafetensorsTarget):
        return (Path(settings.path) / "tokenizer_config.json").is_file()
    return isinstance(settings, GgufTarget)


def load_format(
    settings: RandomTarget | SafetensorsTarget | GgufTarget, options: Mapping[str, Json]
) -> HuggingFaceFormat:
    """The tokenizer that comes with a target model.

    Args:
        settings: The target model.
        options: Given to the template as they are, such as ``{"enable_thinking": False}``; they
            must be those of serving.

    Raises:
        TargetError: there is no tokenizer, no chat template, or no end-of-turn token.
    """
    from transformers import AutoTokenizer  # noqa: PLC0415 - a random target needs none

    if isinstance(settings, RandomTarget):
        raise TargetError("target.kind: a random target has no tokenizer; use synthetic data")
    directory, extra = Path(settings.path), {}
    if isinstance(settings, GgufTarget):
        file = gguf_path(settings.path)
        directory, extra = file.parent, {"gguf_file": file.name}
    try:
        tokenizer: Any = AutoTokenizer.from_pretrained(directory, local_files_only=True, **extra)
    except (OSError, ValueError, KeyError) as error:
        raise TargetError(f"{directory}: tokenizer cannot be loaded ({error})") from error
    if not tokenizer.is_fast:
        raise TargetError(f"{directory}: the tokenizer cannot tell where its tokens come from")
    if not tokenizer.chat_template:
        raise TargetError(f"{directory}: the tokenizer has no chat template")
    if tokenizer.eos_token_id is None:
        raise TargetError(f"{directory}: the tokenizer names no end-of-sequence token")
    return HuggingFaceFormat(tokenizer, options)
