"""The main job through the command line: each fault, from the stuck trainer to the postmortem.

The trainer, the SSH server and the signals are real. What the engine did is read from the journal
that it left, what became of the innocents from the box's own oracle.
"""

import re
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import agentops
import journal
import reports
from agentops.box.workloads import FAULTS
from journal import Reader
from journal.events import CommandIntended, DecisionMade, ObservationParsed
from tests.support.command_line import Said, User, user

# The first test waits for all demos.
pytestmark = pytest.mark.timeout(900)
LABEL = re.compile(r"\[(e\d{4,})·([0-9a-f]{8})\]")
# Which signals fit which fault, from the mechanism: see each launcher in agentops/box/files.
SIGNALS = {
    "threads-survive-interrupt": ["INT", "INT"],
    "ignores-interrupt": ["TERM"],
    "respawning-wrapper": ["TERM", "INT"],
    "hang": ["INT"],
    "none": [],
}
Demo = Callable[[str], Said]
# The trainer takes one core and the loop mostly waits: two demos share a small machine well.
AT_ONCE = 2


@pytest.fixture(scope="module")
def who(tmp_path_factory: pytest.TempPathFactory) -> User:
    """One user for all demos of this module."""
    return user(tmp_path_factory.mktemp("demo"))


@pytest.fixture(scope="module")
def demo(who: User) -> Demo:
    """What the demo said with a fault; each is run once for all tests of this module."""

    def run(fault: str) -> Said:
        return who.run("demo", "--fault", fault, "--json")

    with ThreadPoolExecutor(AT_ONCE) as pool:
        done = dict(zip(FAULTS, pool.map(run, FAULTS), strict=True))
    return done.__getitem__  # type: ignore[return-value]  # FAULTS are strings


def intents(reader: Reader, command: str) -> list[CommandIntended]:
    """What was intended of one command, in order."""
    return [
        event.payload
        for event in reader.events()
        if isinstance(event.payload, CommandIntended) and event.payload.command == command
    ]


def observed(reader: Reader, command: str) -> list[Any]:
    """What was observed of one command, in order."""
    return [
        reader.observation(event)
        for event in reader.events(kinds={"observation_parsed"})
        if isinstance(event.payload, ObservationParsed) and event.payload.command == command
    ]


@pytest.mark.parametrize("fault", FAULTS)
def test_each_fault_is_resolved_with_the_signals_that_fit_it(demo: Demo, fault: str) -> None:
    said = demo(fault)
    assert said.status == 0, said.err
    answer = said.json
    assert answer["resolution"] == ("NOTHING_TO_DO" if fault == "none" else "RECOVERED")
    assert answer["fault"] == fault
    assert answer["innocents_touched"] == 0
    assert [each["signal"] for each in answer["signals"]] == SIGNALS[fault]
    reader = Reader.open(Path(answer["journal"]))
    assert answer["events"] == len(list(reader.events()))
    # Nobody is signalled who was not asked for, and the answer leaves out nobody.
    victims = [intent.victims[0].model_dump() for intent in intents(reader, "signal_process")]
    assert victims == [each["identity"] for each in answer["signals"]]


def test_a_supervisor_is_signalled_before_its_child(demo: Demo) -> None:
    reader = Reader.open(Path(demo("respawning-wrapper").json["journal"]))
    first_listing = observed(reader, "list_processes")[0]
    rows = {(row["pid"], row["start_ticks"]): row for row in first_listing["processes"]}
    first, second = (intent.victims[0] for intent in intents(reader, "signal_process"))
    assert rows[first.pid, first.start_ticks]["cmdline"][:2] == ["sh", "run.sh"]
    assert "train_dflash_pipeline.py" in rows[second.pid, second.start_ticks]["cmdline"]
    assert rows[second.pid, second.start_ticks]["ppid"] == first.pid


def test_a_hang_is_signalled_only_after_standing_steps_were_seen(demo: Demo) -> None:
    reader = Reader.open(Path(demo("hang").json["journal"]))
    told = [
        event.payload.command if isinstance(event.payload, CommandIntended) else event.kind
        for event in reader.events()
    ]
    before = told[: told.index("signal_process")]
    assert before.count("read_heartbeat") >= 2
    beats = observed(reader, "read_heartbeat")[:2]
    assert beats[0]["heartbeat"]["step"] == beats[1]["heartbeat"]["step"]


@pytest.mark.parametrize("fault", [fault for fault in FAULTS if fault != "none"])
def test_training_goes_on_from_the_checkpoint_in_a_process_of_our_launch(
    demo: Demo, fault: str
) -> None:
    reader = Reader.open(Path(demo(fault).json["journal"]))
    beats = [seen["heartbeat"] for seen in observed(reader, "read_heartbeat")]
    (relaunch,) = intents(reader, "launch")[1:]
    last = beats[-1]
    assert last["launch_id"] == relaunch.arguments["launch_id"]
    assert last["pid"] != beats[0]["pid"] or last["start_ticks"] != beats[0]["start_ticks"]
    assert float(last["loss"]) > 0
    assert last["resumed_from_step"] is not None
    assert last["step"] > last["resumed_from_step"] > 0


