"""What each outcome of a command means as a tool's answer: its code, whether it may have run."""

from collections.abc import Sequence
from typing import get_args

import pytest

from agentops.commands import Command
from agentops.commands.heartbeat import ReadHeartbeat
from agentops.commands.run_argv import RunArgv
from agentops.executor import Executed
from agentops.hosts import Host
from agentops.policy import Authorization
from agentops.server.answer import Answer, Code, ToolCall
from agentops.server.outcomes import fault_answer, proof_of
from journal.events import (
    CommandCompleted,
    CommandDenied,
    CommandFailed,
    CommandNotSent,
    CommandOutcomeUnknown,
)
from tests.support.unwritten import unwritten

Ending = CommandDenied | CommandNotSent | CommandCompleted | CommandFailed | CommandOutcomeUnknown
HOST = Host(name="box", transport="local")
LOOK, ACT = ReadHeartbeat(path="/x"), RunArgv.model_validate({"argv": ["true"]})
AGAIN = ToolCall(tool="observe", arguments={"host": "box"})


def executed(payload: Ending) -> Executed:
    """A command that ended so."""
    event = unwritten(payload)
    return Executed(Authorization("allow", "r", ""), (event,), event, None)


def answered(command: Command, payload: Ending) -> Answer:
    """The answer, which must be a fault."""
    answer = fault_answer(command, HOST, executed(payload), AGAIN)
    assert answer is not None
    assert answer.error is not None
    assert answer.error.code in get_args(Code)
    assert answer.ok is False
    return answer


def denied(rule: str) -> CommandDenied:
    """A refusal by this rule."""
    return CommandDenied(
        command="run_argv", arguments={}, victims=(), decision_id=None, rule=rule, reason="no"
    )


@pytest.mark.parametrize(
    ("rule", "code"),
    [
        ("G13", "DENIED"),
        ("acting-lease", "BUSY"),
        ("approval 1a2b-1 stale", "APPROVAL_STALE"),
        ("approval 1a2b-1 unseen", "DENIED"),
    ],
)
def test_what_policy_refused_did_not_run(rule: str, code: Code) -> None:
    answer = answered(ACT, denied(rule))
    assert answer.error is not None
    assert (answer.error.code, answer.error.rule) == (code, rule)
    assert (answer.changed, answer.error.may_have_run) == ("no", False)
    assert answer.proof is not None
    assert answer.proof.ran is False


@pytest.mark.parametrize(
    ("reason", "code"),
    [
        ("unreachable", "NOT_SENT"),
        ("auth", "AUTH"),
        ("host_key_changed", "HOST_KEY_CHANGED"),
        ("host_key_unknown", "HOST_KEY_UNKNOWN"),
        ("layer_down", "LAYER_DOWN"),
        ("busy", "NOT_SENT"),
        ("deadline", "NOT_SENT"),
        ("given_up", "NOT_SENT"),
    ],
)
def test_what_was_not_sent_may_be_tried_again(reason: str, code: Code) -> None:
    answer = answered(ACT, CommandNotSent(command_id="c", reason=reason, detail="d"))
    assert answer.error is not None
    assert (answer.error.code, answer.error.layer) == (code, reason)
    assert (answer.changed, answer.error.may_have_run) == ("no", False)
    assert answer.error.reconcile is None


@pytest.mark.parametrize(
    ("reason", "code"),
    [
        ("connection_lost", "UNKNOWN"),
        ("deadline_still_running", "TIMEOUT_STILL_RUNNING"),
        ("deadline_stopped", "TIMEOUT_STOPPED"),
        ("frame_killed", "UNKNOWN"),
        ("controller_died", "UNKNOWN"),
    ],
)
def test_an_unknown_outcome_may_have_run_and_names_the_call_that_tells(
    reason: str, code: Code
) -> None:
    payload = CommandOutcomeUnknown.model_validate(
        {"command_id": "c", "reason": reason, "detail": "d", "duration_ms": 7}
    )
    act, look = answered(ACT, payload), answered(LOOK, payload)
    assert act.error is not None
    assert look.error is not None
    assert act.error.code == look.error.code == code
    assert (act.changed, act.error.may_have_run, act.verdict) == ("unknown", True, "inconclusive")
    assert act.error.reconcile == AGAIN
    assert (look.changed, look.error.reconcile) == ("no", None)
    assert act.proof is not None
    assert act.proof.ran is None
    assert act.proof.marker is False


def test_an_answer_that_cannot_be_read_is_no_proof_of_an_effect() -> None:
    failed = CommandFailed(command_id="c", exit_status=1, duration_ms=1, fault="line 3: no number")
    act, look = answered(ACT, failed), answered(LOOK, failed)
    assert (act.changed, look.changed) == ("unknown", "no")
    assert act.proof is not None
    assert (act.proof.ran, act.proof.exit_status, act.proof.marker) == (True, 1, True)


@pytest.mark.parametrize(("status", "name"), [(0, None), (1, None), (137, "SIGKILL"), (255, None)])
def test_a_completed_command_is_no_fault_and_shows_its_status(
    status: int, name: str | None
) -> None:
    done = executed(CommandCompleted(command_id="c", exit_status=status, duration_ms=1))
    assert fault_answer(ACT, HOST, done) is None
    proof = proof_of(done.outcome, HOST)
    assert (proof.ran, proof.exit_status, proof.signal) == (True, status, name)


def test_every_code_of_a_fault_says_what_to_do_next() -> None:
    told: Sequence[Answer] = (
        answered(ACT, denied("G13")),
        answered(ACT, CommandNotSent(command_id="c", reason="auth", detail="d")),
        answered(ACT, CommandFailed(command_id="c", exit_status=1, duration_ms=1, fault="f")),
    )
    assert all(answer.next for answer in told)
