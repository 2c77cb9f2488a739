"""``agentops policy test|lint|diff|explain|simulate``: the policy file, put to the test.

Files are read here; what they say is judged in ``agentops.policy``.
"""

import argparse
from pathlib import Path

from agentops.cli.context import (
    add_journal_option,
    add_json_option,
    open_reader,
    record_reading,
    settings_for,
)
from agentops.cli.policies import policy_for, read_policy_file
from agentops.cli.printing import console, emit
from agentops.cli.simulating import add_simulate
from agentops.cli.status import Status
from agentops.errors import UsageError
from agentops.policy import PolicyConfig
from agentops.policy.checking import differences, lint, run_cases
from agentops.policy.explaining import explain
from journal import Reader
from journal.errors import EventNotFound
from journal.events import DecisionMade


def register(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the commands."""
    policy = commands.add_parser("policy", help="test, lint, compare, explain a policy")
    actions = policy.add_subparsers(metavar="ACTION", required=True)
    testing = actions.add_parser(
        "test", help="run the tests inside the file; every rule is reached"
    )
    testing.add_argument(
        "file", metavar="FILE", nargs="?", type=Path, help="default: the one in force"
    )
    testing.set_defaults(run=_test)
    linting = actions.add_parser("lint", help="what is probably not meant")
    linting.add_argument(
        "file", metavar="FILE", nargs="?", type=Path, help="default: the one in force"
    )
    linting.set_defaults(run=_lint)
    comparing = actions.add_parser("diff", help="each key in which two files differ")
    comparing.add_argument("old", metavar="OLD", type=Path, help="a policy file")
    comparing.add_argument("new", metavar="NEW", type=Path, help="the one to compare it with")
    comparing.set_defaults(run=_diff)
    explaining = actions.add_parser(
        "explain", help="why a decision was made, and what would flip it"
    )
    explaining.add_argument(
        "decision",
        metavar="DECISION",
        help="its id or a prefix; or its event, as agentops show takes it",
    )
    explaining.set_defaults(run=_explain)
    add_simulate(actions)
    for parser in (testing, linting, comparing, explaining):
        add_json_option(parser)
        add_journal_option(parser)


def _given(arguments: argparse.Namespace) -> tuple[PolicyConfig, str]:
    if arguments.file is not None:
        return read_policy_file(arguments.file), str(arguments.file)
    return policy_for(settings_for(arguments))


def _test(arguments: argparse.Namespace) -> Status:
    config, source = _given(arguments)
    tested = run_cases(config)
    if arguments.json:
        emit(
            {
                "source": source,
                "passed": tested.passed,
                "cases": [
                    {"id": c.id, "passed": c.passed, "expected": c.expected, "said": c.said}
                    for c in tested.cases
                ],
                "uncovered": list(tested.uncovered),
            }
        )
        return Status.YES if tested.passed else Status.NO
    out = console()
    for case in tested.cases:
        mark = "ok  " if case.passed else "FAIL"
        rule = "" if case.rule is None else f" by {case.rule}"
        wanted = "" if case.passed else f"; expected {case.expected}"
        out.print(f"{mark} {case.id}: {case.said}{rule}{wanted}", soft_wrap=True)
    for rule in tested.uncovered:
        out.print(f"MISS {rule}: no test reaches this rule", soft_wrap=True)
    if not tested.cases:
        out.print("MISS the file has no [[test]], so nothing of it is shown", markup=False)
    passed = sum(case.passed for case in tested.cases)
    out.print(f"{source}: {passed} of {len(tested.cases)} tests pass", soft_wrap=True)
    return Status.YES if tested.passed else Status.NO


def _lint(arguments: argparse.Namespace) -> Status:
    config, source = _given(arguments)
    findings = lint(config)
    if arguments.json:
        emit(
            {
                "source": source,
                "findings": [
                    {"key": f.key, "problem": f.problem, "remedy": f.remedy} for f in findings
                ],
            }
        )
    else:
        for finding in findings:
            told = f"{source}: {finding.key}: {finding.problem}; {finding.remedy}"
            console().print(told, soft_wrap=True, markup=False)
        if not findings:
            console().print(f"{source}: no finding", soft_wrap=True, markup=False)
    return Status.NO if findings else Status.YES


def _diff(arguments: argparse.Namespace) -> Status:
    found = differences(read_policy_file(arguments.old), read_policy_file(arguments.new))
    if arguments.json:
        emit({"differences": [{"key": k, "old": a, "new": b} for k, a, b in found]})
    else:
        for key, old, new in found:
            console().print(f"{key}: {old!r} → {new!r}", soft_wrap=True, markup=False)
        if not found:
            console().print("no difference")
    return Status.NO if found else Status.YES


def _explain(arguments: argparse.Namespace) -> Status:
    settings = settings_for(arguments)
    reader = open_reader(settings)
    wanted: str = arguments.decision
    made = _decision(reader, wanted)
    record_reading(settings, "policy explain", made.decision_id)
    if arguments.json:
        emit({"decision_id": made.decision_id, "decision": made.decision})
        return Status.YES
    for line in explain(made):
        console().print(line, soft_wrap=True)
    return Status.YES


def _decision(reader: Reader, wanted: str) -> DecisionMade:
    """The decision of that id or prefix, or of an event under any name that it is shown under."""
    found = [
        event.payload
        for event in reader.events(kinds={"decision_made"})
        if isinstance(event.payload, DecisionMade) and event.payload.decision_id.startswith(wanted)
    ]
    if len(found) > 1:
        raise UsageError(f"decision {wanted!r}: {len(found)} decisions of that id; give more of it")
    if found:
        return found[0]
    try:
        event = reader.event(wanted)
    except EventNotFound as error:
        raise UsageError(f"decision {wanted!r}: {error}; see agentops log") from error
    if not isinstance(event.payload, DecisionMade):
        raise UsageError(f"{wanted!r} is a {event.kind}, no decision; see agentops show {wanted}")
    return event.payload
