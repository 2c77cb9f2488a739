"""Operators: people whose yes is known by a signature. Pure.

Here: the very text that an operator signs, and whether a signature under it is one of those that
policy names. Not here: where an operator's key lies (``agentops.approvals.operator``), who else may
answer (``agentops.approvals.answering``).
"""

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from agentops.policy.state import Approval

_HEADER = "agentops approval v1"


def statement(approval: Approval) -> bytes:
    """What is signed: this question, to this very command, until then, and nothing more.

    The event that asked is named, so that a yes cannot be used for a later question.
    """
    lines = (
        _HEADER,
        approval.approval_id,
        approval.digest,
        str(approval.expires_at_us),
        approval.asked,
    )
    return "\n".join(lines).encode() + b"\n"


def is_signed(approval: Approval, operators: tuple[str, ...]) -> bool:
    """Whether one of *operators*, public keys in hex, signed this yes."""
    if approval.operator not in operators or approval.signature is None:
        return False
    try:
        key = Ed25519PublicKey.from_public_bytes(bytes.fromhex(approval.operator))
        key.verify(bytes.fromhex(approval.signature), statement(approval))
    except (ValueError, InvalidSignature):
        return False
    return True
