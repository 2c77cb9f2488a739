"""What ended processes left: whose it was, what proves their end, and what is never cleared."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import JsonValue

from agentops.policy import Close, Judge, PolicyState, Run
from agentops.policy.config import Lock
from agentops.policy.decision import Step
from agentops.policy.guards import ask_all
from agentops.policy.learning import (
    HELD_BY,
    SHARED_MEMORY,
    Source,
    learn,
    lock_subject,
    segment_subject,
)
from agentops.policy.ledger import Act, Member
from agentops.policy.leftovers import clearing, left_segments, lock_seen, read_owner, stale_locks
from agentops.policy.process import Process
from agentops.policy.processes import read_table
from agentops.policy.reconciling import reconciling
from agentops.policy.view import View
from journal.events import Identity, JsonObject
from tests.support.acting import later_term, view_of

MIB = 1 << 20
LOCK = "/job/train.lock"
ENDED = 31_000


def stopped() -> tuple[PolicyState, int]:
    """A run's state with its acts settled and a listing after them."""
    state, now_us, _ = later_term()
    return state, now_us


def living(state: PolicyState) -> Process:
    """Some process that lives and is not init."""
    return next(
        fact.value
        for fact in state.facts.values()
        if isinstance(fact.value, Process) and fact.value.pid > 1
    )


def seen(
    state: PolicyState, command: str, observation: JsonObject, arguments: JsonObject | None = None
) -> PolicyState:
    """The state after one more look, later than everything."""
    order = state.order + 1
    source = Source("look", 1, order, arguments or {})
    learned = learn(state.facts, command, observation, source)
    return replace(state, facts=learned.facts, order=order)


def with_lock(state: PolicyState, text: str | None, *, held: bool = False) -> PolicyState:
    """The state after a look at the lock."""
    locks: list[JsonValue] = [{"kind": "FLOCK", "mode": "WRITE", "holder": None}] if held else []
    row: JsonObject = {
        "path": LOCK,
        "exists": text is not None,
        "pid_text": text,
        "locks": locks,
    }
    return seen(state, "locks", {"files": [row]})


def segment(name: str, **more: JsonValue) -> JsonObject:
    """One row of a look at shared memory: orphaned, its creator known and ended."""
    row: JsonObject = {
        "name": name,
        "used_bytes": 8 * MIB,
        "uid": 0,
        "inode": 7,
        "held_by": [],
        "held_since_ticks": [],
        "creator_pid": ENDED,
        "creator_alive": False,
        "orphaned": True,
    }
    return row | more


def with_segments(
    state: PolicyState, rows: Sequence[JsonObject], *, free_mib: int = 1
) -> PolicyState:
    """The state after a look at shared memory."""
    listed: list[JsonValue] = list(rows)
    return seen(state, "shared_memory", {"free_bytes": free_mib * MIB, "segments": listed})


def lock_view(state: PolicyState, now_us: int, text: str | None, *, held: bool = False) -> View:
    """The view after a look at the lock."""
    return view_of(with_lock(state, text, held=held), now_us)


def standing(view: View) -> str:
    """What is thought of the one lock."""
    found = lock_seen(view, view.job.lock[0])
    assert found is not None
    return found.standing


def test_a_lock_is_moved_only_where_its_owner_is_proven_to_have_ended() -> None:
    """By an absent pid, or by start ticks that are another's."""
    state, now_us = stopped()
    process = living(state)
    cases = {
        f"{ENDED} 77": "left",
        f"{process.pid} {process.start_ticks + 1}": "left",
        f"{process.pid} {process.start_ticks}": "held",
        "": "unowned",
        f"{ENDED}": "unreadable",
        f"{ENDED} 77 node-3": "unreadable",
        "held by node-3": "unreadable",
        "1 77": "unreadable",
        "0 77": "unreadable",
    }
    assert {text: standing(lock_view(state, now_us, text)) for text in cases} == cases
    assert standing(lock_view(state, now_us, None)) == "absent"
    assert standing(lock_view(state, now_us, f"{ENDED} 77", held=True)) == "held"


