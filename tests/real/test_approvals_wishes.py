"""A command that somebody wishes for directly: the question, the yes, and one act for one yes."""

import asyncio
import os
import signal
import subprocess
import threading
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from agentops.approvals import Waits, Wish, by_layer, carry_out, known_of, this_party
from agentops.box.waiting import wait_for
from agentops.commands import Command
from agentops.commands.launch import Launch, Launched
from agentops.commands.processes import ListProcesses, ProcessTable
from agentops.commands.run_argv import RunArgv
from agentops.commands.signals import SignalProcess
from agentops.errors import UsageError
from agentops.executor import Executed, Executor
from agentops.hosts import Host
from agentops.leases import HostBusy
from agentops.policy import PolicyConfig, PolicyState, parse_policy
from agentops.policy.asking import Party
from agentops.policy.cards import argv_line
from agentops.recover.approving import approve, open_questions
from agentops.recover.freezing import freeze
from agentops.recover.operator import make_key, read_key
from agentops.transport import open_transport
from journal import Actor, HostRef, Journal, KeyStore, NewEvent, Reader, SystemClock
from journal.events import ApprovalExpired, ApprovalGranted, CommandIntended
from tests.support.persons import SOMEBODY_ELSE, yes
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

    async def carry_out(
        self, wish: Wish, executor: Executor | None = None, config: PolicyConfig | None = None
    ) -> Executed | Waits:
        """Through the door."""
        return await carry_out(
            wish,
            executor=executor or self.executor,
            journal=self.journal,
            clock=SystemClock(),
            config=config or self.config,
        )

    async def asked(self, command: Command, config: PolicyConfig | None = None) -> str:
        """Wish for it; gives the id of the question that follows."""
        waits = await self.carry_out(Wish(command, HERE, "to see it"), config=config)
        assert isinstance(waits, Waits)
        return waits.question.approval_id

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
        yes(journal, door.config, first.question.approval_id)
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
        yes(journal, door.config, asked.question.approval_id)
    other = replace(door.wish, command=RunArgv.model_validate({"argv": ("true",)}))
    assert isinstance(await door.carry_out(other), Waits)
    assert door.ran() == 0


@pytest.mark.parametrize("agents", [False, True])
async def test_a_standing_approval_holds_for_an_agents_own_wish_only_where_it_says_so(
    door: Door, *, agents: bool
) -> None:
    """What the engine may do on a dev host is not what an agent may make up."""
    standing = parse_policy(SHIPPED.read_text(), "dev.toml").standing[0]
    theirs = standing.model_copy(update={"agents": agents})
    config = door.config.model_copy(update={"standing": (theirs,)})
    folder = str(door.trace.parent)
    command = Launch.model_validate(
        {
            "argv": ("sh", "-c", f"echo ran >> {door.trace}; exec sleep 20"),
            "cwd": folder,
            "log": f"{folder}/log",
            "launch_id": "made-up",
        }
    )
    wish = Wish(command, HERE.model_copy(update={"tier": "dev"}), "it is only dev")
    executor = Executor(door.journal, clock=SystemClock(), config=config, connect=open_transport)
    done = await replace(door, config=config, executor=executor).carry_out(wish)
    await executor.close()
    if agents:
        assert isinstance(done, Executed)
        assert done.authorization.rule == "standing dev-hosts"
        assert isinstance(done.observation, Launched)
        assert done.observation.identity is not None
        os.kill(done.observation.identity.pid, signal.SIGKILL)
    else:
        assert isinstance(done, Waits)
        assert door.ran() == 0


async def test_a_freeze_refuses_a_direct_wish_too(door: Door) -> None:
    with door.person() as journal:
        freeze(journal, HostRef(HERE.name, HERE.transport), "maintenance")
    refused = await door.carry_out(door.wish)
    assert isinstance(refused, Executed)
    assert (refused.outcome.kind, refused.authorization.rule) == ("command_denied", "G13")
    assert door.ran() == 0


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    """A process that does nothing."""
    process = subprocess.Popen(["sleep", "300"], start_new_session=True)
    yield process
    process.kill()
    process.wait()


