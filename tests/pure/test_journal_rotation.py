"""A new key is trusted only if the old one handed over to it, in words that both signed."""

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from journal.events import KeyRotated
from journal.note_check import rotation_text, trusted_with_rotations
from journal.notes import PublicKey, SigningKey, signature_line


def key(name: str, seed: int) -> SigningKey:
    return SigningKey(name, Ed25519PrivateKey.from_private_bytes(bytes([seed]) * 32))


OLD, NEW, THIRD = key("old", 1), key("new", 2), key("third", 3)


def rotation(
    old: PublicKey, new: PublicKey, *signers: SigningKey, text: str | None = None
) -> KeyRotated:
    said = rotation_text(old, new) if text is None else text
    statement = said + "\n" + "".join(signature_line(said, signer) for signer in signers)
    return KeyRotated(old_key=old.line, new_key=new.line, statement=statement)


def test_a_chain_of_hand_overs_is_followed() -> None:
    rotations = [
        rotation(OLD.public, NEW.public, OLD, NEW),
        rotation(NEW.public, THIRD.public, NEW, THIRD),
    ]
    trusted = trusted_with_rotations([OLD.public], rotations)
    assert trusted == (OLD.public, NEW.public, THIRD.public)


@pytest.mark.parametrize(
    "forged",
    [
        rotation(OLD.public, NEW.public, NEW),
        rotation(OLD.public, NEW.public, OLD),
        rotation(OLD.public, NEW.public),
        rotation(OLD.public, NEW.public, THIRD, NEW),
        rotation(THIRD.public, NEW.public, THIRD, NEW),
        rotation(OLD.public, NEW.public, OLD, NEW, text="another text\n"),
        rotation(OLD.public, NEW.public, OLD, NEW, text=rotation_text(OLD.public, THIRD.public)),
    ],
    ids=["not by the old", "not by the new", "by nobody", "by a stranger", "of a stranger",
         "other words", "to another key"],
)  # fmt: skip
def test_a_hand_over_that_is_not_whole_moves_no_trust(forged: KeyRotated) -> None:
    assert trusted_with_rotations([OLD.public], [forged]) == (OLD.public,)
