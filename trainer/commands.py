"""What each command does: settings in, records out, an exit status.

Arguments are ``trainer.cli``'s, and all real work is in the modules named here.
"""

import argparse
import dataclasses
import json
from pathlib import Path

from trainer.chat import HuggingFaceFormat, Message, has_tokenizer, load_format
from trainer.config import EvaluationSettings, RandomTarget, RunConfig, read_config
from trainer.console import emit, reporter
from trainer.data import load_prepared
from trainer.data import prepare as prepare_data
from trainer.decode import Sampling
from trainer.errors import ConfigError, DataError
from trainer.evaluate import evaluate_run, held_out_prompts
from trainer.export import SpecialTokens, export_z_lab
from trainer.generate import Request
from trainer.generate import generate as generate_answers
from trainer.plan import GIB, make_plan, measure_device
from trainer.reading import Json, build, plain
from trainer.run import Opened, open_run
from trainer.stats import corpus_stats
from trainer.step import DTYPES
from trainer.train import train as train_run

ALARM = 5
FAULT = 3


def prepare(chosen: argparse.Namespace) -> int:
    """``data prepare``: conversations to a directory."""
    chat = None
    if chosen.config is not None:
        chat = load_format(read_config(chosen.config).target, chosen.template_options)
    manifest = prepare_data(
        chosen.sources,
        chat,
        chosen.output,
        max_length=chosen.max_length,
        template_options=chosen.template_options,
    )
    emit(manifest)
    return 0


def stats(chosen: argparse.Namespace) -> int:
    """``data stats``: one record a domain, then the whole; exit 5 with an alarm."""
    corpus, _ = load_prepared(chosen.directory)
    found = corpus_stats(corpus, dominance=chosen.dominance)
    for domain in found.domains:
        emit(_record(domain))
    emit({key: value for key, value in _record(found).items() if key != "domains"})
    return ALARM if found.alarms else 0


def preflight(chosen: argparse.Namespace) -> int:
    """``preflight``: one record a check, then the report's digest; exit 3 with a fault."""
    opened = open_run(read_config(chosen.config))
    report = opened.preflight()
    for check in report.checks:
        emit(_record(check))
    emit({
        "target": report.target, "faults": len(report.faults), "digest": report.digest,
        "kernels": opened.kernels(),
    })  # fmt: skip
    return FAULT if report.faults else 0


def train(chosen: argparse.Namespace) -> int:
    """``train``: exit 1 when the run failed."""
    config = read_config(chosen.config)
    result = train_run(config, report=reporter(chosen.log, config.steps))
    return 1 if result.status == "failed" else 0


def evaluate(chosen: argparse.Namespace) -> int:
    """``eval``: exit 5 when the proxy and real decoding part."""
    config = _with_decoding(read_config(chosen.config), chosen)
    opened = open_run(config)
    trainer, found = opened.trained(chosen.checkpoint)
    evaluation = evaluate_run(trainer, opened.data, config)
    emit({"checkpoint": str(found), **_record(evaluation)})
    return ALARM if evaluation.alarms else 0


def generate(chosen: argparse.Namespace) -> int:
    """``generate``: one record a prompt, or training samples into a file."""
    config = _with_decoding(read_config(chosen.config), chosen)
    opened = open_run(config)
    chat = _chat(opened)
    requests = _requests(chosen, opened, chat)
    drafter = None if chosen.plain else opened.trained(chosen.checkpoint)[0].drafter
    stop = opened.data.stop_ids if chat is None else chat.eos_ids
    answers = generate_answers(
        opened.target(),
        drafter,
        requests,
        new_tokens=config.evaluation.new_tokens,
        sampling=Sampling(config.evaluation.temperature, chosen.top_p, chosen.top_k),
        stop=stop,
        seed=chosen.seed,
    )
    if chosen.output is None:
        for answer in answers:
            text = None if chat is None else chat.decode(answer.tokens)
            emit({"text": text, **_record(answer)})
        return 0
    with chosen.output.open("w", encoding="utf-8") as file:
        for answer in answers:
            file.write(json.dumps(answer.as_sample()) + "\n")
    return 0


