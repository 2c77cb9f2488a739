"""What a rule may ask about, and when it holds."""

from dataclasses import replace

from agentops.policy.config import Forbid, RuleWhen
from agentops.policy.facts import Fact
from agentops.policy.rules import Situation, forbidden, situation
from agentops.policy.state import PolicyState
from agentops.policy.view import look
from tests.support.acting import later_term, run_of
from tests.support.simulated import config


def seen(state: PolicyState, now_us: int) -> Situation:
    """The situation of the decided TERM."""
    run = run_of(later_term()[2])
    return situation(look(state, config(), config().job["job"], now_us), run, "terminate", "H4")


def test_a_situation_says_what_was_decided() -> None:
    """Command, purpose, effect, signal, rung, lead, need and tier."""
    state, now_us, _ = later_term()
    now = seen(state, now_us)
    assert (now.command, now.purpose, now.effect) == ("signal_process", "signal", "destroys")
    assert (now.signal, now.rung, now.lead, now.tier) == ("TERM", "terminate", "H4", "dev")
    assert now.need in {"requested", "stalled", "diverged", "repair"}
    undecided = replace(state, verdicts=())
    assert seen(undecided, now_us).need == ""


def test_a_word_about_facts_holds_only_where_it_is_shown() -> None:
    """A checkpoint in writing, GPUs not looked at, steps that go on."""
    state, now_us, _ = later_term()
    quiet = replace(state.samples[-1], checkpoint_writing=False)
    calm = replace(state, samples=(*state.samples[:-1], quiet))
    writing = replace(state, samples=(*state.samples[:-1], replace(quiet, checkpoint_writing=True)))
    assert "checkpoint.writing" not in seen(calm, now_us).facts
    assert "checkpoint.writing" in seen(writing, now_us).facts
    assert "checkpoint.writing" not in seen(replace(state, samples=()), now_us).facts
    known = Fact("gpu", "status", {}, "e", now_us, state.order)
    assert "gpu.unknown" in seen(state, now_us).facts
    looked = replace(state, facts=state.facts.with_facts([known]))
    assert "gpu.unknown" not in seen(looked, now_us).facts


def test_steps_advance_from_one_on_and_only_after_a_signal() -> None:
    """Counted from the last heartbeat before the signal to the newest after it."""
    state, now_us, _ = later_term()
    last = state.acts[-1]
    before = replace(state.samples[-1], order=last.order - 1, step=10)
    for step, advances in ((10, False), (11, True), (12, True)):
        after = replace(before, order=last.last_order + 1, step=step)
        moved = replace(state, samples=(before, after))
        assert ("steps.advance" in seen(moved, now_us).facts) is advances
    after = replace(before, order=last.last_order + 1, step=20)
    assert (
        "steps.advance" not in seen(replace(state, samples=(before, after), acts=()), now_us).facts
    )


def test_an_approval_lifts_only_a_rule_that_says_so() -> None:
    """``unless = "approved"``, and a yes; neither alone."""
    state, now_us, _ = later_term()
    now = seen(state, now_us)
    hard = Forbid(id="hard", when=RuleWhen(signal="TERM"))
    soft = Forbid(id="soft", when=RuleWhen(signal="TERM"), unless="approved")
    for rule, approved, stops in (
        (hard, False, True),
        (hard, True, True),
        (soft, False, True),
        (soft, True, False),
    ):
        strict = config().model_copy(update={"forbid": (rule,)})
        assert (forbidden(strict, now, approved=approved) is not None) is stops
