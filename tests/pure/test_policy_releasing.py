"""Whether memory of the cards is free: two looks, patience, and never a guess."""

from dataclasses import replace

import pytest
from pydantic import JsonValue

from agentops.policy import Close, Judge, Pause, PolicyState, Run
from agentops.policy.config import Job
from agentops.policy.decision import Step
from agentops.policy.devices import used_mib
from agentops.policy.learning import Source, learn
from agentops.policy.ledger import Judged, Waited
from agentops.policy.releasing import releasing
from agentops.policy.view import SECOND_US, View, look
from journal.events import JsonObject, Verdict
from tests.support.acting import later_term
from tests.support.simulated import config

IDLE = 600
STOPPED = Judged({"kind": "job_stopped"}, "confirmed", 0, 10_000, "stopped")


def job(**changes: object) -> Job:
    """The simulated job on cards."""
    return config().job["job"].model_copy(update={"gpu": True, **changes})


def cards(*mib: int | None, state: str = "ok", kernel: int | None = None) -> JsonObject:
    """What a look at the cards says."""
    devices: list[JsonValue] = [{"memory_used_mib": {"value": each}} for each in mib]
    return {"state": state, "devices": devices, "kernel_devices": kernel, "unified_memory": False}


def base() -> tuple[PolicyState, int, Judged]:
    """A state in which the job is stopped, and the verdict that says so."""
    state, now_us, _ = later_term()
    state = replace(state, order=10_000, verdicts=(), waits=())
    return state, now_us, replace(STOPPED, at_us=now_us)


def seen(state: PolicyState, said: JsonObject) -> PolicyState:
    """The state after one more look at the cards."""
    order = state.order + 1
    learned = learn(state.facts, "gpu_status", said, Source(f"look{order}", 1, order, {}))
    return replace(state, facts=learned.facts, order=order)


def judged(state: PolicyState, step: Step, at_us: int) -> PolicyState:
    """The state after the verdict that *step* reached."""
    action = step.action
    assert isinstance(action, Judge)
    order = state.order + 1
    verdict = Judged(action.condition, action.verdict, at_us, order, f"verdict{order}")
    return replace(state, verdicts=(*state.verdicts, verdict), order=order)


def view(state: PolicyState, now_us: int, **changes: object) -> View:
    """The view of the job on cards."""
    return look(state, config(), job(**changes), now_us)


def step_of(state: PolicyState, now_us: int, stopped: Judged) -> Step:
    """The next step, which there must be."""
    step = releasing(view(state, now_us), stopped)
    assert step is not None
    return step


def told(step: Step) -> tuple[str, str]:
    """What a step is: a command, a verdict, a pause or a close, and which."""
    match step.action:
        case Run() as run:
            return run.command, run.purpose
        case Judge() as judge:
            return str(judge.condition["kind"]), judge.verdict
        case Pause():
            return "pause", ""
        case Close() as close:
            return "close", close.resolution


def test_a_job_without_cards_frees_none() -> None:
    """Nothing is asked of it."""
    state, now_us, stopped = base()
    assert releasing(view(state, now_us, gpu=False), stopped) is None


def test_release_is_confirmed_by_two_looks_a_moment_apart() -> None:
    """Look, idle, pause, look again, released, done."""
    state, now_us, stopped = base()
    assert told(step_of(state, now_us, stopped)) == ("gpu_status", "probe")
    state = seen(state, cards(0, IDLE))
    first = step_of(state, now_us, stopped)
    assert told(first) == ("gpu_idle", "confirmed")
    state = judged(state, first, now_us)
    pause = step_of(state, now_us, stopped)
    assert isinstance(pause.action, Pause)
    assert pause.action.until_us == now_us + SECOND_US
    assert told(step_of(state, now_us + SECOND_US - 1, stopped)) == ("pause", "")
    assert told(step_of(state, now_us + SECOND_US, stopped)) == ("gpu_status", "probe")
    state = seen(state, cards(0, 0))
    second = step_of(state, now_us + SECOND_US, stopped)
    assert told(second) == ("gpu_released", "confirmed")
    assert isinstance(second.action, Judge)
    assert second.action.evidence == (state.verdicts[-1].event, f"look{state.order}")
    assert releasing(view(judged(state, second, now_us), now_us), stopped) is None


def test_a_look_from_before_the_stop_counts_for_nothing() -> None:
    """Nor one from before the last wait for memory ended."""
    state, now_us, stopped = base()
    early = seen(replace(state, order=9_000), cards(0))
    assert told(step_of(replace(early, order=10_000), now_us, stopped))[0] == "gpu_status"
    state = seen(state, cards(0))
    waited = Waited("gpu_memory_at_most", met=True, order=state.order + 1, event="w")
    assert told(step_of(replace(state, waits=(waited,)), now_us, stopped))[0] == "gpu_status"
    same = replace(waited, order=state.order)
    assert told(step_of(replace(state, waits=(same,)), now_us, stopped))[0] == "gpu_idle"


