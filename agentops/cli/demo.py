"""``agentops demo``: the main job on a trap box of its own, told live, with what to type next."""

import argparse
import asyncio
import shlex
import shutil
import sys
from datetime import UTC, datetime
from pathlib import Path

from rich.text import Text

from agentops.box import Box
from agentops.box.oracle import Oracle
from agentops.box.workloads import FAULTS
from agentops.cli.account import Account
from agentops.cli.context import actor, add_journal_option, add_json_option, settings_for
from agentops.cli.policies import shipped_text
from agentops.cli.printing import console, emit
from agentops.cli.reporting import rendered
from agentops.cli.status import Status, of_resolution
from agentops.cli.trusting import standing
from agentops.config import Settings
from agentops.demo import DemoEnded, run_demo
from journal import Journal, KeyStore, Reader, SystemClock
from journal.events import CommandIntended, JsonObject, ObservationParsed
from reports.standing import Standing


def register(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command."""
    demo = commands.add_parser(
        "demo", help="find a real trainer stuck, stop it, mend it, relaunch it: on this machine"
    )
    demo.add_argument("--fault", choices=FAULTS, default=FAULTS[0], help="what is wrong with it")
    add_json_option(demo)
    add_journal_option(demo)
    demo.set_defaults(run=_demo)


def _demo(arguments: argparse.Namespace) -> Status:
    settings = settings_for(arguments)
    place = arguments.journal or _own_place(settings, arguments.fault)
    out = console(to_stderr=arguments.json)
    account = Account(out)
    ended = _run(arguments.fault, settings, place, account)
    reader = Reader.open(place)
    stands = standing(settings, place)
    reports = _write_reports(reader, ended.recovery.incident, place, stands)
    answer = _answer(ended, reader, place, reports)
    if arguments.json:
        emit(answer)
    else:
        _tell_end(account, answer, place)
    resolution = ended.recovery.resolution
    return Status.WAITS if resolution is None else of_resolution(resolution)


def _own_place(settings: Settings, fault: str) -> Path:
    """A journal of its own for each run, named by its instant."""
    now = datetime.fromtimestamp(SystemClock().wall_us() / 1_000_000, tz=UTC)
    stamp = now.strftime("%Y%m%dT%H%M%S%f")[:-3]
    return settings.places.state / "demos" / f"{stamp}-{fault}.journal"


def _run(fault: str, settings: Settings, place: Path, account: Account) -> DemoEnded:
    anchor = settings.places.anchors / f"{place.stem}.jsonl"
    for folder in (place.parent, anchor.parent):
        folder.mkdir(parents=True, exist_ok=True)
    clock = SystemClock()
    journal = Journal.create(
        place, clock=clock, actor=actor(), keys=KeyStore(settings.places.keys), anchor=anchor
    )
    with journal, Box() as box, Oracle() as oracle:
        return asyncio.run(
            run_demo(
                next(known for known in FAULTS if known == fault),
                box,
                oracle,
                journal=journal,
                clock=clock,
                policy_text=shipped_text(),
                say=account.heading,
                on_event=account.tell,
            )
        )


def _write_reports(reader: Reader, incident: str, place: Path, stands: Standing) -> dict[str, str]:
    """The postmortem beside the journal, as Markdown and as one HTML file."""
    written = {}
    for form in ("md", "html"):
        path = place.with_suffix(f".{form}")
        text = rendered(reader, incident, "incident", form, stands=stands)
        path.write_text(text, encoding="utf-8")
        written[form] = str(path)
    return written


def _answer(
    ended: DemoEnded, reader: Reader, place: Path, reports: dict[str, str]
) -> dict[str, object]:
    events = list(reader.events())
    return {
        "resolution": ended.recovery.resolution,
        "fault": ended.fault,
        "signals": _signals(reader, ended.recovery.incident),
        "innocents_touched": len(ended.innocents_touched),
        "events": len(events),
        "journal": str(place),
        "reports": reports,
        "incident": ended.recovery.incident,
        "reason": ended.recovery.reason,
        "box": ended.box,
    }


def _signals(reader: Reader, incident: str) -> list[JsonObject]:
    """The signals that the host confirmed, in order, from the journal alone."""
    intents: dict[str, CommandIntended] = {}
    sent: list[JsonObject] = []
    for event in reader.events(incident=incident):
        payload = event.payload
        if isinstance(payload, CommandIntended):
            intents[payload.command_id] = payload
        if not isinstance(payload, ObservationParsed) or payload.command != "signal_process":
            continue
        said = reader.observation(event)
        if isinstance(said, dict) and said.get("delivered") is True:
            intent = intents[payload.command_id]
            sent.append(
                {
                    "identity": intent.victims[0].model_dump(mode="json"),
                    "signal": str(intent.arguments["signal"]),
                }
            )
    return sent


def _tell_end(account: Account, answer: dict[str, object], place: Path) -> None:
    signals = answer["signals"]
    names = [f"{each['signal']}" for each in signals] if isinstance(signals, list) else []
    account.heading(f"\n{answer['resolution']}: {answer['reason']}")
    harm = "TOUCHED" if answer["innocents_touched"] else "untouched, by the kernel's word"
    rows = {
        "signals": ", ".join(names) or "none",
        "innocents": harm,
        "events": str(answer["events"]),
        "journal": _short(place),
        "report": _short(place.with_suffix(".md")),
        "": _short(place.with_suffix(".html")),
    }
    for key, value in rows.items():
        account.row(key, value)
    account.heading("\nType next:")
    typed, quoted = _typed(), shlex.quote(str(place))
    journal = _short(place) if quoted == str(place) else quoted
    for words, question in (
        (f"verify {journal}", "is this the journal that was written?"),
        (f"replay {journal}", "would the same facts lead to the same decisions?"),
        (f"log --journal {journal}", "what happened, one line an event"),
        ("init my-project", "a project of your own, for your own hosts"),
    ):
        account.console.print(Text(f"  {typed} {words}"), soft_wrap=True)
        account.console.print(Text(f"      {question}", style="dim"), soft_wrap=True)


def _short(path: Path) -> str:
    """The path as a person types it, from the home folder on."""
    try:
        return f"~/{path.relative_to(Path.home())}"
    except (RuntimeError, ValueError):
        return str(path)


def _typed() -> str:
    """How this program is called from here: by its name where the search path has it."""
    program = Path(sys.argv[0])
    if program.name != "agentops":
        return f"{sys.executable} -m agentops"
    found = shutil.which(program.name)
    return program.name if found and Path(found).samefile(program) else str(program)
