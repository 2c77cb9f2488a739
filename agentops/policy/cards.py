"""What a person sees before saying yes: the card.

Here: a card made of the typed question in the journal, and its lines. Never of free text: no word
of an agent or of a host stands on it but names, argv and identities. Not here: asking or answering
(``agentops.recover``), the argv of each layer (``agentops.approvals``).
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from journal.envelope import Event
from journal.events import ApprovalRequested, Effect, Identity, JsonObject

_ENDED = "no: a process that ended does not come back with its memory"
_REVERSIBLE = {
    "signal_process": _ENDED,
    "stop_processes": _ENDED,
    "tmux_interrupt": _ENDED,
    "remove_segments": "no: what is removed is gone",
    "move_aside": "yes: the file is kept beside its old place",
    "deploy_files": "yes: a backup of each file is kept beside it",
    "apply_patch": "yes: a backup of each file is kept beside it",
    "roll_back": "yes: deploy the same files again",
    "launch": "yes: what is started can be stopped",
    "run_argv": "unknown: it can do whatever its program can",
}
_WORD_MAX = 120
_QUOTED = frozenset(" \t\"'\\$`;&|<>(){}[]*?!#~") | frozenset(map(chr, (*range(32), 127)))


@dataclass(frozen=True, slots=True)
class Card:
    """One question to a person. Times in microseconds UTC."""

    approval_id: str
    host: str
    tier: str
    route: tuple[str, ...]
    command: str
    effect: Effect
    arguments: JsonObject
    argv: tuple[str, ...]
    victims: tuple[Identity, ...]
    rule: str
    reversible: str
    digest: str
    incident: str | None
    expires_at_us: int

    def lines(self) -> tuple[str, ...]:
        """The card for a terminal."""
        return (
            f"approval {self.approval_id}",
            f"  host        {_shown(self.host)}, tier {self.tier}",
            f"  command     {self.command}, which {self.effect}",
            *(f"  {key:<11} {_shown(value)}" for key, value in _plain(self.arguments)),
            *(f"  victim      {_named(victim)}" for victim in self.victims),
            f"  reversible  {self.reversible}",
            f"  asked by    {self.rule}",
            f"  bound to    {self.digest[:16]}",
        )


def card_of(event: Event) -> Card | None:
    """The card of an ``approval_requested`` event; None for any other."""
    asked = event.payload
    if not isinstance(asked, ApprovalRequested):
        return None
    return Card(
        approval_id=asked.approval_id,
        host="" if event.host is None else event.host.name,
        tier=asked.tier,
        route=asked.route,
        command=asked.command,
        effect=asked.effect,
        arguments=asked.arguments,
        argv=asked.argv,
        victims=asked.victims,
        rule=asked.rule,
        reversible=_REVERSIBLE.get(asked.command, "unknown"),
        digest=asked.digest,
        incident=event.incident,
        expires_at_us=asked.expires_at_us,
    )


def argv_line(argv: Sequence[str]) -> str:
    """An argv on one line; a long word stands as its length and digest, and hides nothing short."""
    return " ".join(_word(word) for word in argv)


def _word(word: str) -> str:
    if len(word) <= _WORD_MAX and "\n" not in word:
        return ascii(word) if not word.isascii() or not word or set(word) & _QUOTED else word
    digest = hashlib.sha256(word.encode("utf-8", "surrogatepass")).hexdigest()
    return f"<{len(word)} characters, sha256 {digest[:16]}>"


def _plain(arguments: JsonObject) -> list[tuple[str, object]]:
    """Arguments in order; a victim has lines of its own."""
    return [
        (key, value) for key, value in sorted(arguments.items()) if key not in {"victim", "victims"}
    ]


def _shown(value: object) -> str:
    """A value on one line, with everything unprintable escaped."""
    return ascii(value) if not isinstance(value, str) else ascii(value)[1:-1]


def _named(victim: Identity) -> str:
    return (
        f"pid {victim.pid}, started at tick {victim.start_ticks}, boot {victim.boot_id[:8]}, "
        f"pid namespace {victim.pid_namespace}"
    )
