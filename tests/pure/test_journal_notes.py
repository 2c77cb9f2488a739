"""Signed notes: the published example verifies, every altered byte does not."""

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from journal.errors import KeyUnusable
from journal.notes import Checkpoint, PublicKey, SigningKey, open_note, parse_note, sign, signers

# The example of golang.org/x/mod/sumdb/note, which c2sp.org/signed-note took over.
NEUMANN = "PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW"
NEUMANN_NOTE = (
    "If you think cryptography is the answer to your problem,\n"
    "then you don't know what your problem is.\n"
    "\n"
    "\u2014 PeterNeumann x08go/ZJkuBS9UG/SffcvIAQxVBtiFupLLr8pAcElZInNIuGUgYN1FFYC2pZSNXgKvqfqdngot"
    "pRZb6KE6RyyBwJnAM=\n"
)

KEY = SigningKey("ours", Ed25519PrivateKey.from_private_bytes(b"\x07" * 32))
OTHER = SigningKey("other", Ed25519PrivateKey.from_private_bytes(b"\x08" * 32))
CHECKPOINT = Checkpoint("agentops-journal/J/s1-00000007", 7, b"\x05" * 32, ("ts_us 7",))


def test_the_published_example_verifies() -> None:
    key = PublicKey.parse(NEUMANN)
    assert signers(NEUMANN_NOTE, key) == frozenset({NEUMANN})
    assert key.line == NEUMANN


def test_a_note_reads_back_what_was_signed() -> None:
    assert open_note(sign(CHECKPOINT, KEY), KEY.public) == CHECKPOINT


def test_every_altered_character_of_a_note_is_refused() -> None:
    note = sign(CHECKPOINT, KEY)
    for place in range(len(note)):
        altered = note[:place] + chr(ord(note[place]) ^ 1) + note[place + 1 :]
        assert isinstance(open_note(altered, KEY.public), str), f"character {place}"


def test_a_note_by_another_key_is_refused() -> None:
    other, key = ("+".join(one.public.line.split("+")[:2]) for one in (OTHER, KEY))
    assert open_note(sign(CHECKPOINT, OTHER), KEY.public) == (
        f"no trusted key signed it; it names {other}, trusted: {key}"
    )


def test_a_key_of_the_same_name_is_not_the_same_key() -> None:
    impostor = SigningKey("ours", OTHER.private)
    assert isinstance(open_note(sign(CHECKPOINT, impostor), KEY.public), str)


def test_both_signatures_of_a_rotation_are_seen() -> None:
    note = sign(CHECKPOINT, KEY, OTHER)
    assert signers(note, KEY.public, OTHER.public) == frozenset(
        {KEY.public.line, OTHER.public.line}
    )


@pytest.mark.parametrize(
    ("note", "fault"),
    [
        ("a\n1\n", "no empty line"),
        ("a\n1\n\nx", "expected 3"),
        ("a\n01\nAAAA\n\nx\n", "not a number"),
        ("a\n1\n!!\n\nx\n", "not base64"),
        ("a\n1\nAAAA\n\nx\n", "not 32 bytes"),
    ],
)
def test_each_malformed_note_is_named(note: str, fault: str) -> None:
    assert fault in str(parse_note(note))


@pytest.mark.parametrize(
    "line", ["", "a+b", "a+00000000+AAAA", NEUMANN.replace("c74f", "c74e"), "a b+00+AA"]
)
def test_a_line_that_is_no_key_is_refused(line: str) -> None:
    with pytest.raises(KeyUnusable):
        PublicKey.parse(line)
