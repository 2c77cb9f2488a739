"""What a person sees before saying yes: the card.

Here: a card made of the typed question in the journal, and its lines. Never of free text: no word
of an agent or of a host stands on it but names, argv and identities. Not here: asking or answering
(``agentops.recover``).
"""

from dataclasses import dataclass

from journal.envelope import Event
from journal.events import ApprovalRequested, Identity, JsonObject

_IRREVERSIBLE = {
    "signal_process": "no: a process that ended does not come back with its memory",
    "deploy_files": "yes: a backup of each file is kept beside it",
    "launch": "yes: what is started can be stopped",
}


@dataclass(frozen=True, slots=True)
class Card:
    """One question to a person. Times in microseconds UTC."""

    approval_id: str
    host: str
    command: str
    arguments: JsonObject
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
            f"  host        {self.host}",
            f"  command     {self.command}",
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
        command=asked.command,
        arguments=asked.arguments,
        victims=asked.victims,
        rule=asked.rule,
        reversible=_IRREVERSIBLE.get(asked.command, "unknown"),
        digest=asked.digest,
        incident=event.incident,
        expires_at_us=asked.expires_at_us,
    )


def _plain(arguments: JsonObject) -> list[tuple[str, object]]:
    """Arguments in order; a victim has lines of its own."""
    return [(key, value) for key, value in sorted(arguments.items()) if key != "victim"]


def _shown(value: object) -> str:
    """A value on one line, with everything unprintable escaped."""
    return ascii(value) if not isinstance(value, str) else ascii(value)[1:-1]


def _named(victim: Identity) -> str:
    return (
        f"pid {victim.pid}, started at tick {victim.start_ticks}, boot {victim.boot_id[:8]}, "
        f"pid namespace {victim.pid_namespace}"
    )
