"""Scenario files: the vocabulary, what a seed draws, what can stand side by side; the numbers."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agentops.bench.baselines import BASELINES, recorded
from agentops.bench.judging import Run, Scores, gentleness, unmet
from agentops.bench.scenario import Scenario, Written, chosen, combined, pairs, read_folder, shipped
from agentops.bench.tally import Rate, Tally
from agentops.errors import ConfigError, UsageError

MORE = Path(__file__).parents[1] / "support" / "scenarios"


def written(name: str) -> Written:
    """One shipped scenario by its short name."""
    return chosen(shipped(), [name])[0]


GOOD = Run(
    scenario="S01",
    seed=0,
    combined=False,
    resolvable=True,
    resolution="STOPPED",
    reason="",
    accepted=True,
    scores=Scores(gentleness=1.0),
)


def run(**said: Any) -> Run:
    """A run that went well, but for what is said."""
    return replace(GOOD, **said)


def test_twenty_eight_scenarios_are_shipped_each_in_a_file_of_its_own() -> None:
    names = [each.name.partition("_")[0] for each in shipped()]
    assert names == [f"S{number:02d}" for number in range(1, 29)]


def test_a_seed_draws_the_same_world_each_time() -> None:
    for each in shipped():
        assert each.draw(7) == each.draw(7)


def test_seeds_differ_where_a_scenario_leaves_a_choice() -> None:
    drawn = {written("S04").draw(seed).trainer.winding_down_s for seed in range(5)}
    assert len(drawn) == 5


def test_at_least_three_hundred_pairs_can_be_combined_and_drawn() -> None:
    made = pairs(shipped())
    assert len(made) >= 300
    assert all(each.draw(0).title for each in made)


def test_faults_that_exclude_each_other_are_not_combined() -> None:
    assert combined(written("S02"), written("S03")) is None
    assert combined(written("S05"), written("S14")) is None


def test_a_pair_has_both_faults_and_the_wider_goal() -> None:
    both = combined(written("S05"), written("S28"))
    assert both is not None
    world = both.draw(0)
    assert world.trainer.workers_outlive
    assert world.start.exits_early
    assert world.goal == "recover"


def test_a_folder_of_other_scenarios_can_be_read() -> None:
    names = {each.name for each in read_folder(MORE)}
    assert {"deaf", "started_twice"} <= names


def test_an_unknown_word_is_named_with_its_file(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(
        'title = "x"\naccepted = ["STOPPED"]\n[trainer]\ninterupt = "deaf"\n'
    )
    with pytest.raises(ConfigError, match=r"mine: trainer\.interupt"):
        read_folder(tmp_path)


def test_an_unknown_scenario_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match="S99"):
        chosen(shipped(), ["S99"])


def test_no_handover_is_accepted_unless_the_file_lists_it() -> None:
    handed = {s.name[:3] for s in shipped() if "HANDED_OVER" in s.draw(0).accepted}
    assert handed == {"S15", "S18", "S26", "S28"}


@pytest.mark.parametrize(
    ("gentlest", "sent", "expected"),
    [
        ("INT", ["INT"], 1.0),
        ("INT", ["INT", "INT"], 1.0),
        ("INT", ["INT", "TERM"], 0.667),
        ("none", ["KILL"], 0.0),
        ("KILL", ["INT", "TERM", "KILL"], 1.0),
        ("INT", ["CONT", "INT"], 1.0),
    ],
)
def test_gentleness_falls_with_each_step_beyond_the_least_force(
    gentlest: str, sent: list[str], expected: float
) -> None:
    world = Scenario.model_validate({"title": "", "accepted": ["STOPPED"], "gentlest": gentlest})
    assert gentleness(world, sent) == expected


def test_an_unwanted_signal_is_an_unmet_criterion() -> None:
    assert unmet(written("S01").draw(0), ["INT", "KILL"]) == ("sent KILL",)


def test_wilson_bounds_are_those_of_the_literature() -> None:
    low, high = Rate(81, 263).interval
    assert round(low, 4) == 0.2553
    assert round(high, 4) == 0.3662


@pytest.mark.parametrize("gate", ["touched", "false_greens", "journal_faults"])
def test_one_broken_gate_in_one_run_breaks_the_whole(gate: str) -> None:
    whole = Tally([run(), run(**{gate: ("it",)})])
    assert not whole.all_gates_hold
    assert whole.resolved == Rate(1, 2)


def test_a_world_that_could_not_be_staged_is_no_success() -> None:
    whole = Tally([run(), run(failure="no sshd", accepted=False)])
    assert not whole.all_gates_hold
    assert whole.json()["not_staged"] == 1
    assert whole.false_kills.of == 1


def test_the_answer_has_the_promised_keys() -> None:
    answer = Tally([run()]).json()
    promised = {"scenarios", "runs", "false_kills", "false_greens", "resolved", "per_scenario"}
    assert promised <= set(answer)


def test_every_baselines_lines_can_be_filled_and_say_how_they_are_read() -> None:
    """No name is left open, and braces of the shell stay braces."""
    names = {"script": "t.py", "wrapper": "run.sh", "folder": "/f", "scope": "/g"}
    times = {"eight": 1.6, "ten": 2.0, "waits": 20}
    for name, baseline in BASELINES.items():
        for line in (*baseline.before, baseline.script):
            filled = line.format(**names, **times)
            assert "{script}" not in filled, name
            assert "{{" not in filled, name
        assert baseline.scoped is ("/g/cgroup.procs" in baseline.script.format(**names, **times))


def test_the_recorded_session_types_the_documents_lines_in_their_order() -> None:
    """It looks, kills what is listed, kills by pattern twice, kills all of python, reads cards."""
    session = recorded()
    typed = [line.split(";")[0].split(" ")[0] for line in (*session.before, session.script)]
    assert typed == ["ps", "ps", "pkill", "pkill"]
    assert "nvidia-smi" in session.script
