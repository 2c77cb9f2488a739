"""What must hold for every state: of the real ones that runs pass through, and of invented ones."""

import json
from dataclasses import dataclass, replace
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import JsonValue

from agentops.bench.world import SCRIPT
from agentops.policy import PolicyConfig, PolicyState, Run, decide, ledger
from agentops.policy.config import Forbid, RuleWhen
from agentops.policy.decision import Action
from agentops.policy.facts import Fact, FactTable
from agentops.policy.processes import TABLE, read_table
from agentops.policy.view import SECOND_US
from journal.events import Identity
from tests.support.shown import Host, beat, row, shell, worker
from tests.support.simulated import config, moments
from tests.support.telling import Incident

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


@dataclass(frozen=True)
class Moment:
    """A state at which something was decided, and under which policy."""

    state: PolicyState
    now_us: int
    config: PolicyConfig

    @property
    def boldness(self) -> int:
        """How deep the decision reaches in."""
        return intrusiveness(decide(self.state, self.config, self.now_us).action)


@cache
def kills() -> tuple[Moment, ...]:
    """Moments at which a KILL is decided: of simulated runs, and of told incidents."""
    found = [
        Moment(state, now_us, config())
        for seed in range(60)
        for state, now_us, decision in moments(seed)
        if intrusiveness(decision.action) == 4
    ]
    trainer, says = row(70), beat(70, 10)
    hosts = (
        Host(rows=(trainer,), beat=says),
        Host(rows=(trainer | {"signals_ignored": [2]},), beat=says),
        Host(rows=(shell(50), trainer | {"ppid": 50}), beat=says),
        Host(rows=(shell(50, signals_caught=[]), trainer | {"ppid": 50}), beat=says),
        Host(rows=(trainer, worker(71, 70), row(90, cmdline=["less", SCRIPT])), beat=says),
        Host(rows=(trainer | {"state": "T"},), beat=says),
    )
    return (*found, *(told(host) for host in hosts))


def told(host: Host) -> Moment:
    """The moment of the first KILL in a told incident, in which nothing gentler helps."""
    incident = Incident(host)
    while incident.decide().action.kind != "close":
        made = incident.decision
        assert made is not None
        if intrusiveness(made.action) == 4:
            state = replace(incident.state, decisions=incident.state.decisions[:-1])
            return Moment(state, incident.now_us, incident.config)
        if intrusiveness(made.action):
            incident.done()
        else:
            incident.goes_on(made)
    raise AssertionError(f"no KILL among {incident.steps}")


@cache
def acts() -> tuple[Moment, ...]:
    """Moments of simulated runs at which something is changed."""
    return tuple(
        Moment(state, now_us, config())
        for seed in range(25)
        for state, now_us, decision in moments(seed)
        if intrusiveness(decision.action)
    )


# At once; at the limits of freshness and one past them; after everybody forgot.
LATE_US = st.sampled_from([0, 0, 5 * SECOND_US, 5 * SECOND_US + 1, 10 * SECOND_US + 1, 30_000_000])


def writing(at: Moment, *, held: bool) -> Moment:
    """The same moment, at which the newest heartbeat says whether a checkpoint is written."""
    newest = replace(at.state.samples[-1], checkpoint_writing=held)
    return replace(at, state=replace(at.state, samples=(*at.state.samples[:-1], newest)))


def drawn(data: st.DataObject) -> Moment:
    """A moment of some run, one that acts or one that kills, perhaps held back, perhaps late."""
    kind = data.draw(st.sampled_from(["any", "act", "kill", "kill", "held"]))
    if kind == "any":
        at = Moment(*moment(data), config())
    elif kind == "act":
        at = data.draw(st.sampled_from(acts()))
    else:
        at = writing(data.draw(st.sampled_from(kills())), held=kind == "held")
    return replace(at, now_us=at.now_us + data.draw(LATE_US))


@UNHURRIED
@given(st.data())
def test_no_fact_whatever_yields_a_kill_without_a_fresh_identity(data: st.DataObject) -> None:
    """Also long after the last look, with facts missing, and with a listing that is cut."""
    at = drawn(data)
    facts = sorted(at.state.facts) or [("", "")]
    dropped = data.draw(st.just([]) | st.lists(st.sampled_from(facts), max_size=2))
    known = at.state.facts.without(*dropped)
    head = known.get(TABLE)
    if head is not None and isinstance(head.value, dict) and data.draw(st.booleans()):
        cut = head.value | {"complete": False}
        known = known.with_facts([replace(head, value=cut)])
    poorer = replace(at.state, facts=known)
    decision = decide(poorer, at.config, at.now_us)
    if intrusiveness(decision.action) < 4:
        return
    assert isinstance(decision.action, Run)
    table = read_table(poorer.facts)
    victim = Identity.model_validate(decision.action.arguments["victim"])
    assert table is not None
    assert table.complete
    listed = table.by_pid[victim.pid]
    assert (listed.start_ticks, table.boot_id) == (victim.start_ticks, victim.boot_id)
    assert at.now_us - table.at_us <= 5 * SECOND_US
    assert [act for act in at.state.acts if victim in act.victims and act.signal != "CONT"]


@UNHURRIED
@given(st.data())
def test_removing_a_fact_never_makes_the_engine_bolder(data: st.DataObject) -> None:
    """What is not known is looked at, not acted on: whichever fact it is."""
    not_bolder(drawn(data))


@pytest.mark.parametrize("late_us", [0, 5 * SECOND_US + 1])
@pytest.mark.parametrize("held", [False, True])
def test_nor_does_it_wherever_a_kill_is_due(*, held: bool, late_us: int) -> None:
    """Also where a checkpoint in writing, or the age of a listing, is all that holds it back."""
    for at in kills():
        not_bolder(writing(replace(at, now_us=at.now_us + late_us), held=held))


def not_bolder(at: Moment) -> None:
    """No fact's absence leads to a bolder step."""
    before = at.boldness
    for key in at.state.facts:
        poorer = replace(at.state, facts=at.state.facts.without(key))
        assert replace(at, state=poorer).boldness <= before, key


WHENS = st.builds(
    RuleWhen,
    purpose=st.none() | st.sampled_from(["signal", "deploy", "relaunch"]),
    signal=st.none() | st.sampled_from(["INT", "TERM", "KILL"]),
    rung=st.none() | st.sampled_from(["interrupt", "interrupt_again", "terminate", "kill"]),
    lead=st.none() | st.sampled_from(["H3", "H4"]),
    tier=st.none() | st.sampled_from(["dev", "prod"]),
)


@UNHURRIED
@given(st.data(), WHENS)
def test_adding_a_forbid_enables_nothing(data: st.DataObject, when: RuleWhen) -> None:
    """The action stays, or gives way to one that changes nothing."""
    at = drawn(data)
    before = decide(at.state, at.config, at.now_us).action
    for what in (when, RuleWhen()):
        rules = (*at.config.forbid, Forbid(id="added", when=what))
        stricter = at.config.model_copy(update={"forbid": rules})
        after = decide(at.state, stricter, at.now_us).action
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
        facts=FactTable().with_facts(facts), incident=ledger.Incident("i", job, NOW_US), order=2
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
