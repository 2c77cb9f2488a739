"""The operator's private key: made once, kept by a person, never by an agent.

The file is PKCS#8 in PEM, sealed with a passphrase unless its owner wants none. Not here: what is
signed, and whose signature counts (``agentops.policy.operators``).
"""

import os
from collections.abc import Callable
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from agentops.errors import UsageError


def make_key(path: Path, passphrase: bytes) -> str:
    """Draw a key and write it to *path*; an empty passphrase leaves the file unsealed.

    Gives the public key as policy names it.

    Raises:
        UsageError: a file is there, or it cannot be written.
    """
    private = Ed25519PrivateKey.generate()
    sealing = BestAvailableEncryption(passphrase) if passphrase else NoEncryption()
    text = private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, sealing)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(text)
    except FileExistsError:
        raise UsageError(f"{path} is there already; an operator's key is not replaced") from None
    except OSError as error:
        raise UsageError(f"{path}: cannot be written: {error.strerror}") from error
    return public_of(private)


def read_key(path: Path, passphrase: Callable[[], bytes]) -> Ed25519PrivateKey:
    """The key in *path*; *passphrase* is asked only where the file is sealed.

    Raises:
        UsageError: it is not there, others may read it, or it does not open.
    """
    try:
        if path.stat().st_mode & 0o077:
            raise UsageError(f"{path} can be read by others; run: chmod 600 {path}")
        text = path.read_bytes()
    except OSError as error:
        raise UsageError(f"operator key {path}: {error.strerror}") from error
    sealed = b"ENCRYPTED" in text
    try:
        private = load_pem_private_key(text, passphrase() if sealed else None)
    except ValueError:
        why = "the passphrase does not open it" if sealed else "not a private key in PEM"
        raise UsageError(f"operator key {path}: {why}") from None
    if not isinstance(private, Ed25519PrivateKey):
        raise UsageError(f"operator key {path}: not an Ed25519 key")
    return private


def public_of(private: Ed25519PrivateKey) -> str:
    """The public key in hex, as policy names the operator."""
    return private.public_key().public_bytes_raw().hex()