async def stop(door: Door, process: subprocess.Popen[bytes]) -> SignalProcess:
    """The typed signal to that very process, as a listing shows it."""
    seen = await door.executor.execute(ListProcesses(), HERE, state=PolicyState(), reason="a look")
    table = seen.observation
    assert isinstance(table, ProcessTable)
    row = next(row for row in table.processes if row.pid == process.pid)
    return SignalProcess(victim=table.identity(row), signal="TERM")


async def approved_stop(door: Door, process: subprocess.Popen[bytes]) -> tuple[SignalProcess, str]:
    """The signal, and the id of a person's yes to it."""
    command = await stop(door, process)
    approval = await door.asked(command)
    with door.person() as journal:
        yes(journal, door.config, approval)
    return command, approval


async def test_a_yes_is_not_used_when_its_victim_has_gone_meanwhile(
    door: Door, sleeper: subprocess.Popen[bytes]
) -> None:
    """The victims are observed again, and the yes ends with what it was given for."""
    command, approval = await approved_stop(door, sleeper)
    sleeper.kill()
    sleeper.wait()
    done = await door.carry_out(Wish(command, HERE, "to see it"))
    assert isinstance(done, Executed)
    assert (done.outcome.kind, done.authorization.rule) == (
        "command_denied",
        f"approval {approval} stale",
    )
    kinds = [event.kind for event in door.journal.reader().events()]
    assert "approval_expired" in kinds
    sent = [event.payload for event in door.journal.reader().events(kinds={"command_intended"})]
    assert [i.command for i in sent if isinstance(i, CommandIntended)] == ["list_processes"] * 2


async def test_a_yes_to_a_signal_stops_the_process_that_was_seen_again(
    door: Door, sleeper: subprocess.Popen[bytes]
) -> None:
    command, _ = await approved_stop(door, sleeper)
    done = await door.carry_out(Wish(command, HERE, "to see it"))
    assert isinstance(done, Executed)
    assert done.outcome.kind == "command_completed", done.authorization
    assert sleeper.wait(timeout=20) == -15


