"""What most commands need: settings, the system clock, who is asking, and the journal they mean."""

import argparse
import getpass
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from agentops.cli.copies import original, remember
from agentops.cli.printing import is_text, one_line, say
from agentops.config import Settings, load_settings
from agentops.errors import UsageError
from journal import Actor, Journal, JournalError, KeyStore, NewEvent, Reader, SystemClock
from journal import Settings as JournalSettings
from journal.errors import Corrupt
from journal.events import JournalRead
from journal.keeper import Keeper
from journal.layout import Layout, read_format
from journal.verification import verify_chain

_ACTOR_KINDS = ("human", "agent")


def add_journal_option(parser: argparse.ArgumentParser) -> None:
    """``--journal PATH``, the same everywhere."""
    parser.add_argument(
        "--journal",
        type=Path,
        metavar="PATH",
        help="the journal's folder (default: agentops.toml, $AGENTOPS_JOURNAL, state folder)",
    )


def add_reading_options(parser: argparse.ArgumentParser) -> None:
    """``--journal PATH`` and ``--read-only``, for commands that only look."""
    parser.add_argument(
        "--read-only",
        action="store_true",
        help="leave no trace of this reading: nothing is written, neither there nor at home",
    )
    add_journal_option(parser)


def add_json_option(parser: argparse.ArgumentParser) -> None:
    """``--json``: exactly one JSON object on stdout."""
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")


def settings_for(arguments: argparse.Namespace) -> Settings:
    """The settings in force for these arguments.

    Raises:
        UsageError: the journal's path is not text, by which its index could be named.
    """
    settings = load_settings(
        environ=os.environ, cwd=Path.cwd(), journal=getattr(arguments, "journal", None)
    )
    if not is_text(str(settings.journal)):
        raise UsageError(
            f"{settings.origins['journal']} {str(settings.journal)!r} is not UTF-8; choose a place"
            " that is"
        )
    return replace(settings, read_only=getattr(arguments, "read_only", False))


def actor() -> Actor:
    """Who is asking: ``$AGENTOPS_ACTOR`` as KIND:ID, else the login name at this machine.

    An agent's model is ``$AGENTOPS_MODEL``: nothing else on this side knows it.

    Raises:
        UsageError: the variable is not of that form.
    """
    given = os.environ.get("AGENTOPS_ACTOR")
    person = f"{getpass.getuser()}@{os.uname().nodename}"
    if given is None:
        return Actor("human", person)
    kind, _, name = given.partition(":")
    if kind == "human" and name:
        return Actor("human", name)
    if kind == "agent" and name:
        return Actor("agent", name, os.environ.get("AGENTOPS_MODEL") or None, person)
    raise UsageError(
        f"AGENTOPS_ACTOR={given!r}: write human:NAME or agent:NAME, for example agent:claude"
    )


def open_journal(settings: Settings) -> Journal:
    """Open the journal for writing; a journal that is not there yet is made, key and anchor too.

    A journal that was sealed with a key of somebody else's is written to and left unsealed: its
    owner seals that later, and no seal of a stranger's makes it look tampered with.

    Raises:
        JournalError: it cannot be opened or made; nothing was changed.
    """
    keys = KeyStore(settings.places.keys)
    if settings.journal.exists():
        owned = _is_sealed_here(settings, keys)
        opened = Journal.open(
            settings.journal,
            clock=SystemClock(),
            actor=actor(),
            keys=keys,
            anchor=settings.anchor if owned else None,
            settings=JournalSettings(seals=owned),
        )
        remember(settings)
        return opened
    anchor = settings.anchor or default_anchor(settings)
    anchor.parent.mkdir(parents=True, exist_ok=True)
    made = Journal.create(
        settings.journal, clock=SystemClock(), actor=actor(), keys=keys, anchor=anchor
    )
    remember(settings)
    return made


@contextmanager
def keep_journal(settings: Settings) -> Iterator[Journal]:
    """Open the journal for as long as a command watches, mends or serves.

    A heartbeat shows that the writer lives, so that ``verify`` remarks a gap where it did not; and
    the index is kept close behind for whoever opens ``journal.duckdb`` meanwhile.

    Raises:
        JournalError: it cannot be opened or made; nothing was changed.
    """
    with open_journal(settings) as journal, Keeper(journal):
        yield journal


def _is_sealed_here(settings: Settings, keys: KeyStore) -> bool:
    """Whether this user's key is one that seals this journal, or nobody's has yet."""
    layout = Layout(settings.journal)
    if not layout.seals.exists() or not layout.seals.read_bytes():
        return True
    name = read_format(layout)
    return keys.key_for(name).public in keys.pinned(name).keys


def default_anchor(settings: Settings) -> Path:
    """A file outside the journal, named after it and the folder it lies in."""
    folder = settings.journal.resolve().parent.name
    return settings.places.anchors / f"{folder}-{settings.journal.stem}.jsonl"


def require_journal(settings: Settings) -> None:
    """Refuse to go on where no journal is.

    Raises:
        UsageError: nothing is there.
    """
    if not settings.journal.exists():
        raise UsageError(
            f"no journal is at {settings.journal} (from {settings.origins['journal']}); give"
            " --journal PATH, or make one with agentops init"
        )


def open_reader(settings: Settings) -> Reader:
    """Read the journal.

    Raises:
        UsageError: nothing is there.
        JournalError: what is there is no journal.
    """
    require_journal(settings)
    return Reader.open(settings.journal)


def record_reading(settings: Settings, purpose: str, query: str, *, from_log: bool = True) -> None:
    """Leave a ``journal_read`` event: looking is part of the record, where it can be written.

    What lies on read-only ground is read without one, and so is a copy of a journal that lies where
    it was: to go on in it would contradict the original's seals. So is a journal that is not what
    was signed of it, or whose chain is broken, for what was shown may be anybody's words. Where the
    log itself was read, a broken link is told of also where no session would meet it. Who asked to
    read only leaves nothing either way.
    """
    told = settings.read_only or _record(settings, JournalRead(purpose=purpose, query=query))
    if told and from_log:
        _, finding = verify_chain(settings.journal)
        if finding is not None:
            say(f"agentops: not verified: {one_line(str(finding))}; run: agentops verify")


def _record(settings: Settings, reading: JournalRead) -> bool:
    """Append it, or say why not; False where that tells already that the log cannot be believed."""
    if not os.access(settings.journal, os.W_OK):
        return True
    if (other := original(settings)) is not None:
        say(f"agentops: a copy of {one_line(str(other))}; this reading was not recorded")
        return True
    try:
        with open_journal(settings) as journal:
            journal.append(NewEvent(reading))
    except Corrupt as error:
        say(f"agentops: not verified, and this reading not recorded: {one_line(str(error))}")
        return False
    except JournalError:
        return True
    return True


def resolve_incident(reader: Reader, given: str | None) -> str:
    """An incident's id from an unambiguous prefix; the latest when none is given.

    Raises:
        UsageError: none fits, or several do.
    """
    if given is not None and not given.strip():
        raise UsageError(f"incident {given!r} names none; see agentops incident list")
    incidents = reader.incidents()
    if not incidents:
        raise UsageError(f"{reader.layout.root}: no incident is recorded in this journal")
    if given is None:
        return incidents[-1].id
    fitting = [incident.id for incident in incidents if incident.id.startswith(given)]
    if given in fitting:
        return given
    if len(fitting) == 1:
        return fitting[0]
    if not fitting:
        raise UsageError(f"incident {given!r} is not in this journal; see agentops incident list")
    raise UsageError(f"incident {given!r} fits {len(fitting)}: {', '.join(fitting[:4])}; give more")
