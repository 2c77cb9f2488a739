"""Whose yes counts: an operator's signature where there are operators, and no agent's own wish."""

from dataclasses import replace

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from agentops.commands.deploy import DeployFiles, FileToDeploy
from agentops.hosts import Host
from agentops.policy import PolicyConfig, PolicyState, approval_digest, authorize
from agentops.policy.config import Approvals
from agentops.policy.operators import statement
from agentops.policy.state import Approval
from tests.support.acting import later_term
from tests.support.simulated import config

DEV = Host(name="h", transport="local", tier="dev")
PROD = Host(name="h", transport="local", tier="prod")
FILES = DeployFiles(files=(FileToDeploy(path="/x", content=b"x", expects="absent"),))
KEY, OTHER = (Ed25519PrivateKey.from_private_bytes(bytes([seed]) * 32) for seed in (1, 2))


def public(key: Ed25519PrivateKey) -> str:
    """The public part, as a policy file names it."""
    return key.public_key().public_bytes_raw().hex()


def governed() -> PolicyConfig:
    """The rules with one operator."""
    return config().model_copy(update={"approvals": Approvals(operators=(public(KEY),))})


def asked() -> tuple[PolicyState, int, Approval]:
    """A granted question about the files, and the moment at which it is used."""
    state, now_us, _ = later_term()
    bound = approval_digest(FILES, PROD, governed())
    return state, now_us, Approval("a", bound, now_us, answer="granted", asked="e1")


def signed(approval: Approval, key: Ed25519PrivateKey) -> Approval:
    """The same, signed."""
    signature = key.sign(statement(approval)).hex()
    return replace(approval, operator=public(key), signature=signature)


def answer(approval: Approval) -> str:
    """What the door says of the files under this yes."""
    state, now_us, _ = asked()
    known = replace(state, approvals=(approval,))
    return authorize(FILES, None, known, governed(), PROD, now_us).answer


def test_where_there_are_operators_only_their_signed_yes_counts() -> None:
    """Not an unsigned one, not a stranger's, and not one that only claims to be theirs."""
    _, _, yes = asked()
    assert answer(signed(yes, KEY)) == "allow"
    assert answer(yes) == "ask"
    assert answer(signed(yes, OTHER)) == "ask"
    assert answer(replace(signed(yes, OTHER), operator=public(KEY))) == "ask"
    assert answer(replace(signed(yes, KEY), signature=None)) == "ask"
    assert answer(replace(signed(yes, KEY), signature="no hex")) == "ask"


def test_a_signature_is_for_this_very_question() -> None:
    """Moved to another question, or given more time, it is none."""
    _, now_us, yes = asked()
    right = signed(yes, KEY)
    assert answer(replace(right, approval_id="b")) == "ask"
    assert answer(replace(right, asked="e2")) == "ask"
    assert answer(replace(right, expires_at_us=now_us + 1)) == "ask"


def test_a_second_yes_counts_where_the_first_is_for_something_else() -> None:
    """Each is held to the command by itself."""
    state, now_us, yes = asked()
    elsewhere = replace(signed(yes, KEY), digest="other")
    right = signed(replace(yes, approval_id="b"), KEY)
    known = replace(state, approvals=(elsewhere, right))
    said = authorize(FILES, None, known, governed(), PROD, now_us)
    assert (said.answer, said.rule) == ("allow", "approval b")


@pytest.mark.parametrize(("agents", "said"), [(False, "ask"), (True, "allow")])
def test_what_an_agent_wishes_stands_only_where_the_file_says_agents(
    *, agents: bool, said: str
) -> None:
    """A standing approval is for the engine's decisions and for what a person types."""
    state, now_us, _ = later_term()
    standing = tuple(s.model_copy(update={"agents": agents}) for s in config().standing)
    rules = config().model_copy(update={"standing": standing})
    assert authorize(FILES, None, state, rules, DEV, now_us).answer == "allow"
    wished = replace(state, terms=replace(state.terms, agent_wish=True))
    assert authorize(FILES, None, wished, rules, DEV, now_us).answer == said