def test_a_bare_pid_that_lives_is_an_owner_unless_the_job_had_that_pid_before() -> None:
    """Another process with the pid of an ended member is not the member."""
    state, now_us = stopped()
    process = living(state)
    view = view_of(with_lock(state, str(process.pid)), now_us)
    lock = Lock(path=LOCK)
    found = lock_seen(view, lock)
    assert found is not None
    table = view.table
    assert table is not None
    known = {member.identity.pid for member in state.members}
    stranger = next(p for p in table if p.pid > 1 and p.pid not in known)
    view = view_of(with_lock(state, str(stranger.pid)), now_us)
    found = lock_seen(view, lock)
    assert found is not None
    assert found.standing == "held"
    earlier = table.identity(stranger).model_copy(update={"start_ticks": 3})
    member = Member(earlier, "trainer", "test", "")
    reused = replace(with_lock(state, str(stranger.pid)), members=(*state.members, member))
    found = lock_seen(view_of(reused, now_us), lock)
    assert found is not None
    assert (found.standing, found.start) == ("left", 3)
    elsewhere = member.identity.model_copy(update={"boot_id": "another"})
    other = replace(reused, members=(*state.members, replace(member, identity=elsewhere)))
    found = lock_seen(view_of(other, now_us), lock)
    assert found is not None
    assert found.standing == "held"


@given(st.text(alphabet="0123456789 \t\nabc-", max_size=16), st.sampled_from(["pid", "both"]))
def test_an_owner_is_read_whole_or_not_at_all(text: str, says: str) -> None:
    """Any text: what is read writes the same text again."""
    lock = Lock(path=LOCK, says="pid" if says == "pid" else "pid_and_start_ticks")
    owner = read_owner(text, lock)
    if owner is not None:
        pid, start = owner
        assert pid > 1
        words = [str(pid)] if start is None else [str(pid), text.split()[1]]
        assert text.split() == words
        assert (start is None) is (says == "pid")


def step_of(state: PolicyState, now_us: int) -> Step:
    """What is done about leftovers."""
    step = clearing(view_of(state, now_us))
    assert step is not None
    return step


def test_each_look_comes_before_its_act_and_a_verdict_after_it() -> None:
    """Look, move aside, look again, room, verdict."""
    state, now_us = stopped()
    look = step_of(state, now_us).action
    assert isinstance(look, Run)
    assert (look.command, look.purpose) == ("locks", "probe")
    state = with_lock(state, f"{ENDED} 77")
    act = step_of(state, now_us).action
    assert isinstance(act, Run)
    assert (act.command, act.purpose) == ("move_aside", "clear")
    assert act.arguments["owner_pid"] == ENDED
    done = acted(state, act)
    again = step_of(done, now_us).action
    assert isinstance(again, Run)
    assert again.command == "locks"
    gone = with_lock(done, None)
    room = step_of(gone, now_us).action
    assert isinstance(room, Run)
    assert room.command == "shared_memory"
    verdict = step_of(with_segments(gone, [], free_mib=64), now_us).action
    assert isinstance(verdict, Judge)
    assert (verdict.condition["kind"], verdict.verdict) == ("leftovers_cleared", "confirmed")


def acted(state: PolicyState, run: Run, status: str = "completed") -> PolicyState:
    """The state after *run* took place."""
    order = state.order + 1
    act = Act(
        command_id=f"a{order}",
        command=run.command,
        effect="changes",
        arguments=run.arguments,
        victims=(),
        decision_id=None,
        at_us=1,
        order=order,
        status="unknown" if status == "unknown" else "completed",
        ended_order=order,
        events=("a",),
    )
    return replace(state, acts=(*state.acts, act), order=order)


def test_what_cannot_be_moved_twice_is_a_persons_matter() -> None:
    """A lock that stands after two tries, and one that is held."""
    state, now_us = stopped()
    state = with_lock(state, f"{ENDED} 77")
    for _ in range(2):
        run = step_of(state, now_us).action
        assert isinstance(run, Run)
        state = with_lock(acted(state, run), f"{ENDED} 77")
    assert isinstance(step_of(state, now_us).action, Close)
    for text in ("held by node-3",):
        assert isinstance(step_of(with_lock(stopped()[0], text), now_us).action, Close)