async def test_two_who_use_one_yes_at_once_act_once(
    door: Door, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever read it as unused before the other acted would act on it again."""
    asked = await door.carry_out(door.wish)
    assert isinstance(asked, Waits)
    with door.person() as journal:
        yes(journal, door.config, asked.question.approval_id)
    reads: list[int] = []
    both_have_asked, second_has_read = threading.Barrier(2, timeout=60), threading.Event()

    def over() -> bool | None:
        """Whether the other has acted and let go of the host."""
        try:
            with door.executor.acting(HERE):
                return door.ran() > 0 or None
        except HostBusy:
            return None

    def held_back(reader: Reader, host: Host, **told: bool) -> PolicyState:
        """The real state; the two that are about to act both have it before either acts."""
        reads.append(1)
        mine = len(reads)
        state = known_of(reader, host, **told)
        if mine <= 2:
            both_have_asked.wait()
        elif mine == 3:
            second_has_read.wait(2)
        elif mine == 4:
            second_has_read.set()
            wait_for(over, 20, "the end of the other's act")
        return state

    monkeypatch.setattr("agentops.approvals.known_of", held_back)
    doors = [
        Executor(door.journal, clock=SystemClock(), config=door.config, connect=open_transport)
        for _ in range(2)
    ]
    await asyncio.gather(*(door.carry_out(door.wish, executor) for executor in doors))
    for executor in doors:
        await executor.close()
    assert door.ran() == 1


async def test_neither_the_user_that_asked_nor_its_tree_of_processes_can_approve(
    door: Door,
) -> None:
    asked = await door.carry_out(door.wish)
    assert isinstance(asked, Waits)
    name, clock = asked.question.approval_id, SystemClock()
    me = this_party()
    below = Party(SOMEBODY_ELSE.uid, (2**22, *me.processes[-1:]))
    with door.person() as journal:
        with pytest.raises(UsageError, match="the user that asked"):
            approve(journal, clock, name, config=door.config, by=me)
        with pytest.raises(UsageError, match="another terminal"):
            approve(journal, clock, name, config=door.config, by=below)
        assert [card.approval_id for card in open_questions(journal.reader(), 0)] == [name]


async def test_only_a_signature_of_a_named_operator_counts_where_policy_names_one(
    door: Door, tmp_path: Path
) -> None:
    """Not another user's yes, not another key's, and not a yes that stands in the journal bare."""
    named = make_key(tmp_path / "operator.pem", b"open sesame")
    make_key(tmp_path / "other.pem", b"")
    text = f'{SHIPPED.read_text()}\n[approvals]\noperators = ["{named}"]\n'
    config, clock = parse_policy(text, "policy.toml"), SystemClock()
    key = read_key(tmp_path / "operator.pem", lambda: b"open sesame")
    other = read_key(tmp_path / "other.pem", bytes)
    with pytest.raises(UsageError, match="does not open"):
        read_key(tmp_path / "operator.pem", lambda: b"guess")
    name = await door.asked(door.wish.command, config)
    with door.person() as journal:
        with pytest.raises(UsageError, match="--operator-key"):
            approve(journal, clock, name, config=config, by=SOMEBODY_ELSE)
        with pytest.raises(UsageError, match="does not name"):
            approve(journal, clock, name, config=config, by=SOMEBODY_ELSE, key=other)
        yes(journal, door.config, name)  # a program that skips the question who may answer
    still = await door.carry_out(door.wish, config=config)
    assert isinstance(still, Waits)
    assert door.ran() == 0
    with door.person() as journal:
        again = still.question.approval_id
        approve(journal, clock, again, config=config, by=this_party(), key=key)
    strict = Executor(door.journal, clock=clock, config=config, connect=open_transport)
    done = await door.carry_out(door.wish, strict, config)
    await strict.close()
    assert isinstance(done, Executed)
    assert (door.ran(), done.authorization.rule) == (1, f"approval {again}")
    last = [event.payload for event in door.journal.reader().events(kinds={"approval_granted"})][-1]
    assert isinstance(last, ApprovalGranted)
    third = await door.asked(door.wish.command, config)
    with door.person() as journal:
        journal.append(NewEvent(last.model_copy(update={"approval_id": third})))
    assert isinstance(await door.carry_out(door.wish, config=config), Waits)
    assert door.ran() == 1


async def test_a_card_shows_the_argv_of_each_layer_and_hides_no_short_word(door: Door) -> None:
    """What stands on it comes from the typed command; a long program is named by its digest."""
    host = Host(name="far", address="h", layers=("pct:200",), tier="prod", user="ops")
    command = RunArgv.model_validate({"argv": ("sh", "-c", "echo 'x\x1b[2K'", "", "p" * 200)})
    await door.carry_out(Wish(command, host, "harmless, says the agent"))
    (card,) = open_questions(door.journal.reader(), 0)
    assert [name for name, _ in by_layer(card)] == ["ssh:ops@h:22", "pct:200"]
    (_, outer), (_, inner) = by_layer(card)
    assert outer[:4] == ("pct", "exec", "200", "--keep-env")
    assert inner == command.argv()
    line = argv_line(inner)
    assert line.startswith("sh -c \"echo 'x\\x1b[2K'\"")
    assert "<200 characters, sha256 " in line
    text = "\n".join(card.lines())
    assert "tier prod" in text
    assert "destroys" in text
    assert "harmless" not in text


async def test_a_question_that_nobody_answered_in_time_ends_on_record(door: Door) -> None:
    """It is asked anew under another id, and cannot be answered any more."""
    hasty = parse_policy(f"{SHIPPED.read_text()}\n[limits]\napproval_s = 0\n", "policy.toml")
    first, second = (
        await door.asked(door.wish.command, hasty),
        await door.asked(door.wish.command, hasty),
    )
    assert first != second
    ended = [event.payload for event in door.journal.reader().events(kinds={"approval_expired"})]
    assert ended == [ApprovalExpired(approval_id=first, reason="nobody answered in time")]
    with door.person() as journal, pytest.raises(UsageError, match="has expired"):
        yes(journal, hasty, second)
