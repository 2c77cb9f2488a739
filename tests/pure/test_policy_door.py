"""The door's whole answers: who is let through, by which rule, and in which words."""

from dataclasses import replace

import pytest

from agentops.commands import Command
from agentops.commands.clearing import MoveAside
from agentops.commands.deploy import DeployFiles, FileToDeploy
from agentops.commands.launch import Launch
from agentops.commands.processes import ListProcesses
from agentops.commands.run_argv import RunArgv
from agentops.commands.signals import SignalProcess
from agentops.hosts import Host
from agentops.policy import (
    Authorization,
    Decision,
    PolicyConfig,
    PolicyState,
    Run,
    approval_digest,
    authorize,
)
from agentops.policy.config import Forbid, Port, RuleWhen
from agentops.policy.state import Approval
from agentops.policy.view import SECOND_US
from tests.support.acting import later_term, recorded, run_of
from tests.support.simulated import config, moments

DEV = Host(name="h", transport="local", tier="dev")
PROD = Host(name="h", transport="local", tier="prod")


def term() -> tuple[PolicyState, int, Decision, SignalProcess]:
    """A recorded decision to send TERM, and its command."""
    state, now_us, decision = later_term()
    command = SignalProcess.model_validate(run_of(decision).arguments)
    return recorded(state, decision, command), now_us, decision, command


def with_forbid(rule: Forbid) -> PolicyConfig:
    """The configuration with one rule that forbids."""
    return config().model_copy(update={"forbid": (rule,)})


def test_each_refusal_has_its_rule_and_its_words() -> None:
    """Looks, freezes, shadows and decisions that do not fit."""
    state, now_us, decision, command = term()
    made = state.decisions[-1]

    def answer(known: PolicyState, at_us: int = now_us) -> Authorization:
        return authorize(command, decision, known, config(), DEV, at_us)

    assert authorize(ListProcesses(), None, state, config(), DEV, now_us) == Authorization(
        "allow", "observes", "it only looks"
    )
    assert answer(state) == Authorization("allow", "standing dev-hosts", "stands for tier dev")
    assert answer(replace(state, frozen_hosts=("*",))) == Authorization(
        "deny", "G13", "acting is frozen; `agentops thaw` allows it again"
    )
    shadowed = replace(state, terms=replace(state.terms, shadow=True))
    assert answer(shadowed) == Authorization("deny", "shadow", "in shadow mode nothing is changed")
    assert answer(replace(state, decisions=())) == Authorization(
        "deny", "decision", "the decision is not in the journal"
    )
    for changed, words in (
        (replace(made, used=True), "the decision was used before; it holds once"),
        (replace(made, bound_to="x"), "the decision was made for another command"),
    ):
        known = replace(state, decisions=(*state.decisions[:-1], changed))
        assert answer(known) == Authorization("deny", "decision", words)
    # It still holds in the very microsecond in which it expires.
    ends = replace(state, decisions=(*state.decisions[:-1], replace(made, expires_at_us=now_us)))
    assert answer(ends).answer == "allow"
    over = replace(made, expires_at_us=now_us - 1)
    assert answer(replace(state, decisions=(*state.decisions[:-1], over))) == Authorization(
        "probe_first", "decision", "the decision has expired"
    )


def test_the_policy_files_own_shadow_counts_as_well() -> None:
    """As well as that of the incident's terms."""
    state, now_us, decision, command = term()
    head = config().policy.model_copy(update={"shadow": True})
    shadowed = config().model_copy(update={"policy": head})
    assert authorize(command, decision, state, shadowed, DEV, now_us).rule == "shadow"


def test_free_argv_needs_a_person_on_every_tier() -> None:
    """Though its effect were only to observe, and whatever stands."""
    state, now_us, _, _ = term()
    free = RunArgv(argv=("true",))
    standing = config().standing[0]
    wide = standing.model_copy(update={"commands": (*standing.commands, "run_argv")})
    generous = config().model_copy(update={"standing": (wide,)})
    assert authorize(free, None, PolicyState(), generous, DEV, now_us).answer == "ask"
    assert authorize(free, None, state, generous, DEV, now_us).answer != "allow"


