"""Secrets leave before anything is hashed; what is no secret stays to the byte."""

import time
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from journal.blobs import Output
from journal.redaction import Redactor, _value, text_without_secrets
from tests.support.journals import intended

PARTS = ("hunter2", "s3cr3t")
AWS = "AKIA" + "IOSFODNN7EXAMPLE"
GITHUB = "ghp_" + "a1B2" * 9
HUGGING = "hf_" + "Qx7" * 12
DENSE = "Zk9QvT3xW8sLm2RfYb7NcJ4hGd6PaXe1UoIi5KtS0"


@pytest.mark.parametrize(
    ("text", "secret", "rule"),
    [
        ("curl https://me:hunter2@host/x", "hunter2", "url"),
        ("export HF_TOKEN=abcdefgh1 && run", "abcdefgh1", "assignment"),
        ('{"password": "hunter2"}', "hunter2", "assignment"),
        ("Authorization: Bearer abcdefgh12345", "abcdefgh12345", "header"),
        (f"key {AWS} found", AWS, "token_format"),
        (f"git clone {GITHUB}", GITHUB, "token_format"),
        (f"login {HUGGING}", HUGGING, "token_format"),
        ("-----BEGIN OPENSSH PRIVATE KEY-----\nabc\n-----END OPENSSH PRIVATE KEY-----", "abc",
         "private_key"),
        ("-----BEGIN PRIVATE KEY-----\nabc cut off", "abc", "private_key"),
        (f"wandb login {DENSE}", DENSE, "entropy"),
    ],
)  # fmt: skip
def test_a_secret_is_gone_and_counted(text: str, secret: str, rule: str) -> None:
    counts: Counter[str] = Counter()
    clean = text_without_secrets(text, counts)
    assert secret not in clean
    assert counts[rule] == 1


@pytest.mark.parametrize(
    "text",
    [
        "step=12 loss=3.4567 tokens_per_s=1234 lr=0.0003",
        "max_token=512 num_tokens=8",
        "SyntaxError: unexpected token: '}'",
        "sha256 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
        "SHA256:uNiVztksCsDhcc0u9e8BgrJXVGDQXY1zUF8mR2Y7k4A",
        "ssh://git@host/repo",
        "/workspace/checkpoints/drafter-2026-11-30/step_000120.safetensors",
        "KeyboardInterrupt",
        "0, 0 MiB",
        "3f9a6f0e-1111-4222-8333-444455556666",
        "01M8P08P4ME9VTSP6H09XZ70BQ",
    ],
)
def test_ordinary_output_is_not_touched(text: str) -> None:
    counts: Counter[str] = Counter()
    assert text_without_secrets(text, counts) == text
    assert not counts


def test_the_mark_does_not_tell_the_secrets_length() -> None:
    short, long = Counter[str](), Counter[str]()
    assert text_without_secrets("password=abcd", short) == text_without_secrets(
        "password=abcd" * 1 + "efghijkl", long
    )


def test_fields_and_flags_are_redacted_by_their_name() -> None:
    event = intended("c1")
    payload = event.payload.model_copy(
        update={
            "arguments": {"env": {"HF_TOKEN": "x y z"}, "tokens": 5, "path": "/x"},
            "argv": ("tool", "--password", "hunter2", "--api-key=abc", "next"),
        }
    )
    data, counts = Redactor().payload(payload)
    assert data["arguments"] == {
        "env": {"HF_TOKEN": "[redacted:field]"}, "tokens": 5, "path": "/x",
    }  # fmt: skip
    assert data["argv"] == [
        "tool", "--password", "[redacted:flag]", "--api-key=[redacted:assignment]", "next",
    ]  # fmt: skip
    assert counts == {"field": 1, "flag": 1, "assignment": 1}
    assert Redactor().rebuilt(payload, data).model_dump(mode="json", exclude={"kind"}) == data


@given(st.binary(max_size=200))
def test_redacting_twice_changes_nothing_more(raw: bytes) -> None:
    once, _ = Redactor().output(Output.of(raw))
    twice, counts = Redactor().output(once)
    assert twice == once
    assert not counts


@given(st.binary(max_size=300))
def test_bytes_without_secrets_pass_unchanged(raw: bytes) -> None:
    output, counts = Redactor().output(Output.of(raw))
    assert counts or output.kept == raw


WORDS = st.sampled_from(
    ["password", "token", "api_key", "HF_TOKEN", "--secret", "=", ": ", " ", "x", "hunter2", "://",
     "me:pw@host", "Bearer ", "abcdefgh12345", AWS, GITHUB, DENSE, "sk-", "0" * 64, "KEY", '"']
)  # fmt: skip


@given(st.lists(WORDS, min_size=1, max_size=8).map("".join), st.sampled_from(["name", "password"]))
def test_the_quick_look_at_a_payload_misses_nothing_that_a_rule_would_find(
    text: str, field: str
) -> None:
    payload = intended("c1").payload.model_copy(
        update={"arguments": {field: text}, "argv": ("tool", text, "next")}
    )
    data = payload.model_dump(mode="json", exclude={"kind"})
    _, counts = Redactor().payload(payload)
    looked: Counter[str] = Counter()
    for name, value in data.items():
        _value(name, value, looked)
    assert counts == looked


def test_an_output_keeps_its_true_length_but_not_its_secret() -> None:
    output, counts = Redactor().output(Output.of(b"\xff password=hunter2\n"))
    assert output.kept == b"\xff password=[redacted:assignment]\n"
    assert output.length_bytes == len(b"\xff password=hunter2\n")
    assert counts == {"assignment": 1}


def test_hostile_text_takes_no_more_than_linear_time() -> None:
    """Ten times the text may not cost fifty times the work; a quadratic rule costs a hundred."""

    def work(size: int) -> float:
        """This process's own seconds, the least of five: other work on the machine only adds."""
        text = ("secret_" * 3 + "a-" * 40 + "://" + "x" * 30 + "@") * size
        spent: list[float] = []
        for _ in range(5):
            start = time.process_time()
            text_without_secrets(text, Counter())
            spent.append(time.process_time() - start)
        return min(spent)

    assert work(400) < 50 * max(work(40), 0.000_2)
