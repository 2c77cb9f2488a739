"""A policy file put to the test: its own cases, its coverage, its traps, its difference to another.

Here: the back ends of ``policy test``, ``policy lint`` and ``policy diff``; pure. Not here:
printing or reading files.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from pydantic import JsonValue

from agentops.commands import COMMANDS
from agentops.policy.config import Case, Forbid, Job, Permit, PolicyConfig, Purpose, RuleWhen
from agentops.policy.ladder import ORDER, SIGNAL_OF
from agentops.policy.rules import EFFECT_OF, Situation, forbidden, permitted

Said = Literal["forbid", "permit", "deny", "allow", "ask"]
SELECTOR_MIN = 4
FREE_COMMANDS = frozenset({"run_argv"})


@dataclass(frozen=True, slots=True)
class CaseResult:
    """One case of the file: what was expected, what the rules say, and by which rule."""

    id: str
    passed: bool
    expected: str
    said: str
    rule: str | None


@dataclass(frozen=True, slots=True)
class Tested:
    """All cases, and the rules that no case reaches."""

    cases: tuple[CaseResult, ...]
    uncovered: tuple[str, ...]

    @property
    def passed(self) -> bool:
        """Whether every case came out as expected and every rule is reached; no case shows none."""
        return bool(self.cases) and all(c.passed for c in self.cases) and not self.uncovered


@dataclass(frozen=True, slots=True)
class LintFinding:
    """One thing that is probably not meant: where, what, and what to do."""

    key: str
    problem: str
    remedy: str


def run_cases(config: PolicyConfig) -> Tested:
    """Run the tests inside the file."""
    results = tuple(_run(config, case) for case in config.test)
    reached = {result.rule for result in results}
    return Tested(results, tuple(rule for rule in _rule_ids(config) if rule not in reached))


def _rule_ids(config: PolicyConfig) -> tuple[str, ...]:
    """The names of all rules, standing approvals included, in the order of the file."""
    rules = [*(rule.id for rule in config.forbid), *(rule.id for rule in config.permit)]
    return (*rules, *(rule.id for rule in config.standing))


def _run(config: PolicyConfig, case: Case) -> CaseResult:
    said, rule = (
        _authority(config, case) if case.expect in {"allow", "ask"} else _acting(config, case)
    )
    passed = said == case.expect and (case.rule is None or case.rule == rule)
    return CaseResult(case.id, passed, _named(case.expect, case.rule), said, rule)


def _named(said: str, rule: str | None) -> str:
    return said if rule is None else f"{said} by {rule}"


def _acting(config: PolicyConfig, case: Case) -> tuple[Said, str | None]:
    given = case.given
    now = Situation(
        command=given.command,
        purpose=given.purpose,
        effect=EFFECT_OF.get(given.command, "changes"),
        signal=given.signal or "",
        rung=given.rung or "",
        lead=given.lead or "",
        need=given.need or "",
        tier=given.tier,
        facts=frozenset(given.facts),
    )
    forbid = forbidden(config, now)
    if forbid is not None:
        return "forbid", forbid.id
    permit = permitted(config, now)
    return ("deny", None) if permit is None else ("permit", permit.id)


def _authority(config: PolicyConfig, case: Case) -> tuple[Said, str | None]:
    given = case.given
    if given.command in FREE_COMMANDS:
        return "ask", None
    for standing in config.standing:
        if standing.tier == given.tier and given.command in standing.commands:
            return "allow", standing.id
    return "ask", None


def lint(config: PolicyConfig) -> tuple[LintFinding, ...]:
    """What is probably not meant."""
    return (
        *_impossible(config),
        *_shadowed(config),
        *_authority_traps(config),
        *(finding for name, job in sorted(config.job.items()) for finding in _job(name, job)),
        *_unpermitted(config),
        *_untested(config),
        *(
            LintFinding(f"rule {name}", "no test of the file reaches it", "add a [[test]] for it")
            for name in run_cases(config).uncovered
        ),
    )


def _untested(config: PolicyConfig) -> Iterator[LintFinding]:
    """Tests that are missing altogether, or that wait for a rule which is not there."""
    if not config.test:
        yield LintFinding("test", "the file has none", "add a [[test]] for each rule")
    ids = set(_rule_ids(config))
    for case in config.test:
        if case.rule is not None and case.rule not in ids:
            yield LintFinding(
                f"test {case.id}", f"no rule is called {case.rule!r}", "name the rule that decides"
            )


def _impossible(config: PolicyConfig) -> Iterator[LintFinding]:
    """Rules that can match nothing."""
    rules: tuple[Forbid | Permit, ...] = (*config.forbid, *config.permit)
    for rule in rules:
        when = rule.when
        if when.signal is not None and when.purpose not in {None, "signal"}:
            yield LintFinding(
                f"rule {rule.id}",
                f"signal {when.signal} never goes with purpose {when.purpose}",
                "remove one of the two",
            )
        wanted = None if when.rung is None else SIGNAL_OF.get(when.rung)
        if when.signal is not None and wanted is not None and wanted != when.signal:
            yield LintFinding(
                f"rule {rule.id}",
                f"rung {when.rung} sends {wanted}, not {when.signal}",
                "remove one of the two",
            )
        command = COMMANDS.get(when.command or "")
        if command is not None and command.effect == "observes":
            yield LintFinding(
                f"rule {rule.id}",
                f"{when.command} only looks, and no rule is asked for a look",
                "name a command that acts, or remove the rule",
            )


def _shadowed(config: PolicyConfig) -> Iterator[LintFinding]:
    """Rules that another one always decides before them."""
    for index, permit in enumerate(config.permit):
        for forbid in config.forbid:
            if forbid.unless is None and implies(permit.when, forbid.when):
                yield LintFinding(
                    f"permit {permit.id}",
                    f"forbid {forbid.id} covers all that it permits",
                    "remove it, or narrow the forbid",
                )
        yield from _after(permit, config.permit[:index], "permit")
    for index, forbid in enumerate(config.forbid):
        yield from _after(forbid, config.forbid[:index], "forbid")


def _after(
    rule: Permit | Forbid, earlier: tuple[Permit | Forbid, ...], kind: str
) -> Iterator[LintFinding]:
    for before in earlier:
        if implies(rule.when, before.when):
            yield LintFinding(
                f"{kind} {rule.id}",
                f"{kind} {before.id} above it decides every case of it",
                "remove it, or move it up",
            )


def implies(narrow: RuleWhen, wide: RuleWhen) -> bool:
    """Whether whatever *narrow* matches is matched by *wide* as well.

    >>> implies(RuleWhen(signal="KILL", tier="dev"), RuleWhen(signal="KILL"))
    True
    """
    wanted = wide.model_dump(exclude_none=True)
    has = narrow.model_dump(exclude_none=True)
    return all(has.get(key) == value for key, value in wanted.items())


def _authority_traps(config: PolicyConfig) -> Iterator[LintFinding]:
    for standing in config.standing:
        key = f"standing {standing.id}"
        free = sorted(FREE_COMMANDS.intersection(standing.commands))
        if free:
            yield LintFinding(key, f"{free[0]} is never standing", "remove it: it asks anyway")
        if standing.tier == "prod" and "signal_process" in standing.commands:
            yield LintFinding(
                key,
                "processes of production hosts are ended without a person",
                "remove signal_process, or move the hosts to another tier",
            )
    for rule in config.permit:
        if rule.when == RuleWhen():
            yield LintFinding(
                f"permit {rule.id}",
                "its when is empty, so it permits whatever the engine may wish for",
                "name the purpose that is meant",
            )
    kills = [rule for rule in config.permit if rule.when.signal == "KILL"]
    for rule in kills:
        yield LintFinding(
            f"permit {rule.id}",
            "a permit for KILL alone suggests that it is meant as a short cut",
            "permit purpose signal; the ladder ends with KILL, and G1 to G3 hold anyway",
        )


def _unpermitted(config: PolicyConfig) -> Iterator[LintFinding]:
    """What a job's tables ask for and no rule lets the engine do."""
    granted = {rule.when.purpose for rule in config.permit}
    for name, job in sorted(config.job.items()):
        wanted: tuple[tuple[Purpose, bool], ...] = (
            ("signal", True),
            ("deploy", bool(job.repair)),
            ("clear", bool(job.lock) or job.shared_memory is not None),
            ("relaunch", job.launch is not None),
        )
        for purpose, asked in wanted:
            if asked and not granted & {purpose, None}:
                yield LintFinding(
                    f"job.{name}",
                    f"no rule permits purpose {purpose}, so a person must do it",
                    f'add a [[permit]] with when = {{ purpose = "{purpose}" }}',
                )


