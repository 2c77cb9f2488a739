"""The policy file: what is refused, what its tests say, what the linter sees, what differs."""

from dataclasses import replace
from importlib.resources import files
from pathlib import Path

import pytest

from agentops.errors import ConfigError
from agentops.policy import parse_policy
from agentops.policy.checking import differences, lint, run_cases
from agentops.policy.explaining import explain
from agentops.policy.guards import GUARDS
from agentops.policy.hypotheses import TITLES
from agentops.policy.ladder import ORDER, grace_us
from agentops.policy.ledger import Terms
from agentops.policy.needs import NEEDS
from agentops.policy.view import SECOND_US, look
from tests.support.simulated import config, moments

SHIPPED = Path(str(files("agentops.policy"))) / "files" / "dev.toml"
TEXT = SHIPPED.read_text(encoding="utf-8")
JOB = """
[job.a]
role_match = { cmd_contains = "train_a.py" }
[job.a.progress]
heartbeat = "/a/heartbeat.json"
stall_s = 60
[job.a.launch]
argv = ["python3", "train_a.py"]
cwd = "/a"
log = "/a/log"
"""


def test_every_rule_of_the_shipped_policy_is_reached_by_its_tests() -> None:
    """All cases pass, none is missing, and the linter finds nothing."""
    tested = run_cases(parse_policy(TEXT, "dev.toml"))
    assert [case for case in tested.cases if not case.passed] == []
    assert tested.uncovered == ()
    assert lint(parse_policy(TEXT, "dev.toml")) == ()


def test_a_case_that_names_another_rule_fails() -> None:
    """A test inside the file can be false."""
    wrong = TEXT.replace('rule = "start-again"', 'rule = "stop-by-the-ladder"')
    assert not run_cases(parse_policy(wrong, "x")).passed
    unreached = TEXT.replace('[[test]]\nid = "the-job-may-be-started-again"', "[[ignored]]", 1)
    assert "[[ignored]]" in unreached
    with pytest.raises(ConfigError, match="ignored"):
        parse_policy(unreached, "x")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[policy", r"p\.toml: not TOML"),
        ("[policy]\nversion = 0", r"p\.toml: policy\.version \(value 0\)"),
        (TEXT + "[limits]\nlead = 3", r"limits\.lead \(value 3\).*not known"),
        (TEXT + JOB.replace("stall_s = 60", 'stall_s = "long"'), r"stall_s \(value 'long'\)"),
        (TEXT + '[[permit]]\nid = "start-again"\nwhen = {}', "'start-again' stands twice"),
        (TEXT + JOB.replace('cmd_contains = "train_a.py"', 'cmd_contains = ""'), "every process"),
        (
            TEXT + '[[forbid]]\nid = "x"\nwhen = { signal = "STOP" }',
            r"forbid\.x\.when\.signal \(value 'STOP'\): write 'INT', 'TERM'",
        ),
        (
            TEXT + JOB.replace("stall_s", "stall"),
            r"job\.a\.progress\.stall .*did you mean stall_s\?",
        ),
        (TEXT + JOB.replace("stall_s = 60", "stall_s = -1"), r"\(value -1\): write 0 or more"),
        (TEXT + JOB.replace('heartbeat = "/a/heartbeat.json"', ""), "heartbeat: missing; add it"),
        (TEXT + JOB.replace('cwd = "/a"', "cwd = 3"), r"cwd \(value 3\): write text in quotes"),
        (
            TEXT + JOB.replace('"/a/heartbeat.json"', '"heartbeat.json"'),
            r"heartbeat \(value 'heartbeat\.json'\): a path on a host is absolute",
        ),
        ("[limits]\nlead_db = 1.5", r"policy: missing; add it \(and 1 more in this file\)"),
        (
            TEXT + '[[permit]]\nid = "x"\nwhen = { command = "signal_proces" }',
            r"permit\.x\.when\.command .*did you mean signal_process\?",
        ),
        (
            TEXT + '[[standing]]\nid = "x"\ntier = "dev"\ncommands = ["reboot"]',
            r"standing\.x\.commands \(value 'reboot'\): no such command; agentops commands",
        ),
        (
            TEXT.replace('given = { command = "launch"', 'given = { command = "lunch"'),
            r"test\.the-job-may-be-started-again\.given\.command .*did you mean launch\?",
        ),
    ],
)
def test_an_error_names_file_key_and_value(text: str, says: str) -> None:
    """One line that tells where and what."""
    with pytest.raises(ConfigError, match=says) as raised:
        parse_policy(text, "p.toml")
    assert "\n" not in str(raised.value).split("(value")[0]