@pytest.mark.parametrize("fault", FAULTS)
def test_verify_and_replay_say_yes_on_a_copy_elsewhere(
    demo: Demo, who: User, fault: str, tmp_path: Path
) -> None:
    copy = tmp_path / "elsewhere.journal"
    shutil.copytree(demo(fault).json["journal"], copy)
    said = who.run("replay", copy, "--json")
    assert said.status == 0, said.out + said.err
    answer = said.json
    assert answer["verify"]["status"] == "intact"
    assert answer["verify"]["finding"] is None
    assert answer["redecide"]["identical"] is True
    assert answer["redecide"]["decisions"] >= 3


def test_verify_says_intact_to_who_knows_the_key_and_to_nobody_else(
    demo: Demo, who: User, tmp_path: Path
) -> None:
    place = demo("none").json["journal"]
    said = who.run("verify", place)
    assert said.status == 0
    assert said.out.startswith("INTACT")
    stranger = user(tmp_path).run("verify", place)
    assert stranger.status == 3
    assert stranger.out.startswith("UNSEALED")


@pytest.mark.parametrize("fault", FAULTS)
def test_every_sentence_of_the_postmortem_names_events_of_the_journal(
    demo: Demo, fault: str
) -> None:
    answer = demo(fault).json
    leaves = [event.leaf for event in Reader.open(Path(answer["journal"])).events()]
    text = Path(answer["reports"]["md"]).read_text("utf-8")
    told = 0
    for line in text.splitlines():
        sentence = line.startswith(("- ", "1. ")) or line.endswith("]")
        row = line.startswith("| ") and not line.startswith(("| ---", "| After", "| Signal |"))
        references = LABEL.findall(line)
        if sentence and not line.startswith("#"):
            assert references, line
        if sentence or row:
            told += 1
        for ordinal, short in references:
            assert leaves[int(ordinal[1:])].startswith(short), line
    assert told > 40
    assert text.count("Not recorded.") < 10
    html = Path(answer["reports"]["html"]).read_text("utf-8")
    assert html.lower().startswith("<!doctype html>")
    assert answer["resolution"] in html


def test_a_reference_of_the_report_and_of_the_account_can_be_typed_into_show(
    demo: Demo, who: User
) -> None:
    said = demo("none")
    answer = said.json
    text = Path(answer["reports"]["md"]).read_text("utf-8")
    ordinal, short = LABEL.findall(text)[0]
    event = list(Reader.open(Path(answer["journal"])).events())[int(ordinal[1:])]
    account = re.findall(r"\[([0-9A-Z]{8})\]$", said.err, re.MULTILINE)
    assert account
    for given in (f"{ordinal}·{short}", short, event.id, event.id[:-2], event.place):
        shown = who.run("show", given, "--journal", answer["journal"], "--json")
        assert shown.status == 0, shown.err
        assert shown.json["event"]["id"] == event.id
    shown = who.run("show", account[0], "--journal", answer["journal"], "--json")
    assert shown.json["event"]["id"].endswith(account[0])


def test_the_box_is_gone_when_the_demo_has_ended(demo: Demo) -> None:
    reader = Reader.open(Path(demo("none").json["journal"]))
    (launched,) = intents(reader, "launch")
    assert not Path(str(launched.arguments["cwd"])).parent.exists()


def test_one_policy_constant_changed_is_found_at_the_first_decision_that_differs(
    demo: Demo, who: User, tmp_path: Path
) -> None:
    """The packages are copied, one number in the copy is another, and replay is run from there."""
    for package in (agentops, journal, reports):
        source = Path(str(package.__file__)).parent
        shutil.copytree(
            source, tmp_path / source.name, ignore=shutil.ignore_patterns("__pycache__")
        )
    rules = tmp_path / "agentops" / "policy" / "restoring.py"
    before = rules.read_text("utf-8")
    assert before.count("STEP_SLICE_US = 5 ") == 1
    rules.write_text(before.replace("STEP_SLICE_US = 5 ", "STEP_SLICE_US = 4 "), "utf-8")
    other = replace(who, environment={"PYTHONPATH": str(tmp_path)})
    place = demo("threads-survive-interrupt").json["journal"]
    said = other.run("replay", place, "--json")
    assert said.status == 1, said.err
    difference = said.json["redecide"]["first_difference"]
    made = [
        event
        for event in Reader.open(Path(place)).events()
        if isinstance(event.payload, DecisionMade)
    ]
    # The slice says how long one wait for the steps of the relaunched job is; the first such wait
    # is the first decision that it touches.
    index = next(
        number
        for number, event in enumerate(made)
        if '"kind":"heartbeat_step"' in event.line.decode()
    )
    assert (difference["event"], difference["ordinal"]) == (made[index].id, index + 1)
    assert difference["recorded"] != difference["recomputed"]
    told = other.run("replay", place)
    assert told.status == 1
    assert f"DIFFERS at decision {index + 1} of incident" in told.out
    assert who.run("replay", place).status == 0
