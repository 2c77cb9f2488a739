"""Putting a question to a person, once.

Here: the question for a command that policy will not let run without a yes; an open one for the
very same command is not asked again. Not here: the answer (``agentops.approvals.answering``).
"""

from dataclasses import dataclass

from agentops.commands.base import Command
from agentops.hosts import Host
from agentops.policy.authorize import Authorization, approval_digest
from agentops.policy.canonical import digest
from agentops.policy.config import PolicyConfig
from agentops.policy.state import PolicyState
from agentops.policy.view import SECOND_US
from journal.events import ApprovalRequested


@dataclass(frozen=True, slots=True)
class Party:
    """Who asks or answers: the user's number, and the process with those above it.

    processes end with the leader of the process's session, such as a terminal's shell.
    """

    uid: int
    processes: tuple[int, ...]


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
    asker: Party,
) -> Question:
    """The question for *command*: bound to verb, argv, host key, identities and policy version."""
    bound = approval_digest(command, host, config)
    for known in state.approvals:
        if known.answer == "open" and known.digest == bound and now_us <= known.expires_at_us:
            return Question(known.approval_id, None)
    approval_id = digest([bound, now_us])[:10]
    request = ApprovalRequested(
        approval_id=approval_id,
        digest=bound,
        command=command.name,
        effect=command.effect,
        arguments=command.arguments(),
        argv=command.argv(),
        route=host.route(),
        tier=host.tier,
        victims=command.victims(),
        rule=asked.rule,
        asker_uid=asker.uid,
        asker_processes=asker.processes,
        expires_at_us=now_us + config.limits.approval_s * SECOND_US,
    )
    return Question(approval_id, request)