def test_without_a_known_job_only_what_destroys_asks_for_the_role() -> None:
    """A file or a lock goes by the tier; a signal by a person."""
    _, now_us, _, command = term()
    files = DeployFiles(files=(FileToDeploy(path="/x", content=b"x", expects="absent"),))
    nothing = PolicyState()
    assert authorize(command, None, nothing, config(), DEV, now_us) == Authorization(
        "ask", "G5", "no incident with a known job proves a role"
    )
    assert authorize(files, None, nothing, config(), DEV, now_us).rule == "standing dev-hosts"
    asked = authorize(files, None, nothing, config(), PROD, now_us)
    assert asked == Authorization(
        "ask", "G12", "deploy_files changes on tier prod: a person must say yes"
    )


def test_a_guard_that_no_look_cures_denies_in_its_own_words() -> None:
    """The guards are asked about the decision's own run."""
    state, now_us, decision, command = term()
    doubt = replace(state.acts[-1], status="unknown", settled=None)
    answer = authorize(
        command, decision, replace(state, acts=(*state.acts[:-1], doubt)), config(), DEV, now_us
    )
    assert answer == Authorization("deny", "G14", "not shown: no outcome is open")


@pytest.mark.parametrize(
    ("note", "words"), [("", "a rule forbids it"), ("never here", "never here")]
)
def test_a_rule_that_forbids_denies_whatever_else_allows(note: str, words: str) -> None:
    """Even an approval lifts only rules that say so."""
    state, now_us, decision, command = term()
    strict = with_forbid(Forbid(id="no", when=RuleWhen(signal="TERM"), note=note))
    granted = Approval("a", approval_digest(command, DEV, strict), now_us, answer="granted")
    for known in (state, replace(state, approvals=(granted,))):
        assert authorize(command, decision, known, strict, DEV, now_us) == Authorization(
            "deny", "forbid no", words
        )


@pytest.mark.parametrize(
    ("note", "words"), [("", "a rule asks for approval"), ("a person looks", "a person looks")]
)
def test_a_rule_that_approval_lifts_asks_and_is_lifted(note: str, words: str) -> None:
    """By a yes to this very command, under this very policy."""
    state, now_us, decision, command = term()
    when = RuleWhen(signal="TERM")
    careful = with_forbid(Forbid(id="ask", when=when, unless="approved", note=note))
    assert authorize(command, decision, state, careful, DEV, now_us) == Authorization(
        "ask", "forbid ask", words
    )
    granted = Approval("a", approval_digest(command, DEV, careful), now_us, answer="granted")
    lifted = replace(state, approvals=(granted,))
    assert authorize(command, decision, lifted, careful, DEV, now_us).answer == "allow"


@pytest.mark.parametrize(
    "when",
    [RuleWhen(rung="terminate"), RuleWhen(lead="H4"), RuleWhen(purpose="signal")],
    ids=["rung", "lead", "purpose"],
)
def test_rules_see_the_decisions_rung_lead_and_purpose(when: RuleWhen) -> None:
    """And of a wish without a decision only its purpose."""
    state, now_us, decision, command = term()
    decision = replace(decision, rung="terminate", lead="H4")
    strict = with_forbid(Forbid(id="no", when=when))
    assert authorize(command, decision, state, strict, DEV, now_us).rule == "forbid no"
    wished = authorize(command, None, state, strict, DEV, now_us)
    assert (wished.rule == "forbid no") is (when.purpose is not None)


def test_the_purpose_of_a_wish_follows_from_its_command() -> None:
    """Each acting command has one; whatever else changes something is a deployment."""
    state, now_us, _, signal = term()
    files = DeployFiles(files=(FileToDeploy(path="/x", content=b"x", expects="absent"),))
    start = Launch(argv=("true",), cwd="/", log="/l", launch_id="i")
    wishes: tuple[tuple[Command, str], ...] = (
        (files, "deploy"),
        (signal, "signal"),
        (start, "relaunch"),
    )
    for command, purpose in wishes:
        for named in ("deploy", "signal", "relaunch", "clear"):
            rule = Forbid(id="no", when=RuleWhen.model_validate({"purpose": named}))
            answer = authorize(command, None, state, with_forbid(rule), DEV, now_us)
            assert (answer.rule == "forbid no") is (named == purpose), (command.name, named)


