"""What must hold for every state: of the real ones that runs pass through, and of invented ones."""

import json
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import JsonValue

from agentops.policy import PolicyState, Run, decide
from agentops.policy.config import Forbid, RuleWhen
from agentops.policy.decision import Action
from agentops.policy.facts import Fact, FactTable
from agentops.policy.ledger import Incident
from agentops.policy.processes import read_table
from agentops.policy.view import SECOND_US
from journal.events import Identity
from tests.support.simulated import config, moments

# The first example that needs a run simulates it; the next ones find it made.
UNHURRIED = settings(deadline=None)
SEEDS = st.integers(0, 24)
NOW_US = 1_700_000_000 * SECOND_US


def moment(data: st.DataObject) -> tuple[PolicyState, int]:
    """A state that some run passed through, and its time."""
    found = moments(data.draw(SEEDS))
    state, now_us, _ = found[data.draw(st.integers(0, len(found) - 1))]
    return state, now_us


def intrusiveness(action: Action) -> int:
    """How deep an action reaches in: 0 says or looks, 3 changes, 4 ends by force."""
    if not isinstance(action, Run) or action.purpose in {"probe", "wait", "reconcile"}:
        return 0
    return 4 if action.arguments.get("signal") == "KILL" else 3


@UNHURRIED
@given(st.data())
def test_deciding_twice_gives_the_same_bytes(data: st.DataObject) -> None:
    """Whatever the order in which facts came into the table."""
    state, now_us = moment(data)
    shuffled = data.draw(st.permutations(list(state.facts.values())))
    again = replace(state, facts=FactTable().with_facts(shuffled))
    first, second = decide(state, config(), now_us), decide(again, config(), now_us)
    assert first.made("").model_dump_json() == second.made("").model_dump_json()


@UNHURRIED
@given(st.data())
def test_no_fact_whatever_yields_a_kill_without_a_fresh_identity(data: st.DataObject) -> None:
    """Also long after the last look, and with facts missing."""
    state, now_us = moment(data)
    dropped = data.draw(st.lists(st.sampled_from(sorted(state.facts) or [("", "")]), max_size=3))
    late_us = now_us + data.draw(st.integers(0, 30 * SECOND_US))
    decision = decide(replace(state, facts=state.facts.without(*dropped)), config(), late_us)
    if intrusiveness(decision.action) < 4:
        return
    assert isinstance(decision.action, Run)
    table = read_table(state.facts)
    victim = Identity.model_validate(decision.action.arguments["victim"])
    assert table is not None
    assert table.find(victim) is not None
    assert table.complete
    assert late_us - table.at_us <= 5 * SECOND_US
    assert [act for act in state.acts if victim in act.victims and act.signal != "CONT"]


@UNHURRIED
@given(st.data())
def test_removing_a_fact_never_makes_the_engine_bolder(data: st.DataObject) -> None:
    """What is not known is looked at, not acted on."""
    state, now_us = moment(data)
    if not state.facts:
        return
    key = data.draw(st.sampled_from(sorted(state.facts)))
    poorer = replace(state, facts=state.facts.without(key))
    before = intrusiveness(decide(state, config(), now_us).action)
    assert intrusiveness(decide(poorer, config(), now_us).action) <= before


WHENS = st.builds(
    RuleWhen,
    purpose=st.sampled_from([None, "signal", "deploy", "relaunch"]),
    signal=st.sampled_from([None, "INT", "TERM", "KILL"]),
    rung=st.sampled_from([None, "interrupt", "interrupt_again", "terminate", "kill"]),
    lead=st.sampled_from([None, "H3", "H4"]),
    tier=st.sampled_from([None, "dev", "prod"]),
)


@UNHURRIED
@given(st.data(), WHENS)
def test_adding_a_forbid_enables_nothing(data: st.DataObject, when: RuleWhen) -> None:
    """The action stays, or gives way to one that changes nothing."""
    state, now_us = moment(data)
    stricter = config().model_copy(update={"forbid": (Forbid(id="added", when=when),)})
    before = decide(state, config(), now_us).action
    after = decide(state, stricter, now_us).action
    assert after == before or intrusiveness(after) == 0


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**40), 2**40) | st.text(max_size=8),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=8,
)
KEYS = st.sampled_from(
    [
        ("host", "process_table"),
        ("heartbeat", "seen"),
        ("process:7:9", "row"),
        ("process:7:9", "uninterruptible_since_us"),
        ("file:/job/code.py", "sha256"),
        ("log:/job/train.log", "signatures"),
    ]
)


@UNHURRIED
@given(st.dictionaries(KEYS, JSON, max_size=8), st.sampled_from(["job", "other", None]))
def test_decide_is_total(values: dict[tuple[str, str], JsonValue], job: str | None) -> None:
    """Any facts, of any shape, lead to some decision that has canonical bytes."""
    facts = [
        Fact(subject, predicate, value, "e", NOW_US, 1)
        for (subject, predicate), value in values.items()
    ]
    state = PolicyState(
        facts=FactTable().with_facts(facts), incident=Incident("i", job, NOW_US), order=2
    )
    made = decide(state, config(), NOW_US).made("")
    assert json.loads(json.dumps(made.decision)) == made.decision


def test_a_closed_incident_stays_closed() -> None:
    """Deciding on it again gives its resolution and no act."""
    state, now_us, last = moments(0)[-1]
    assert state.incident is not None
    closed = replace(state, incident=replace(state.incident, resolution="STOPPED"))
    action = decide(closed, config(), now_us).action
    assert action.kind == "close"
    assert last.action.kind == "close"


def test_an_older_table_than_the_limit_is_looked_at_again() -> None:
    """The first signal of a run becomes a look when the table has aged."""
    for state, now_us, decision in moments(3):
        if intrusiveness(decision.action) == 3:
            later = decide(state, config(), now_us + 11 * SECOND_US).action
            assert isinstance(later, Run)
            assert later.command == "list_processes"
            return
    raise AssertionError("the run signals nobody")


def test_a_look_without_answer_is_not_repeated_at_once() -> None:
    """One second after the first failure, two after the second; meanwhile the engine pauses."""
    failed = repeated = 0
    for seed in range(25):
        for state, now_us, decision in moments(seed):
            waits = {
                row.command: row.failed_at_us + (SECOND_US << (row.failed_in_row - 1))
                for row in state.probing
                if row.failed_in_row
            }
            failed += bool(waits)
            action = decision.action
            if isinstance(action, Run) and action.command in waits:
                repeated += 1
                assert now_us >= waits[action.command]
    assert failed
    assert repeated
