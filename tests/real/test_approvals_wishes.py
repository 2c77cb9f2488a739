"""A command that somebody wishes for directly: the question, the yes, and one act for one yes."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from agentops.approvals import Waits, Wish, carry_out
from agentops.commands.run_argv import RunArgv
from agentops.executor import Executed, Executor
from agentops.hosts import Host
from agentops.policy import PolicyConfig, parse_policy
from agentops.recover.approving import approve, freeze
from agentops.transport import open_transport
from journal import Actor, HostRef, Journal, KeyStore, SystemClock
from tests.support.recovering import SHIPPED

HERE = Host(name="here", transport="local", tier="prod")


@dataclass(frozen=True, slots=True)
class Door:
    """One journal with an executor before it, and a command that leaves a line at each run."""

    journal: Journal
    executor: Executor
    config: PolicyConfig
    trace: Path

    @property
    def wish(self) -> Wish:
        """The command that leaves a line."""
        argv = ("sh", "-c", f"echo ran >> {self.trace}")
        return Wish(RunArgv.model_validate({"argv": argv}), HERE, "to see it run")

    async def carry_out(self, wish: Wish) -> Executed | Waits:
        """Through the door."""
        return await carry_out(
            wish,
            executor=self.executor,
            journal=self.journal,
            clock=SystemClock(),
            config=self.config,
        )

    def ran(self) -> int:
        """How often it ran, by the lines that it left."""
        return len(self.trace.read_text().splitlines()) if self.trace.exists() else 0

    def person(self) -> Journal:
        """The same journal, opened by a person."""
        return Journal.open(
            self.journal.layout.root,
            clock=SystemClock(),
            actor=Actor("human", "operator"),
            keys=KeyStore(self.journal.layout.root.parent / "keys"),
            anchor=None,
        )


@pytest.fixture
async def door(tmp_path: Path) -> AsyncIterator[Door]:
    """An agent's session on a new journal."""
    config = parse_policy(SHIPPED.read_text(), "dev.toml")
    clock = SystemClock()
    agent = Actor("agent", "helper", on_behalf_of="operator")
    with Journal.create(
        tmp_path / "a.journal", clock=clock, actor=agent, keys=KeyStore(tmp_path / "keys"),
        anchor=None,
    ) as journal:  # fmt: skip
        executor = Executor(journal, clock=clock, config=config, connect=open_transport)
        yield Door(journal, executor, config, tmp_path / "trace")
        await executor.close()


async def test_a_wish_that_needs_a_yes_is_asked_once_and_runs_once_for_each_yes(
    door: Door,
) -> None:
    first, second = await door.carry_out(door.wish), await door.carry_out(door.wish)
    assert isinstance(first, Waits)
    assert isinstance(second, Waits)
    assert (first.question.approval_id, second.asked) == (second.question.approval_id, None)
    assert door.ran() == 0
    with door.person() as journal:
        approve(journal, SystemClock(), first.question.approval_id)
    done = await door.carry_out(door.wish)
    assert isinstance(done, Executed)
    assert done.authorization.rule == f"approval {first.question.approval_id}"
    assert door.ran() == 1
    again = await door.carry_out(door.wish)
    assert isinstance(again, Waits)
    assert again.question.approval_id != first.question.approval_id
    assert door.ran() == 1


async def test_a_yes_to_one_command_is_none_for_another(door: Door) -> None:
    asked = await door.carry_out(door.wish)
    assert isinstance(asked, Waits)
    with door.person() as journal:
        approve(journal, SystemClock(), asked.question.approval_id)
    other = replace(door.wish, command=RunArgv.model_validate({"argv": ("true",)}))
    assert isinstance(await door.carry_out(other), Waits)
    assert door.ran() == 0


async def test_a_freeze_refuses_a_direct_wish_too(door: Door) -> None:
    with door.person() as journal:
        freeze(journal, HostRef(HERE.name, HERE.transport), "maintenance")
    refused = await door.carry_out(door.wish)
    assert isinstance(refused, Executed)
    assert (refused.outcome.kind, refused.authorization.rule) == ("command_denied", "G13")
    assert door.ran() == 0
