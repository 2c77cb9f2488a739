"""Conversations become supervised tokens; a prepared directory proves what it holds."""

import json
from pathlib import Path

import pytest
import torch

from tests.support.tiny_model import END, TEMPLATE, write_tokenizer
from trainer.chat import HuggingFaceFormat, Message, load_format
from trainer.config import SafetensorsTarget
from trainer.corpus import Corpus
from trainer.data import (
    Sample,
    load_prepared,
    prepare,
    read_samples,
    split,
    supervise_answers,
)
from trainer.errors import DataError
from trainer.stats import corpus_stats

TALK = (
    Message("system", "Be brief."),
    Message("user", "Hi"),
    Message("assistant", "Hello é!"),
    Message("user", "Bye"),
    Message("assistant", "Ciao"),
)
# Like templates of thinking models: an answer before the last question loses its thoughts.
FORGETFUL = TEMPLATE.replace(
    "message['content']", "(message['content'] if message['role'] == 'user' or loop.last else '…')"
)


@pytest.fixture(scope="module")
def chat(tmp_path_factory: pytest.TempPathFactory) -> HuggingFaceFormat:
    directory = tmp_path_factory.mktemp("tokenizer")
    write_tokenizer(directory)
    return load_format(SafetensorsTarget(str(directory)), {})


def _supervised_text(sample: Sample, chat: HuggingFaceFormat) -> str:
    pairs = zip(sample.ids, sample.supervised, strict=True)
    return chat.decode([token for token, supervised in pairs if supervised])


def test_only_answers_and_their_end_of_turn_are_supervised(chat: HuggingFaceFormat) -> None:
    (sample,) = supervise_answers(TALK, chat, "talk", "here")
    assert _supervised_text(sample, chat) == f"Hello é!{END}Ciao{END}"
    assert chat.decode(sample.ids) == chat.render(TALK, opens_answer=False)


def test_a_template_that_rewrites_turns_gives_one_sample_an_answer(tmp_path: Path) -> None:
    write_tokenizer(tmp_path, template=FORGETFUL)
    chat = load_format(SafetensorsTarget(str(tmp_path)), {})
    samples = list(supervise_answers(TALK, chat, "talk", "here"))
    assert [_supervised_text(each, chat) for each in samples] == [f"Hello é!{END}", f"Ciao{END}"]


def test_a_template_whose_answer_does_not_begin_at_its_prompt_is_refused(tmp_path: Path) -> None:
    write_tokenizer(
        tmp_path, template=TEMPLATE.replace("assistant\n' }}{% endif", "model' }}{% endif")
    )
    chat = load_format(SafetensorsTarget(str(tmp_path)), {})
    with pytest.raises(DataError, match=r"^here: the chat template's answer does not begin"):
        list(supervise_answers(TALK, chat, "talk", "here"))


def test_prepared_data_reads_back_with_its_domains_and_counts(
    tmp_path: Path, chat: HuggingFaceFormat
) -> None:
    lines = [
        {"messages": [{"role": each.role, "content": each.content} for each in TALK]},
        {"input_ids": [1, 2, 3, 4], "loss_mask": [0, 0, 1, 1], "domain": "code"},
        {"input_ids": [1, 2, 3, 4], "loss_mask": [0, 0, 1, 1], "domain": "code"},
        {"input_ids": [1] * 300 + [2], "loss_mask": [0] * 300 + [1], "domain": "code"},
        {"messages": [{"role": "user", "content": "nobody answers"}]},
    ]
    source = tmp_path / "talk.jsonl"
    source.write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    made = prepare([source], chat, tmp_path / "data", max_length=256, template_options={})
    corpus, manifest = load_prepared(tmp_path / "data")
    assert manifest == made
    assert (manifest["documents"], corpus.domains) == (2, ("talk", "code"))
    assert manifest["dropped"] == {"duplicate": 1, "no answer within max_length": 1}
    assert manifest["chat_format"] == chat.digest
    assert corpus[1].ids.tolist() == [1, 2, 3, 4]
    assert corpus[1].prompt_length == 2
    assert corpus.digest == manifest["corpus"]


