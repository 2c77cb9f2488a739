"""Killing a controller at a moment and letting the command line finish what it began.

Here: drawing the moments, one crash with its recovery, and what must be true of it. The driver that
dies is ``crash_driver``; which moments are run stands in the tests.
"""

import json
import os
import random
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from agentops.box.box import Box
from journal import Reader
from journal.events import JournalRecovered
from tests.support.crash_driver import PHASES, Moment
from tests.support.projects import HOST, JOB, Project, project

DRIVER = Path(__file__).with_name("crash_driver.py")
# In the order in which the loop comes to them when the job needs two interrupts, a patch, a start.
ACTS = (
    ("signal_process", 1),
    ("signal_process", 2),
    ("deploy_files", 1),
    ("launch", 1),
)
UNDER_WAY_MS = 120


def drawn(seed: int) -> list[Moment]:
    """Every phase of every act, and of a probe drawn for each phase; in a drawn order."""
    source = random.Random(seed)  # noqa: S311 - moments, not secrets
    moments = [
        Moment(phase, command, nth, source.randrange(1, UNDER_WAY_MS))
        for phase in PHASES
        for command, nth in (*ACTS, ("list_processes", source.randrange(1, 7)))
    ]
    source.shuffle(moments)
    return moments


def killed(place: Project, moment: Moment) -> list[str]:
    """Run the driver into its moment; gives the ids that it had acknowledged."""
    read, write = os.pipe()
    spec = {"moment": asdict(moment), "pipe": write, "job": JOB, "host": HOST}
    with os.fdopen(read) as told:
        driver = subprocess.Popen(
            [sys.executable, str(DRIVER), json.dumps(spec)],
            cwd=place.user.folder,
            env=place.user.environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            pass_fds=(write,),
        )
        os.close(write)
        ids = told.read().split()
        _, err = driver.communicate(timeout=60)
    assert driver.returncode == -9, f"{moment} never came: {err.decode()[-2000:]}"
    return ids


def check_crash(box: Box, folder: Path, container: str, moment: Moment) -> None:
    """One crash: nothing acknowledged is lost, the doubt is named, the rest is done once."""
    place = project(box, folder, container)
    place.start("threads")
    acknowledged = killed(place, moment)
    check_journal(place, moment, acknowledged)
    incident = Reader.open(place.journal).incidents()[-1].id
    said = place.user.run("recover", JOB, "--host", HOST, "--json")
    assert said.status == 0, f"{moment}: {said.out}{said.err}"
    assert said.json["resolution"] == "RECOVERED", moment
    assert said.json["incident"] == incident, moment
    check_done_once(place, moment)
    replayed = place.user.run("replay", place.journal, "--json")
    assert replayed.status == 0, f"{moment}: {replayed.out}{replayed.err}"
    assert replayed.json["redecide"]["identical"] is True, moment


def check_journal(place: Project, moment: Moment, acknowledged: Sequence[str]) -> None:
    """What the dead controller left opens, verifies and names what is in doubt."""
    reader = Reader.open(place.journal)
    held = [event.id for event in reader.events()]
    assert len(acknowledged) > 5, moment
    assert [name for name in acknowledged if name not in held] == [], moment
    said = place.user.run("verify", "--json")
    assert said.status == 3, f"{moment}: {said.out}{said.err}"
    assert said.json["finding"] is None, moment
    doubtful = [each["command"] for each in said.json["in_doubt"]]
    in_doubt = moment.phase in {"intent_durable", "under_way", "answered"}
    assert doubtful == ([moment.command] if in_doubt else []), moment


def check_done_once(place: Project, moment: Moment) -> None:
    """By the world's own count: two interrupts, one file replaced, one start after the first."""
    world = [line.partition(" ")[0] for line in place.world()]
    wanted = ["start", "INT", "INT", "start"]
    if (moment.phase, moment.command, moment.nth) == ("intent_durable", "signal_process", 2):
        # Never sent, and nothing can show that: the ladder goes on to TERM, which ends the job
        # before it could note anything.
        wanted = ["start", "INT", "start"]
    assert world == wanted, moment
    assert len(list(place.job.glob("code.py.before-*"))) == 1, moment
    assert (place.job / "code.py").read_text() == "VERSION = 2\n", moment
    assert len(place.living()) == 1, moment
    recovered = [
        event.payload.in_doubt
        for event in Reader.open(place.journal).events()
        if isinstance(event.payload, JournalRecovered)
    ]
    in_doubt = moment.phase in {"intent_durable", "under_way", "answered"}
    assert [len(each) for each in recovered] == ([1] if in_doubt else []), moment
