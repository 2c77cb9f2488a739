"""Decides purely: facts and ledgers in, one decision out. No clock, no host, no randomness."""

from agentops.policy.authorize import Authorization, approval_digest, authorize
from agentops.policy.config import Job, PolicyConfig
from agentops.policy.decide import decide
from agentops.policy.decision import Close, Decision, Judge, Pause, Run
from agentops.policy.fold import fold
from agentops.policy.reading import parse_policy, read_policy
from agentops.policy.recompute import Difference, Recomputed, recompute
from agentops.policy.state import PolicyState

__all__ = [
    "Authorization",
    "Close",
    "Decision",
    "Difference",
    "Job",
    "Judge",
    "Pause",
    "PolicyConfig",
    "PolicyState",
    "Recomputed",
    "Run",
    "approval_digest",
    "authorize",
    "decide",
    "fold",
    "parse_policy",
    "read_policy",
    "recompute",
]