def test_one_changed_byte_of_prepared_data_is_found(tmp_path: Path) -> None:
    source = tmp_path / "ids.jsonl"
    source.write_text('{"input_ids": [5, 6, 7], "loss_mask": [0, 1, 1]}\n', encoding="utf-8")
    prepare([source], None, tmp_path / "data", max_length=8, template_options={})
    stored = tmp_path / "data" / "corpus.safetensors"
    content = bytearray(stored.read_bytes())
    content[-1] ^= 1
    stored.write_bytes(content)
    with pytest.raises(DataError, match=r"damaged, its SHA-256"):
        load_prepared(tmp_path / "data")


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("{", r"bad.jsonl:2: not JSON"),
        ("[]", r"bad.jsonl:2: expected an object"),
        ('{"messages": 3}', r"bad.jsonl:2: expected 'messages', a list"),
        ('{"messages": [{"role": "user"}]}', r"bad.jsonl:2: a turn needs"),
        ('{"input_ids": [1], "loss_mask": []}', r"bad.jsonl:2: expected .* one length"),
        ('{"input_ids": ["a"], "loss_mask": [1]}', r"bad.jsonl:2: .* integers only"),
    ],
)
def test_a_bad_line_is_named(
    tmp_path: Path, chat: HuggingFaceFormat, line: str, complaint: str
) -> None:
    source = tmp_path / "bad.jsonl"
    source.write_text('{"input_ids": [1, 2], "loss_mask": [0, 1]}\n' + line, encoding="utf-8")
    with pytest.raises(DataError, match=complaint):
        list(read_samples(source, chat))


def _corpus(prompts: list[list[int]], domains: list[int]) -> Corpus:
    return Corpus(
        ids=torch.tensor([token for prompt in prompts for token in [*prompt, 9, 9]]),
        supervised=torch.tensor(
            [flag for one in prompts for flag in [*[False] * len(one), True, True]]
        ),
        offsets=torch.tensor([0, *(len(one) + 2 for one in prompts)]).cumsum(0),
        domains=("code", "prose"),
        domain_of=torch.tensor(domains),
    )


def test_no_prompt_is_both_trained_on_and_held_out() -> None:
    prompts = [[number % 40, 1] for number in range(200)]
    training, held_out = split(_corpus(prompts, [0] * 200), 0.25)
    sides = [
        {tuple(side[i].ids.tolist()) for i in range(len(side))} for side in (training, held_out)
    ]
    assert len(training) + len(held_out) == 200
    assert not sides[0] & sides[1]
    assert 0.1 < len(sides[1]) / 40 < 0.4


def test_more_data_moves_no_document_to_the_other_side() -> None:
    prompts = [[number, 1] for number in range(100)]
    few = split(_corpus(prompts[:50], [0] * 50), 0.25)[1]
    many = split(_corpus(prompts, [0] * 100), 0.25)[1]
    held = [{tuple(side[i].ids.tolist()) for i in range(len(side))} for side in (few, many)]
    assert held[0] <= held[1]


def test_a_domain_that_dominates_raises_the_alarm() -> None:
    """77 of 100 documents are code, as in the run that taught this."""
    stats = corpus_stats(_corpus([[1]] * 100, [0] * 77 + [1] * 23))
    assert [(each.domain, each.share) for each in stats.domains] == [
        ("code", 0.77),
        ("prose", 0.23),
    ]
    (alarm,) = stats.alarms
    assert alarm.startswith("domain 'code' holds 77% of the supervised tokens, above 60%")


def test_an_even_mixture_raises_none() -> None:
    stats = corpus_stats(_corpus([[1]] * 100, [0] * 50 + [1] * 50))
    assert (stats.alarms, stats.supervised_tokens, stats.tokens) == ((), 200, 300)
