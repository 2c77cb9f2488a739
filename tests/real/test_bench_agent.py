"""``bench agent``: any agent in the staged worlds, judged by the truth, and what it cost."""

from pathlib import Path

import pytest

from agentops.bench.agent import CHARS_PER_TOKEN, Setting, run_agent
from agentops.bench.doors import Counting, Passed, noted
from agentops.bench.giving import Surface, toml
from agentops.bench.scenario import chosen, shipped
from agentops.policy import parse_policy
from journal.events import JsonObject
from tests.support.command_line import user
from tests.support.recovering import SHIPPED


def setting(command: str, surface: Surface, limit_s: float = 200) -> Setting:
    """The shipped policy at the benchmark's pace."""
    return Setting(command, surface, 0.2, limit_s, SHIPPED.read_text())


@pytest.mark.needs("sshd", "root-namespaces")
@pytest.mark.timeout(300)
def test_an_agent_with_tools_stops_orphans_too_and_its_calls_are_counted() -> None:
    (written,) = chosen(shipped(), ["S05"])
    done = run_agent(written, 0, setting("scripted", "tools"))
    assert not done.run.failure, done.run.failure
    assert done.run.resolution == "STOPPED", (done.run.reason, done.said)
    assert done.run.resolved
    assert done.run.gates_hold
    assert done.cost.round_trips >= 3
    assert 0 < done.cost.tokens < 3_000
    assert 0 < done.cost.schemas <= 4_000


@pytest.mark.needs("sshd", "ssh", "root-namespaces")
@pytest.mark.timeout(300)
def test_an_agent_with_a_shell_that_kills_by_pattern_is_seen_to_harm() -> None:
    (written,) = chosen(shipped(), ["S08"])
    done = run_agent(written, 0, setting("scripted-careless", "shell"))
    assert not done.run.failure, done.run.failure
    assert done.run.touched
    assert not done.run.resolved
    assert (done.cost.round_trips, done.cost.schemas) == (3, 0)


@pytest.mark.needs("sshd", "ssh", "root-namespaces")
@pytest.mark.timeout(300)
def test_any_command_is_an_agent_and_one_without_an_answer_resolves_nothing() -> None:
    """It finds the task in its folder and the host behind its ssh; its time is limited."""
    (written,) = chosen(shipped(), ["S14"])
    command = "grep -q STOPPED task.md && ssh box 'pct exec 200 -- echo here' && exec sleep 600"
    done = run_agent(written, 0, setting(command, "shell", limit_s=10))
    assert not done.run.failure, done.run.failure
    assert (done.run.resolution, done.run.resolved) == (None, False)
    assert done.said == "here\n"
    assert done.cost.round_trips == 1


def test_a_tool_call_costs_what_was_asked_and_the_one_form_of_the_answer(tmp_path: Path) -> None:
    counts = tmp_path / "counts"
    counting = Counting(counts, {})
    counting.asked({"id": 1, "method": "tools/call", "params": {"name": "hosts", "arguments": {}}})
    counting.asked({"id": 2, "method": "resources/list"})
    counting.answered({"id": 2, "result": {"resources": []}})
    forms: JsonObject = {"structuredContent": {"ok": True}, "content": [{"text": "x" * 999}]}
    counting.answered({"id": 1, "result": forms})
    counting.answered({"id": 3, "result": {"tools": [{"name": "hosts"}]}})
    assert noted(counts) == (
        Passed("tool", len('{"name":"hosts","arguments":{}}'), len('{"ok":true}')),
        Passed("schemas", 0, len('[{"name":"hosts"}]')),
    )
    assert CHARS_PER_TOKEN == 4


def test_the_policy_that_an_agent_is_given_reads_back_as_it_was() -> None:
    config = parse_policy(SHIPPED.read_text(), "dev.toml")
    assert parse_policy(toml(config.body()), "written") == config


def test_bench_agent_names_what_it_cannot_do(tmp_path: Path) -> None:
    person = user(tmp_path)
    person.run("bench", "agent", "S99", "--cmd", "true").refused(2, "S99")
    person.run("bench", "agent", "S01", "--cmd", "true", "--seeds", "0").refused(2, "--seeds")