def segments(state: PolicyState, now_us: int, *rows: JsonObject) -> list[str]:
    """The names that may go."""
    return [found.name for found in left_segments(view_of(with_segments(state, rows), now_us))]


def test_a_segment_goes_only_with_a_known_owner_that_has_ended() -> None:
    """One change each to a segment that may go makes it stay."""
    state, now_us = stopped()
    process = living(state)
    may_go = segment("torch_31000_1_0")
    assert segments(state, now_us, may_go) == ["torch_31000_1_0"]
    stays: tuple[JsonObject, ...] = (
        {"orphaned": False},
        {"orphaned": None},
        {"creator_pid": None},
        {"creator_alive": True},
        {"creator_alive": None},
        {"creator_pid": process.pid},
        {"name": "model.safetensors"},
        {"name": "torch_31000/x"},
        {"inode": None},
        {"used_bytes": None},
    )
    for change in stays:
        assert segments(state, now_us, may_go | change) == [], change


def test_a_segment_without_a_pid_in_its_name_goes_with_those_who_were_seen_to_hold_it() -> None:
    """Members only, all of them ended; one stranger among them keeps it."""
    state, now_us = stopped()
    table = read_table(state.facts)
    assert table is not None
    gone = table.identity(living(state)).model_copy(update={"pid": 20_000, "start_ticks": 9})
    state = replace(state, members=(*state.members, Member(gone, "worker", "test", "")))
    held = segment(
        "psm_0011", creator_pid=None, creator_alive=None, orphaned=False,
        held_by=[20_000], held_since_ticks=[9],
    )  # fmt: skip
    state = with_segments(state, [held])
    assert state.facts.value(segment_subject(7, "psm_0011"), HELD_BY) == [[20_000, 9]]
    free = held | {"orphaned": True, "held_by": [], "held_since_ticks": []}
    assert segments(state, now_us, free) == ["psm_0011"]
    # The same inode under another name, and another inode under the same name, are others.
    assert segments(state, now_us, free | {"inode": 8}) == []
    assert segments(state, now_us, free | {"name": "psm_0012"}) == []
    stranger = held | {"held_by": [20_001], "held_since_ticks": [9]}
    assert segments(with_segments(state, [stranger]), now_us, free) == []
    alive = living(state)
    member = Member(table.identity(alive), "trainer", "test", "")
    state = replace(state, members=(*state.members, member))
    by_living = held | {"held_by": [alive.pid], "held_since_ticks": [alive.start_ticks]}
    assert segments(with_segments(state, [by_living]), now_us, free) == []


def test_no_more_segments_go_than_make_the_room() -> None:
    """Largest first; none where there is room already."""
    state, now_us = stopped()
    state = with_lock(state, None)
    rows = [
        segment("torch_31000_1_0", used_bytes=6 * MIB),
        segment("torch_31000_2_0", used_bytes=30 * MIB, inode=8),
        segment("torch_31000_3_0", used_bytes=2 * MIB, inode=9),
    ]
    needed = view_of(state, now_us).job.shared_memory
    assert needed is not None
    for free, names in (
        (needed.free_mib - 30, ["torch_31000_2_0"]),
        (needed.free_mib - 31, ["torch_31000_2_0", "torch_31000_1_0"]),
        (0, ["torch_31000_2_0"]),
    ):
        run = step_of(with_segments(state, rows, free_mib=free), now_us).action
        assert isinstance(run, Run)
        listed = run.arguments["segments"]
        assert isinstance(listed, list)
        assert [row["name"] for row in listed if isinstance(row, dict)] == names
    assert clearing(view_of(with_segments(state, rows, free_mib=needed.free_mib), now_us)) is None
    close = step_of(with_segments(state, [], free_mib=needed.free_mib - 1), now_us).action
    assert isinstance(close, Close)


def failed(state: PolicyState, now_us: int, run: Run) -> set[str]:
    """The guards that do not pass."""
    return {guard.guard for guard in ask_all(view_of(state, now_us), run) if not guard.passed}


