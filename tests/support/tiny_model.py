"""A tiny target model on disk as Hugging Face keeps one: weights, configuration, tokenizer.

The tokenizer is byte-level without merges, so that it needs no training and reads any text.
"""

import json
from dataclasses import replace
from pathlib import Path

from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from trainer.config import RandomTarget
from trainer.qwen3 import Qwen3, random_model, save

END, START, MASK = "<|im_end|>", "<|im_start|>", "<|mask|>"
TEMPLATE = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n'"
    " + message['content'] + '<|im_end|>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
SHAPE = RandomTarget(vocab_size=264, hidden_size=32, intermediate_size=48, num_hidden_layers=4)


def write_tokenizer(directory: Path, *, template: str = TEMPLATE) -> None:
    """``tokenizer.json`` and its configuration."""
    symbols = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {symbol: index for index, symbol in enumerate(symbols)}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([START, END, MASK])
    directory.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(directory / "tokenizer.json"))
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "eos_token": END,
        "chat_template": template,
        "clean_up_tokenization_spaces": False,
    }
    (directory / "tokenizer_config.json").write_text(json.dumps(settings), encoding="utf-8")


def write_model(directory: Path, *, seed: int = 0, template: str = TEMPLATE) -> Qwen3:
    """A whole model directory; gives the model that is in it."""
    model = random_model(replace(SHAPE, seed=seed))
    save(model, directory)
    write_tokenizer(directory, template=template)
    return model
