"""A tiny target model that has learned the synthetic language, and its own answers in it.

Both are made by plain torch, seeded, in seconds: a language model trained on documents, then
greedy continuations of held-out beginnings.
"""

import json
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional

from trainer.config import RandomTarget
from trainer.qwen3 import Cache, Qwen3, random_model, save
from trainer.synthetic import synthetic_corpus

SHAPE = RandomTarget(
    vocab_size=64, hidden_size=64, intermediate_size=128, num_hidden_layers=4, num_attention_heads=4
)
_DOCUMENTS, _LENGTH, _BATCH = 256, 48, 16


def fit_target(directory: Path, *, steps: int = 250, seed: int = 0) -> Qwen3:
    """Train a target model on the language and write it to ``directory``."""
    model = random_model(SHAPE)
    with torch.no_grad():
        model.model.embed_tokens.weight.mul_(0.3)
    corpus = synthetic_corpus(
        vocab_size=SHAPE.vocab_size, documents=_DOCUMENTS, length=_LENGTH, seed=seed
    )
    documents = corpus.ids.long().view(_DOCUMENTS, _LENGTH)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.0)
    draw = torch.Generator().manual_seed(seed)
    for step in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = 3e-3 * min(1.0, (steps - step) / (0.5 * steps))
        batch = documents[torch.randint(_DOCUMENTS, (_BATCH,), generator=draw)]
        logits = model(batch)[:, :-1]
        loss = functional.cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]  # torch ships it without types
        optimizer.step()
    save(model.eval(), directory)
    return model


@torch.no_grad()
def continue_greedily(model: Qwen3, prompts_BM: Tensor, new_tokens: int) -> Tensor:
    """The model's own continuation of prompts of one length: ``(B, new_tokens)``."""
    cache = Cache()
    logits = model(prompts_BM, cache)[:, -1]
    chosen = [logits.argmax(-1)]
    while len(chosen) < new_tokens:
        chosen.append(model(chosen[-1][:, None], cache)[:, -1].argmax(-1))
    return torch.stack(chosen, dim=1)


def write_answers(
    model: Qwen3, path: Path, *, documents: int, prompt: int, answer: int, seed: int = 0
) -> None:
    """JSON Lines of token ids: beginnings that the target never saw, and its answers."""
    corpus = synthetic_corpus(
        vocab_size=SHAPE.vocab_size,
        documents=documents,
        length=prompt,
        seed=seed,
        first=_DOCUMENTS,
    )
    prompts = corpus.ids.long().view(documents, prompt)
    answers = continue_greedily(model, prompts, answer)
    lines = [
        {
            "input_ids": [*asked, *said],
            "loss_mask": [0] * prompt + [1] * answer,
            "domain": corpus[number].domain,
        }
        for number, (asked, said) in enumerate(zip(prompts.tolist(), answers.tolist(), strict=True))
    ]
    path.write_text("\n".join(map(json.dumps, lines)) + "\n", encoding="utf-8")