@pytest.mark.parametrize(
    ("more", "key"),
    [
        ('[[forbid]]\nid = "no-stop"\nwhen = { purpose = "signal" }', "permit stop-by-the-ladder"),
        ('[[permit]]\nid = "int"\nwhen = { purpose = "signal", signal = "INT" }', "permit int"),
        ('[[forbid]]\nid = "odd"\nwhen = { purpose = "deploy", signal = "INT" }', "rule odd"),
        ('[[standing]]\nid = "p"\ntier = "prod"\ncommands = ["signal_process"]', "standing p"),
        ('[[permit]]\nid = "all"\nwhen = {}', "permit all"),
        ('[[permit]]\nid = "look"\nwhen = { command = "tail_log" }', "rule look"),
        (JOB.replace("train_a.py", "python"), "job.a.role_match"),
        (JOB + '[job.a.stop]\nrungs = ["interrupt", "kill"]', "job.a.stop.rungs"),
    ],
)
def test_the_linter_names_what_is_probably_not_meant(more: str, key: str) -> None:
    """Each trap is found under its own key."""
    assert key in {finding.key for finding in lint(parse_policy(TEXT + more, "x"))}


def test_a_file_without_tests_passes_none_and_a_test_of_no_rule_is_named() -> None:
    """What nothing was shown of is not called good."""
    bare = parse_policy("[policy]\nversion = 1\n", "x")
    assert not run_cases(bare).passed
    assert [finding.key for finding in lint(bare)] == ["test"]
    renamed = TEXT.replace('rule = "start-again"', 'rule = "start-anew"')
    keys = {finding.key for finding in lint(parse_policy(renamed, "x"))}
    assert "test the-job-may-be-started-again" in keys


def test_the_linter_names_what_a_job_asks_for_and_no_rule_permits() -> None:
    """A file from before a purpose existed does not permit it."""
    rules = parse_policy(TEXT + JOB + '[[job.a.lock]]\npath = "/a.lock"\n', "x")
    without = [rule for rule in rules.permit if rule.when.purpose != "clear"]
    silent = rules.model_copy(update={"permit": tuple(without)})
    found = [finding.problem for finding in lint(silent) if finding.key == "job.a"]
    assert found == ["no rule permits purpose clear, so a person must do it"]
    assert not [finding for finding in lint(rules) if finding.key == "job.a"]
    bare = rules.model_copy(update={"permit": ()})
    assert [f.problem.split()[4] for f in lint(bare) if f.key == "job.a"][:1] == ["signal,"]


def test_a_difference_is_named_by_key() -> None:
    """Moving a rule is none; changing a number is one."""
    old = parse_policy(TEXT + JOB, "x")
    new = parse_policy(TEXT + JOB.replace("stall_s = 60", "stall_s = 61"), "x")
    assert differences(old, old) == ()
    assert differences(old, new) == (("job.a.progress.stall_s", 60, 61),)
    turned = old.model_copy(update={"permit": tuple(reversed(old.permit))})
    assert differences(old, turned) == ()


def test_an_explanation_says_what_why_and_what_would_change_it() -> None:
    """Of a decision with hypotheses: the action, each rule, each guard, the evidence against."""
    leads = [d for seed in range(12) for _, _, d in moments(seed) if d.lead == "H3"]
    text = "\n".join(explain(leads[0].made("")))
    for part in ("run signal_process", "H3", "passes G1", "rejected:", "would change it:"):
        assert part in text


def test_learned_patience_raises_a_grace_and_never_lowers_it() -> None:
    """History can only add to the configured floor."""
    state, now_us, _ = moments(0)[-1]
    job = config().job["job"]
    for learned, seconds in ((0, 5), (3, 5), (40, 40)):
        told = replace(state, terms=replace(state.terms, learned_grace_s=learned))
        assert grace_us(look(told, config(), job, now_us), "interrupt") == seconds * SECOND_US
    assert Terms().learned_grace_s == 0


def test_the_page_names_every_guard_hypothesis_phase_and_need() -> None:
    """What the engine can say is explained where people look."""
    page = (Path(__file__).parents[2] / "docs" / "policy.md").read_text(encoding="utf-8")
    names = [name for name, _, _ in GUARDS] + list(TITLES) + list(NEEDS) + list(ORDER)
    phases = {decision.phase for seed in range(12) for _, _, decision in moments(seed)}
    missing = [name for name in [*names, *sorted(phases)] if name not in page]
    assert missing == []


def test_the_policy_on_the_page_is_one_that_loads() -> None:
    """Its example is a whole file, and its own test passes."""
    page = (Path(__file__).parents[2] / "docs" / "policy.md").read_text(encoding="utf-8")
    example = page.split("```toml\n")[1].split("```")[0]
    shown = run_cases(parse_policy(example, "docs/policy.md"))
    assert all(case.passed for case in shown.cases)