def test_memory_that_is_held_is_waited_for_as_long_as_a_release_may_take() -> None:
    """In slices of ten seconds at most; then it is refuted, and a person looks."""
    state, now_us, stopped = base()
    state = seen(state, cards(0, IDLE + 1))
    limit_us = job().stop.gpu_release_s * SECOND_US
    for later_us, timeout_ms in ((0, 10_000), (limit_us - 4 * SECOND_US, 4_000)):
        step = step_of(state, now_us + later_us, stopped)
        assert isinstance(step.action, Run)
        assert step.action.purpose == "wait"
        assert step.action.arguments["timeout_ms"] == timeout_ms
        condition = step.action.arguments["condition"]
        assert condition == {"kind": "gpu_memory_at_most", "limits_mib": [IDLE, IDLE]}
    over = step_of(state, now_us + limit_us, stopped)
    assert told(over) == ("gpu_released", "refuted")
    assert isinstance(over.action, Judge)
    assert f"0, {IDLE + 1} MiB" in over.action.reason
    state = judged(state, over, now_us)
    assert told(step_of(state, now_us + limit_us, stopped)) == ("close", "HANDED_OVER")


def test_a_release_that_history_knows_to_take_longer_is_waited_for_so_long() -> None:
    """Beyond the configured time, to the second; the rule's words say by how many releases."""
    state, now_us, stopped = base()
    limit_s = job().stop.gpu_release_s
    terms = replace(state.terms, learned_release_s=limit_s + 15, learned_release_of=6)
    state = seen(replace(state, terms=terms), cards(900))
    step = step_of(state, now_us + (limit_s + 12) * SECOND_US, stopped)
    assert isinstance(step.action, Run)
    assert step.action.arguments["timeout_ms"] == 3_000
    assert f"up to {limit_s + 15} s, the 95th percentile of 6" in step.because[0].text
    over = step_of(state, now_us + (limit_s + 15) * SECOND_US, stopped)
    assert told(over) == ("gpu_released", "refuted")


def test_a_release_that_goes_on_is_waited_for_beyond_its_time_but_not_for_ever() -> None:
    """While each look shows less than the one before; a look that shows as much ends it."""
    state, now_us, stopped = base()
    longest_s = 2 * job().stop.gpu_release_s
    grace = job().stop.grace.model_copy(update={"graceful_max_s": longest_s})
    stop = job().stop.model_copy(update={"grace": grace})

    def then(known: PolicyState, after_s: int) -> tuple[str, object]:
        step = releasing(view(known, now_us + after_s * SECOND_US, stop=stop), stopped)
        assert step is not None
        action = step.action
        waits = action.arguments["timeout_ms"] if isinstance(action, Run) else None
        return told(step)[1], waits

    falling = seen(seen(state, cards(9_000, 9_000)), cards(9_000, 5_000))
    assert then(falling, stop.gpu_release_s) == ("wait", 10_000)
    assert then(falling, longest_s - 3) == ("wait", 3_000)
    assert then(falling, longest_s) == ("refuted", None)
    for still in (cards(9_000, 5_000), cards(9_000, 5_001), cards(4_000)):
        assert then(seen(falling, still), stop.gpu_release_s) == ("refuted", None)


def test_an_idle_look_counts_no_more_once_memory_was_held_again() -> None:
    """Two looks that agree stand next to each other."""
    state, now_us, stopped = base()
    state = seen(state, cards(0))
    state = judged(state, step_of(state, now_us, stopped), now_us)
    state = seen(state, cards(900))
    assert told(step_of(state, now_us, stopped)) == ("wait_until", "wait")
    order = state.order + 1
    waited = Waited("gpu_memory_at_most", met=True, order=order, event="w")
    state = seen(replace(state, waits=(waited,), order=order), cards(0))
    again = step_of(state, now_us, stopped)
    assert told(again) == ("gpu_idle", "confirmed")


def test_a_tool_that_tells_nothing_is_asked_once_more_and_no_further() -> None:
    """Inconclusive, a second look, inconclusive, handed over: silence is never free memory."""
    state, now_us, stopped = base()
    for _ in range(config().budget.inconclusives):
        state = seen(state, cards(state="timeout"))
        step = step_of(state, now_us, stopped)
        assert told(step) == ("gpu_released", "inconclusive")
        before = state
        state = judged(state, step, now_us)
        if len([v for v in state.verdicts if v.verdict == "inconclusive"]) == 1:
            assert told(step_of(state, now_us, stopped)) == ("gpu_status", "probe")
        assert before.order < state.order
    assert told(step_of(state, now_us, stopped)) == ("close", "HANDED_OVER")
    earlier: Verdict = "inconclusive"
    old = tuple(replace(v, order=5, verdict=earlier) for v in state.verdicts)
    fresh = seen(replace(state, verdicts=old), cards(state="timeout"))
    assert told(step_of(fresh, now_us, stopped)) == ("gpu_released", "inconclusive")


