"""The stop benchmark on real processes: six worlds resolved, and gates that can be red."""

from collections.abc import Sequence
from functools import partial
from importlib.resources import files
from pathlib import Path

import pytest

from agentops.bench.baselines import run_baseline
from agentops.bench.judging import Run
from agentops.bench.running import run_once
from agentops.bench.scenario import Written, chosen, pairs, read_folder, shipped
from agentops.bench.suite import Runner, run_all
from agentops.bench.tally import Tally, findings

pytestmark = [
    pytest.mark.needs("sshd", "pkill"),
    pytest.mark.needs("root-namespaces"),
]

SCALE = 0.2
MORE = Path(__file__).parents[1] / "support" / "scenarios"
POLICY = Path(str(files("agentops.policy"))) / "files" / "dev.toml"


def run(
    scenarios: Sequence[Written], runner: Runner, seeds: Sequence[int] = (0,)
) -> tuple[Run, ...]:
    """Each of them under each seed, two at a time."""
    return run_all(scenarios, seeds, runner=runner, side_by_side=2, on_run=lambda _: None)


def engine() -> Runner:
    """The product, under the policy that is shipped."""
    return partial(run_once, scale=SCALE, shipped=POLICY.read_text())


def one_liner(name: str) -> Runner:
    """One of the baselines."""
    return partial(run_baseline, name=name, scale=SCALE)


@pytest.mark.timeout(240)
def test_the_engine_resolves_six_worlds_with_every_gate_held() -> None:
    """Threads, workers and cards, a wrapper, a stranger's job, a reused pid, a lost answer."""
    runs = run(chosen(shipped(), ["S03", "S05", "S06", "S10", "S19", "S20"]), engine())
    assert [line for each in runs for line in findings([each])] == []
    tally = Tally(runs)
    assert tally.all_gates_hold
    assert tally.resolved.hits == 6
    assert tally.gentleness is not None
    assert tally.gentleness >= 0.9


@pytest.mark.timeout(120)
def test_nothing_is_called_clean_while_somebody_may_be_of_the_job() -> None:
    """A second start, a start without a heartbeat, cards held by nobody who is known."""
    names = ["started_twice", "no_heartbeat_yet", "held_by_strangers"]
    runs = run(chosen(read_folder(MORE), names), engine())
    assert findings(runs) == []
    assert [each.resolution for each in runs][1:] == ["HANDED_OVER", "HANDED_OVER"]
    assert [each.scores.signals for each in runs][1:] == [(), ()]


@pytest.mark.timeout(120)
def test_the_oracle_sees_innocents_that_a_pattern_kills() -> None:
    """A viewer and an editor name the script in their argv: the pattern matches them as well."""
    (ended,) = run(chosen(shipped(), ["S08"]), one_liner("double-pkill"))
    assert len(ended.touched) == 2
    assert not ended.gates_hold


@pytest.mark.timeout(120)
def test_the_oracle_sees_what_silence_calls_clean() -> None:
    """Workers under another command line live on and hold memory; nothing was printed."""
    (ended,) = run(chosen(shipped(), ["S05"]), one_liner("double-pkill"))
    assert ended.resolution == "STOPPED"
    assert any("live" in text for text in ended.false_greens)
    assert any("MiB are held" in text for text in ended.false_greens)


@pytest.mark.timeout(120)
def test_two_scenarios_make_one_world() -> None:
    """Renamed and deaf to interrupts at once: found by its heartbeat, ended by a terminate."""
    both = [each for each in pairs(shipped()) if each.name == "S02+S07"]
    (ended,) = run(both, engine())
    assert ended.resolution == "STOPPED"
    assert ended.scores.signals == ("TERM",)
    assert ended.gates_hold
