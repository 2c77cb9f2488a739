"""Secrets leave before anything is hashed; what is no secret stays to the byte."""

import json
import time
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from journal.blobs import Output
from journal.lines import canonical
from journal.redaction import _ASSIGNMENT, _DENSE, Redactor, _value, text_without_secrets
from journal.secret_signs import may_assign_secrets, may_hold_secrets
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
    clean = Redactor().payload(payload)
    data = json.loads(clean.text)
    assert data["arguments"] == {
        "env": {"HF_TOKEN": "[redacted:field]"}, "tokens": 5, "path": "/x",
    }  # fmt: skip
    assert data["argv"] == [
        "tool", "--password", "[redacted:flag]", "--api-key=[redacted:assignment]", "next",
    ]  # fmt: skip
    assert clean.struck == {"field": 1, "flag": 1, "assignment": 1}
    assert clean.payload.model_dump(mode="json", exclude={"kind"}) == data


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
    looked: Counter[str] = Counter()
    for name, value in data.items():
        _value(name, value, looked)
    assert Redactor().payload(payload).struck == looked


SHAPES = st.one_of(
    WORDS,
    st.sampled_from(["\n", "\t", "\x1c", "\u2003", "\u017f", "\u212a", '"', "\\", "=", ":"]),
    st.from_regex(r"(?:gh[pousr]_|hf_|sk-|eyJ|AIza|xoxb-|npm_|pypi-|glpat-|AKIA)[A-Za-z0-9]{16,44}",
                  fullmatch=True),
    st.from_regex(r"[A-Za-z0-9+_-]{36,44}={0,2}", fullmatch=True),
    st.sampled_from(["Passwd", "PASSPHRASE", "credential", "Authorization", "private-key"]),
)  # fmt: skip


@given(st.lists(SHAPES, min_size=1, max_size=6).map("".join))
def test_what_a_rule_strikes_shows_in_the_text_and_in_its_json(text: str) -> None:
    counts: Counter[str] = Counter()
    text_without_secrets(text, counts)
    looks = may_hold_secrets(text.encode()), may_hold_secrets(canonical(text))
    assert not counts or looks == (True, True)


@given(st.lists(SHAPES, min_size=1, max_size=6).map("".join))
def test_the_look_before_a_slow_rule_misses_nothing_that_the_rule_would_strike(text: str) -> None:
    if _ASSIGNMENT.search(text):
        assert may_assign_secrets(text)
    assert bool(_DENSE.search(text)) == any(map(_DENSE.search, text.split()))


@pytest.mark.parametrize(
    "text",
    ["HF_TOKEN=a", "password=a", 'PASSWD" : "a', "api-key\x1c:a", "api_key:a", "secret-key\u2003:a",
     "access_key=a", "private_key=a", "credential=a", "authorization=a", "passphra\u017fe=a",
     "\udcff api_key=a"],
)  # fmt: skip
def test_each_name_of_an_assignment_shows_in_the_look_before_its_rule(text: str) -> None:
    assert _ASSIGNMENT.search(text)
    assert may_assign_secrets(text)


@pytest.mark.parametrize(
    "secret",
    ["AKIA" + "A1" * 8, *(f"gh{one}_" + "a1" * 15 for one in "pousr"), "github_pat_" + "a1" * 15,
     "glpat-" + "a1" * 10, "hf_" + "a1" * 15, "sk-" + "a1" * 10, "xoxb-" + "a1" * 5,
     "AIza" + "a1" * 17 + "a", "npm_" + "a1" * 18, "pypi-" + "a1" * 16,
     "eyJ" + "a" * 8 + ".eyJ" + "a" * 8 + "." + "a" * 8, "aB3" * 13 + "c", "a1" * 19 + "aB",
     "Bearer abcdefgh1", "Basic\tabcdefgh1", "x://a:b@c", "token=abc", "api-key\t: x", "passwd: x",
     "secret=x", "credential=x", "authorization=x", "secret_key : x", "api_key\x1c:x"],
)  # fmt: skip
def test_each_sort_of_secret_shows_by_itself_and_in_json(secret: str) -> None:
    assert may_hold_secrets(secret.encode())
    assert may_hold_secrets(canonical({"a": ["x\n" + secret + "\n"]}))


@pytest.mark.parametrize(
    "text",
    ["step=12 loss=3.4567 tokens_per_s=1234", "python train.py --shard 7", "e" * 64, "/dev/disk-1",
     "01M8P08P4ME9VTSP6H09XZ70BQ", "caf\u00e9", "pip install huggingface_hub", "task-12 done"],
)  # fmt: skip
def test_ordinary_text_is_spared_the_rules(text: str) -> None:
    assert not may_hold_secrets(text.encode())


def test_bytes_that_are_no_text_are_looked_at_by_the_rules() -> None:
    assert may_hold_secrets(b"\xff nothing here")


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
