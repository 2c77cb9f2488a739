"""Putting a question to a person, once.

Here: the question for a command that policy will not let run without a yes; an open one for the
very same command is not asked again. Not here: the answer (``agentops.recover.approving``).
"""

from dataclasses import dataclass

from agentops.commands.base import Command
from agentops.hosts import Host
from agentops.policy.authorize import Authorization, approval_digest
from agentops.policy.config import PolicyConfig
from agentops.policy.state import PolicyState
from agentops.policy.view import SECOND_US
from journal.events import ApprovalRequested


@dataclass(frozen=True, slots=True)
class Question:
    """The approval that is waited for; request is None where it was asked before."""

    approval_id: str
    request: ApprovalRequested | None


def question_for(
    command: Command,
    asked: Authorization,
    state: PolicyState,
    config: PolicyConfig,
    host: Host,
    now_us: int,
) -> Question:
    """The question for *command*: bound to verb, argv, host key, identities and policy version."""
    bound = approval_digest(command, host, config)
    for known in state.approvals:
        if known.answer == "open" and known.digest == bound and now_us <= known.expires_at_us:
            return Question(known.approval_id, None)
    approval_id = f"{bound[:8]}-{len(state.approvals) + 1}"
    request = ApprovalRequested(
        approval_id=approval_id,
        digest=bound,
        command=command.name,
        arguments=command.arguments(),
        victims=command.victims(),
        rule=asked.rule,
        expires_at_us=now_us + config.limits.approval_s * SECOND_US,
    )
    return Question(approval_id, request)