def test_a_wish_to_clear_needs_the_proof_that_its_owner_ended() -> None:
    """As a decision does."""
    state, now_us, _, _ = term()
    lock = MoveAside(path="/job/train.lock", text="7 8", owner_pid=7)
    assert authorize(lock, None, state, config(), DEV, now_us).rule == "G17"


def test_an_approval_is_used_by_nobody_else_and_not_a_moment_later() -> None:
    """Verb, argv, host's name and key, identities and policy; the last microsecond still counts."""
    state, now_us, decision, command = term()
    bound = approval_digest(command, PROD, config())
    granted = Approval("a", bound, now_us, answer="granted")
    known = replace(state, approvals=(granted,))
    assert authorize(command, decision, known, config(), PROD, now_us) == Authorization(
        "allow", "approval a", "a person said yes to this very command"
    )
    later = replace(state, approvals=(replace(granted, expires_at_us=now_us - 1),))
    assert authorize(command, decision, later, config(), PROD, now_us).answer == "ask"
    # A clock that was set back does not make a yes last longer.
    ahead = replace(known, reckoning=replace(known.reckoning, ahead_us=1))
    assert authorize(command, decision, ahead, config(), PROD, now_us).answer == "ask"
    other_name = PROD.model_copy(update={"name": "other"})
    other_rules = with_forbid(Forbid(id="x", when=RuleWhen(signal="HUP")))
    digests = {
        bound,
        approval_digest(command, other_name, config()),
        approval_digest(command, PROD, other_rules),
        approval_digest(command.model_copy(update={"signal": "INT"}), PROD, config()),
        approval_digest(ListProcesses(), PROD, config()),
    }
    assert len(digests) == 5


def launching(env: dict[str, str]) -> tuple[PolicyState, int, Decision, Launch]:
    """A decision to start the job again, and a command that does so with this environment."""
    for seed in range(60):
        for state, now_us, decision in moments(seed):
            action = decision.action
            if isinstance(action, Run) and action.command == "launch":
                wanted = config().job["job"].launch
                assert wanted is not None
                command = Launch.model_validate(
                    {
                        "argv": wanted.argv,
                        "cwd": wanted.cwd,
                        "log": wanted.log,
                        "env": {"A": "1", **env},
                        "launch_id": action.arguments["launch_id"],
                    }
                )
                return recorded(state, decision, command), now_us, decision, command
    raise AssertionError("no run starts the job")


@pytest.mark.parametrize(
    ("port", "env", "fits"),
    [
        (None, {}, True),
        (None, {"B": "2"}, False),
        (Port(variable="JOB_PORT", first=4000, tries=2), {"JOB_PORT": "4001"}, True),
        (Port(variable="JOB_PORT", first=4000, tries=2), {"JOB_PORT": "4002"}, False),
        (Port(variable="JOB_PORT", first=4000, tries=2), {}, False),
        (Port(variable="JOB_PORT", first=4000, tries=2), {"JOB_PORT": "4000", "B": "2"}, False),
    ],
)
def test_a_launch_may_differ_from_the_configured_one_by_its_port_alone(
    port: Port | None, env: dict[str, str], *, fits: bool
) -> None:
    """And the port must be one of the configured choices."""
    state, now_us, decision, command = launching(env)
    job = config().job["job"]
    assert job.launch is not None
    launch = job.launch.model_copy(update={"port": port, "env": {"A": "1"}})
    rules = config().model_copy(update={"job": {"job": job.model_copy(update={"launch": launch})}})
    answer = authorize(command, decision, state, rules, DEV, now_us)
    assert (answer.reason != "the launch is not the configured one") is fits
    without = config().model_copy(update={"job": {"job": job.model_copy(update={"launch": None})}})
    nowhere = authorize(command, decision, state, without, DEV, now_us)
    assert nowhere.reason == "the launch is not the configured one"
    nobody = authorize(
        command, decision, replace(state, incident=None), rules, DEV, now_us + SECOND_US
    )
    assert nobody.reason == "the launch is not the configured one"