def test_a_release_of_an_earlier_stop_says_nothing_about_this_one() -> None:
    """Nor do its single looks, or the memory that was held then."""
    state, now_us, stopped = base()

    def before(kind: str, verdict: Verdict) -> Judged:
        return Judged({"kind": kind}, verdict, now_us, 9_000, "earlier")

    free = replace(state, verdicts=(before("gpu_idle", "confirmed"),))
    assert told(step_of(seen(free, cards(0)), now_us, stopped)) == ("gpu_idle", "confirmed")
    free = replace(state, verdicts=(before("gpu_released", "confirmed"),))
    assert told(step_of(free, now_us, stopped)) == ("gpu_status", "probe")
    held = replace(state, verdicts=(before("gpu_released", "refuted"),))
    over_us = now_us + job().stop.gpu_release_s * SECOND_US
    full = seen(held, cards(0, IDLE + 1))
    assert told(step_of(full, over_us, stopped)) == ("gpu_released", "refuted")


def test_each_step_says_what_it_rests_on() -> None:
    """The rule, its words, and the events: what a person reads, and what replay compares."""
    state, now_us, stopped = base()
    fresh = seen(state, cards(0, IDLE))
    idle = judged(fresh, step_of(fresh, now_us, stopped), now_us)
    again = seen(idle, cards(0, 0))
    held = seen(state, cards(700))
    over_us = now_us + job().stop.gpu_release_s * SECOND_US
    refuted = judged(held, step_of(held, over_us, stopped), now_us)
    blind = seen(state, cards(state="timeout"))
    asked = judged(blind, step_of(blind, now_us, stopped), now_us)
    twice = seen(asked, cards(state="timeout"))
    given_up = judged(twice, step_of(twice, now_us, stopped), now_us)
    reason = "cards hold 700 MiB, and no member lives"
    unsaid = "the job's processes are gone; whether the GPUs are free cannot be said"
    look, verdict = "look10001", "verdict10002"
    later, second_us = "a second look comes a moment later", now_us + SECOND_US
    for step, rule, text, events in (
        (step_of(state, now_us, stopped), "release", "what do the cards hold?", ("stopped",)),
        (step_of(fresh, now_us, stopped), "proof", "every card is at its idle level", (look,)),
        (step_of(idle, now_us, stopped), "release", later, (verdict,)),
        (step_of(idle, second_us, stopped), "release", "the second look", (verdict,)),
        (
            step_of(again, now_us, stopped),
            "proof",
            "two looks show every card at its idle level",
            (verdict, "look10003"),
        ),
        (
            step_of(held, now_us, stopped),
            "release",
            "memory is freed some time after its process ended",
            (look,),
        ),
        (step_of(held, over_us, stopped), "proof", reason, (look,)),
        (step_of(refuted, over_us, stopped), "release", reason, ("stopped", verdict)),
        (
            step_of(blind, now_us, stopped),
            "proof",
            "nvidia-smi told nothing about the cards",
            (look,),
        ),
        (step_of(asked, now_us, stopped), "release", "asked once more", (look,)),
        (
            step_of(given_up, now_us, stopped),
            "release",
            unsaid,
            ("stopped", verdict, "verdict10004"),
        ),
    ):
        (hit,) = step.because
        assert (hit.rule, hit.text, hit.events) == (rule, text, events)
        action = step.action
        if isinstance(action, Judge | Close):
            assert (action.reason, action.evidence) == (text, events)
        if isinstance(action, Pause):
            assert action.reason == "one reading of a card may be a transient"


@pytest.mark.parametrize(
    ("said", "mib"),
    [
        (cards(1, 2), (1, 2)),
        (cards(1, 2, kernel=2), (1, 2)),
        (cards(1, 2, kernel=3), None),
        (cards(1, None), None),
        (cards(), None),
        (cards(1, state="timeout"), None),
        ({**cards(1), "unified_memory": True}, ()),
        ({**cards(1), "devices": "none"}, None),
        ({**cards(1), "devices": [{"memory_used_mib": 4}]}, None),
        ({**cards(1), "devices": [7]}, None),
        (None, None),
    ],
)
def test_memory_is_told_of_every_card_or_not_at_all(
    said: JsonObject | None, mib: tuple[int, ...] | None
) -> None:
    """A card that the kernel sees and the tool does not list is not free."""
    assert used_mib(said) == mib
