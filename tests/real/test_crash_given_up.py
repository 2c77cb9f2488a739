"""A caller that gives up: whatever it interrupts, each intent has its outcome in the journal."""

import asyncio
import threading
from pathlib import Path

import pytest

from agentops.box.waiting import wait_for
from agentops.commands.waiting import WaitUntil
from agentops.executor import Executor
from agentops.hosts import Host
from agentops.policy import PolicyState, parse_policy
from agentops.transport import open_transport
from journal import Actor, Event, Journal, NewEvent, SystemClock
from journal.events import CommandIntended, CommandNotSent, CommandOutcomeUnknown
from tests.support.recovering import SHIPPED

HERE = Host(name="here", transport="local", tier="dev")


class SlowJournal(Journal):
    """A journal on a disk that takes an intent only when the test lets it."""

    arrived: threading.Event
    released: threading.Event

    def append(self, *new: NewEvent) -> tuple[Event, ...]:
        """Append; an intent waits."""
        if any(isinstance(draft.payload, CommandIntended) for draft in new):
            self.arrived.set()
            assert self.released.wait(20)
        return super().append(*new)


@pytest.fixture
def journal(tmp_path: Path) -> SlowJournal:
    """An open journal whose first intent is held back."""
    SlowJournal.arrived, SlowJournal.released = threading.Event(), threading.Event()
    return SlowJournal.create(
        tmp_path / "j.journal",
        clock=SystemClock(),
        actor=Actor("human", "tester"),
        keys=tmp_path / "keys",
        anchor=None,
    )


def waiting(journal: Journal, folder: Path) -> "asyncio.Task[object]":
    """A command that waits on this machine for a file that never comes."""
    executor = Executor(
        journal,
        clock=SystemClock(),
        config=parse_policy(SHIPPED.read_text(), "dev.toml"),
        connect=open_transport,
    )
    command = WaitUntil.model_validate(
        {
            "condition": {"kind": "file_exists", "path": str(folder / "never")},
            "timeout_ms": 30_000,
            "poll_ms": 50,
        }
    )
    return asyncio.ensure_future(
        executor.execute(command, HERE, state=PolicyState(), reason="to be given up")
    )


async def test_who_gives_up_while_the_intent_is_written_sends_nothing_and_says_so(
    journal: SlowJournal, tmp_path: Path
) -> None:
    task = waiting(journal, tmp_path)
    assert await asyncio.to_thread(journal.arrived.wait, 20)
    task.cancel()
    journal.released.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    (*_, intended, outcome) = journal.reader().events()
    assert isinstance(intended.payload, CommandIntended)
    assert isinstance(outcome.payload, CommandNotSent)
    assert outcome.payload.reason == "given_up"
    journal.close()


async def test_who_gives_up_while_the_command_runs_leaves_its_outcome_unknown(
    journal: SlowJournal, tmp_path: Path
) -> None:
    journal.released.set()
    task = waiting(journal, tmp_path)
    await asyncio.to_thread(wait_for, lambda: journal.reader().in_doubt() or None, 20, "an intent")
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert journal.reader().in_doubt() == []
    (*_, outcome) = journal.reader().events()
    assert isinstance(outcome.payload, CommandOutcomeUnknown | CommandNotSent)
    journal.close()
