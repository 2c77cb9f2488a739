"""A process that writes a journal and may be killed: started by path, prints what is acknowledged.

usage: journal_child.py MODE JOURNAL KEYS [ARGUMENT]
    append            notes until killed, with an output now and then; prints each id
    act STAGE         one command whose effect is one line in COUNTER; kills itself at the stage
    race COMMAND_ID   waits for a line on stdin, then intends that command; prints won or lost
    crowd COUNT       waits for a line on stdin, then appends that many notes and intents
"""

import os
import signal
import sys
from pathlib import Path

from journal import Actor, HostRef, Journal, NewEvent, SystemClock
from journal.errors import DuplicateIdem
from journal.events import CommandCompleted, CommandIntended, IncidentNoted

HOST = HostRef("box", "SHA256:fingerprint")


def say(text: str) -> None:
    """One line to the parent, at once."""
    os.write(1, f"{text}\n".encode())


def intended(command_id: str, effect: str = "changes") -> NewEvent:
    """An intent whose effect can be counted."""
    payload = CommandIntended.model_validate(
        {
            "command_id": command_id, "command": "count", "definition": "d", "arguments": {},
            "argv": ("count",), "route": (), "effect": effect, "intrusiveness": 1,
            "retry": "reconcile", "deadline_ms": 1000, "victims": (), "decision_id": None,
            "authority": "test", "reason": "test",
        }
    )  # fmt: skip
    return NewEvent(payload, host=HOST)


def completed(command_id: str) -> NewEvent:
    """Its outcome, with a little output."""
    payload = CommandCompleted(command_id=command_id, exit_status=0, duration_ms=1)
    return NewEvent(payload, host=HOST, attachments={"stdout": b"counted\n" * 40})


def append(journal: Journal) -> None:
    """Append until killed."""
    number = 0
    while True:
        number += 1
        outputs = {"stdout": b"x" * (number * 37 % 6000)} if number % 3 == 0 else {}
        new = NewEvent(IncidentNoted(text="n" * (number * 131 % 9000)), attachments=outputs)
        (event,) = journal.append(new)
        say(event.id)


def act(journal: Journal, stage: str) -> None:
    """Intend, act once, record; die at the stage."""

    def at(here: str) -> None:
        if here == stage:
            os.kill(os.getpid(), signal.SIGKILL)

    at("before_intent")
    journal.append(intended("act-1", "destroys"))
    at("after_intent")
    with (journal.layout.root.parent / "counter").open("ab", buffering=0) as counter:
        counter.write(b"act-1\n")
    at("after_effect")
    journal.append(completed("act-1"))
    at("after_outcome")


def main() -> None:
    """Open the journal and do what the mode says."""
    mode, path, keys, *rest = sys.argv[1:]
    actor = Actor("human", "child")
    journal = Journal.open(Path(path), clock=SystemClock(), actor=actor, keys=Path(keys))
    say(f"open {journal.stream}")
    if mode == "append":
        append(journal)
    elif mode == "act":
        act(journal, rest[0])
    elif mode == "race":
        sys.stdin.readline()
        try:
            journal.append(intended(rest[0], "observes"))
            say("won")
        except DuplicateIdem:
            say("lost")
    elif mode == "crowd":
        sys.stdin.readline()
        for number in range(int(rest[0])):
            journal.append(NewEvent(IncidentNoted(text=f"{number}")))
            command_id = f"{os.getpid()}-{number}"
            journal.append(intended(command_id, "observes"))
            journal.append(completed(command_id))
    journal.close()


if __name__ == "__main__":
    main()
