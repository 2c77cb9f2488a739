"""The live account of an incident: events as they become durable, told for a person.

Here: which events are worth a line and how the line looks. Not here: what they mean
(``agentops.cli.summaries``), or the report that comes after (``reports``).
"""

from rich.console import Console
from rich.text import Text

from agentops.cli.printing import shown
from agentops.cli.summaries import act, summary
from journal import Event
from journal.events import (
    CommandDenied,
    CommandFailed,
    CommandIntended,
    CommandNotSent,
    CommandOutcomeUnknown,
    CommandReconciled,
    DecisionMade,
    IncidentClosed,
    IncidentOpened,
    VerdictReached,
)

_STYLES = {
    "observes": "cyan",
    "changes": "yellow",
    "destroys": "bold red",
    "confirmed": "green",
    "refuted": "red",
    "inconclusive": "yellow",
}


class Account:
    """Tells events on a console; hands each to a person once, in the order of the journal."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self._began_us: int | None = None
        self._told: tuple[str, str] = ("", "")

    def heading(self, text: str) -> None:
        """Tell what comes next, in the demo's own words."""
        self.console.print(Text(text, style="bold"), soft_wrap=True)

    def row(self, key: str, value: str) -> None:
        """Tell one figure of the end."""
        line = Text(f"  {key:<12}", style="dim")
        line.append(value, style="default")
        self.console.print(line, soft_wrap=True)

    def tell(self, event: Event) -> None:
        """Tell one event, if it is worth a line."""
        self._began_us = self._began_us or event.ts_us
        payload = event.payload
        match payload:
            case IncidentOpened():
                self._began_us, self._told = event.ts_us, ("", "")
                self._line(event, "incident", "bold", payload.title)
            case DecisionMade():
                self._decision(event, payload)
            case CommandIntended() if payload.effect != "observes":
                self._line(event, payload.effect, _STYLES[payload.effect], act(payload))
            case VerdictReached():
                words = f"{payload.condition.get('kind')}: {payload.reason}"
                self._line(event, payload.verdict, _STYLES[payload.verdict], words)
            case CommandDenied() | CommandNotSent() | CommandFailed() | CommandOutcomeUnknown():
                self._line(event, "attention", "bold yellow", summary(event))
            case CommandReconciled():
                self._line(event, "reconciled", "magenta", summary(event))
            case IncidentClosed():
                style = "bold yellow" if payload.resolution == "HANDED_OVER" else "bold green"
                self._line(event, payload.resolution, style, payload.reason)
            case _:
                pass

    def _decision(self, event: Event, payload: DecisionMade) -> None:
        """A new phase gets a line; within a phase, what leads to an act or a wait does, once."""
        action = payload.decision.get("action")
        phase = str(payload.decision.get("phase", ""))
        if not isinstance(action, dict):
            return
        first = next(iter(_list(payload.decision.get("because"))), None)
        words = str(first.get("text", "")) if isinstance(first, dict) else ""
        probing = action.get("purpose") == "probe"
        if probing and words:
            words = f"{action.get('command')}: {words}"
        told = phase, words or summary(event)
        acting = action.get("kind") == "run" and not probing
        if phase != self._told[0] or (acting and told != self._told):
            self._told = told
            self._line(event, phase, "bold blue", told[1])

    def _line(self, event: Event, label: str, style: str, words: str) -> None:
        elapsed_s = (event.ts_us - (self._began_us or event.ts_us)) / 1_000_000
        line = Text()
        line.append(f"{elapsed_s:6.1f} s  ", style="dim")
        line.append(f"{label:<14}", style=style)
        line.append(shown(words.encode("utf-8", "surrogateescape"), 300).replace("\n", " "))
        line.append(f"  [{event.id[-8:]}]", style="dim")
        self.console.print(line, soft_wrap=True)


def _list(value: object) -> list[object]:
    return value if isinstance(value, list) else []