def _job(name: str, job: Job) -> Iterator[LintFinding]:
    key = f"job.{name}"
    contains = job.role_match.cmd_contains
    if contains is not None and (len(contains) < SELECTOR_MIN or contains in {"python", "python3"}):
        yield LintFinding(
            f"{key}.role_match",
            f"cmd_contains {contains!r} selects far more than one job",
            "write the script's own name",
        )
    if job.launch is None:
        yield LintFinding(
            f"{key}.launch", "missing: the job can be stopped, not recovered", "add argv, cwd, log"
        )
    rungs = [rung for rung in ORDER if rung in job.stop.rungs]
    if tuple(rungs) != job.stop.rungs:
        yield LintFinding(f"{key}.stop.rungs", "not in order of force", f"write {', '.join(rungs)}")
    if "kill" in rungs and "terminate" not in rungs:
        yield LintFinding(
            f"{key}.stop.rungs", "kill follows without a terminate", "add terminate before kill"
        )
    if job.progress.watch_s > job.progress.stall_s:
        yield LintFinding(
            f"{key}.progress", "watch_s is longer than stall_s", "watch for less than a stall"
        )
    for repair in job.repair:
        if job.launch is None:
            yield LintFinding(
                f"{key}.repair", f"{repair.id} is deployed, and nothing is started", "add launch"
            )


def differences(
    old: PolicyConfig, new: PolicyConfig
) -> tuple[tuple[str, JsonValue, JsonValue], ...]:
    """Each key that differs, with both values (None: missing); rules are compared by id."""
    before, after = dict(_flat("", _by_id(old.body()))), dict(_flat("", _by_id(new.body())))
    return tuple(
        (key, before.get(key), after.get(key))
        for key in sorted(before.keys() | after.keys())
        if before.get(key) != after.get(key)
    )


def _by_id(value: JsonValue) -> JsonValue:
    """Lists of tables with an id as tables by id, so that moving a rule is no difference."""
    if isinstance(value, dict):
        return {key: _by_id(item) for key, item in value.items()}
    if isinstance(value, list) and value and all(isinstance(v, dict) and "id" in v for v in value):
        return {str(v["id"]): _by_id(v) for v in value if isinstance(v, dict)}
    return value


def _flat(prefix: str, value: JsonValue) -> Iterator[tuple[str, JsonValue]]:
    if isinstance(value, dict) and value:
        for key, item in value.items():
            yield from _flat(f"{prefix}.{key}" if prefix else key, item)
    else:
        yield prefix, value