def export(chosen: argparse.Namespace) -> int:
    """``export``: the drafter of a checkpoint as others load it."""
    config = read_config(chosen.config)
    opened = open_run(config)
    trainer, found = opened.trained(chosen.checkpoint)
    tokens = SpecialTokens()
    chat = _chat(opened)
    if chat is not None:
        tokenizer = chat.tokenizer
        ids = (tokenizer.bos_token_id, tokenizer.eos_token_id, tokenizer.pad_token_id)
        tokens = SpecialTokens(*ids)
    export_z_lab(trainer.drafter, chosen.output, tokens=tokens)
    emit({"checkpoint": str(found), "to": chosen.to, "output": str(chosen.output)})
    return 0


def plan(chosen: argparse.Namespace) -> int:
    """``plan``: what a run will cost; exit 5 when it does not fit."""
    config = read_config(chosen.config)
    opened = open_run(config)
    device = measure_device(opened.device, DTYPES[config.precision])
    if chosen.memory_gib is not None:
        device = dataclasses.replace(device, memory_bytes=int(chosen.memory_gib * GIB))
    if chosen.tflops is not None:
        device = dataclasses.replace(device, tflops=chosen.tflops)
    found = make_plan(
        config,
        opened.backbone.shape,
        device,
        ties_head=opened.backbone.declares_tied_head,
        is_random=isinstance(config.target, RandomTarget),
    )
    emit({"device": device.name, **_record(found)})
    return 0 if found.fits else ALARM


def _requests(
    chosen: argparse.Namespace, opened: Opened, chat: HuggingFaceFormat | None
) -> list[Request]:
    """Prompts from the arguments; the run's held-out ones when none are given."""
    requests = [_rendered((Message("user", text),), chat, "prompt") for text in chosen.prompt]
    if chosen.prompts_file is not None:
        requests += _from_file(chosen.prompts_file, chat)
    if not requests:
        held_out = held_out_prompts(opened.data.held_out, opened.config.evaluation.prompts)
        requests = [Request(each.ids, each.domain) for each in held_out]
    if not requests:
        raise ConfigError("--prompt: missing, and no document is held out; give a prompt")
    return requests


def _from_file(path: Path, chat: HuggingFaceFormat | None) -> list[Request]:
    requests: list[Request] = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        record = json.loads(line)
        domain = str(record.get("domain", path.stem))
        if "input_ids" in record:
            requests.append(Request(tuple(record["input_ids"]), domain))
        elif "messages" in record:
            turns = tuple(Message(turn["role"], turn["content"]) for turn in record["messages"])
            requests.append(_rendered(turns, chat, domain))
        else:
            raise DataError(f"{path}:{number}: expected 'messages' or 'input_ids'")
    return requests


def _rendered(
    messages: tuple[Message, ...], chat: HuggingFaceFormat | None, domain: str
) -> Request:
    if chat is None:
        raise ConfigError("--prompt: the target model has no tokenizer; give input_ids in a file")
    return Request(chat.encode(chat.render(messages, opens_answer=True)).ids, domain)


def _chat(opened: Opened) -> HuggingFaceFormat | None:
    """The target model's tokenizer, its template given the options that the data was."""
    if not has_tokenizer(opened.config.target):
        return None
    options = opened.data.manifest.get("template_options")
    return load_format(opened.config.target, options if isinstance(options, dict) else {})


def _with_decoding(config: RunConfig, chosen: argparse.Namespace) -> RunConfig:
    """The run with what the arguments say about decoding."""
    table = plain(config.evaluation)
    assert isinstance(table, dict)  # a dataclass's form
    for name in ("prompts", "new_tokens", "temperature"):
        given = getattr(chosen, name, None)
        if given is not None:
            table[name] = given
    return dataclasses.replace(config, evaluation=build(EvaluationSettings, table, "evaluation"))


def _record(value: object) -> dict[str, Json]:
    found = plain(value)
    assert isinstance(found, dict)  # a dataclass's form
    return found