def test_the_guard_lets_only_what_is_proven_be_cleared() -> None:
    """G17: the very arguments that the evidence gives, and nothing beside them."""
    state, now_us = stopped()
    state = with_segments(with_lock(state, f"{ENDED} 77"), [segment("torch_31000_1_0")])
    view = view_of(state, now_us)
    (lock,), (left,) = stale_locks(view), left_segments(view)
    move = Run("clear", "move_aside", lock.arguments())
    remove = Run("clear", "remove_segments", {"segments": [left.arguments()]})
    assert failed(state, now_us, move) == set()
    assert failed(state, now_us, remove) == set()
    for changed in (
        replace(move, arguments=lock.arguments() | {"path": "/job/other.lock"}),
        replace(move, arguments=lock.arguments() | {"owner_pid": ENDED + 1}),
        replace(remove, arguments={"segments": [left.arguments() | {"name": "torch_31000_9_0"}]}),
        replace(remove, arguments={"segments": [left.arguments() | {"inode": 8}]}),
        replace(remove, arguments={"segments": [left.arguments(), {"name": "x"}]}),
        replace(remove, arguments={"segments": None}),
        Run("clear", "launch", {}),
    ):
        assert "G17" in failed(state, now_us, changed), changed
    blind = replace(state, facts=state.facts.without((lock_subject(LOCK), "seen"), SHARED_MEMORY))
    assert "G17" in failed(blind, now_us, move)
    assert "G17" in failed(blind, now_us, remove)
    assert "G17" not in failed(blind, now_us, Run("relaunch", "launch", {}))


@pytest.mark.parametrize(("text", "verdict"), [(f"{ENDED} 77", "refuted"), (None, "confirmed")])
def test_a_move_whose_answer_was_lost_is_settled_by_a_look(text: str | None, verdict: str) -> None:
    """The lock stands as it stood, or it does not."""
    state, now_us = stopped()
    lock = stale_locks(lock_view(state, now_us, f"{ENDED} 77"))[0]
    state = acted(state, Run("clear", "move_aside", lock.arguments()), "unknown")
    look = reconciling(view_of(state, now_us))
    assert look is not None
    assert isinstance(look.action, Run)
    assert (look.action.command, look.action.purpose) == ("locks", "reconcile")
    settled = reconciling(view_of(with_lock(state, text), now_us))
    assert settled is not None
    assert isinstance(settled.action, Judge)
    assert settled.action.verdict == verdict


@pytest.mark.parametrize(("left", "verdict"), [(True, "refuted"), (False, "confirmed")])
def test_a_removal_whose_answer_was_lost_is_settled_by_a_look(left: bool, verdict: str) -> None:  # noqa: FBT001
    """One of the segments is left, or none; a new one of that name is another."""
    state, now_us = stopped()
    rows: list[JsonValue] = [{"name": "a1b", "inode": 7}, {"name": "a1c", "inode": 8}]
    run = Run("clear", "remove_segments", {"segments": rows})
    state = acted(state, run, "unknown")
    look = reconciling(view_of(state, now_us))
    assert look is not None
    assert isinstance(look.action, Run)
    assert look.action.command == "shared_memory"
    there = [segment("a1b", inode=9), *([segment("a1c", inode=8)] if left else [])]
    settled = reconciling(view_of(with_segments(state, there), now_us))
    assert settled is not None
    assert isinstance(settled.action, Judge)
    assert settled.action.verdict == verdict


def test_identities_in_the_arguments_are_whole() -> None:
    """What the host compares again: boot, namespace, pid and start of each who held it."""
    state, now_us = stopped()
    table = read_table(state.facts)
    assert table is not None
    gone = table.identity(living(state)).model_copy(update={"pid": 20_000, "start_ticks": 9})
    state = replace(state, members=(*state.members, Member(gone, "worker", "test", "")))
    held = segment("psm_0011", held_by=[20_000], held_since_ticks=[9], orphaned=False)
    state = with_segments(with_segments(state, [held]), [segment("psm_0011")])
    (found,) = left_segments(view_of(state, now_us))
    owners = found.arguments()["owners"]
    assert isinstance(owners, list)
    assert [Identity.model_validate(owner) for owner in owners] == [gone]
