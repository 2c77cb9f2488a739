"""Terminals that outlive connections: ``tmux_sessions``, ``tmux_capture``, ``tmux_interrupt``.

tmux answers status 0 for keys that reach nobody, so an interrupt is bound to the identity of the
pane's foreground process and refused where the pane would swallow it.
"""

from collections.abc import Sequence
from typing import ClassVar, Literal

from pydantic import Field

from agentops.commands.base import Count, Malformed, Observation
from agentops.commands.place import Place
from agentops.commands.script import ScriptCommand, only
from journal.events import Effect, Identity, Retry

ServerState = Literal["running", "no_server", "no_tmux", "failed"]
# The same state has several texts, by version and by whether the socket ever existed.
_NO_SERVER = ("no server running", "error connecting to", "no sessions", "no current")
_PANE_ID = r"^%[0-9]{1,9}$"


class Pane(Observation):
    """One pane. foreground is the process that a C-c would reach; None if the pane is dead.

    in_mode: the pane shows copy mode, or the like, and keys go to tmux itself.
    """

    session: str
    window: Count
    pane: Count
    pane_id: str
    process: Identity | None
    foreground: Identity | None
    command: str
    dead: bool
    in_mode: bool
    attached: Count


class TmuxSeen(Observation):
    """This user's tmux server on its default socket, and its panes."""

    state: ServerState
    text: str
    uid: Count
    socket_folder: str
    server: Identity | None
    panes: tuple[Pane, ...]


class PaneCaptured(Observation):
    """The text of a pane, as shown and above; lines is empty unless state is "running"."""

    state: Literal["running", "no_server", "no_tmux", "no_pane", "failed"]
    text: str
    lines: tuple[str, ...]


class InterruptSent(Observation):
    """Whether C-c went to the foreground process that was meant."""

    sent: bool
    refusal: (
        Literal["no_server", "no_pane", "pane_in_mode", "identity_changed", "tmux_failed"] | None
    )

    def holds(self) -> bool | None:
        """Whether the key was sent."""
        return self.sent


class _Head(Place):
    status: int | None
    error: str
    uid: Count
    socket_folder: str


class _RawPane(Observation):
    session: str
    window: Count
    pane: Count
    pane_id: str
    pid: Count
    start_ticks: Count
    dead: bool
    in_mode: bool
    attached: Count
    command: str
    foreground_pgid: int = Field(gt=-(2**53), lt=2**53)
    foreground_start_ticks: Count
    server_pid: Count
    server_start_ticks: Count


def server_state(status: int | None, text: str) -> ServerState:
    """What tmux's end means, judged by status and any of its texts.

    >>> server_state(1, "error connecting to /tmp/tmux-0/default (No such file or directory)")
    'no_server'
    """
    if status == 0:
        return "running"
    if "no tmux on PATH" in text:
        return "no_tmux"
    return "no_server" if any(words in text for words in _NO_SERVER) else "failed"


class TmuxSessions(ScriptCommand):
    """Every pane of this user's tmux server, with the process in its foreground."""

    name: ClassVar[str] = "tmux_sessions"
    effect: ClassVar[Effect] = "observes"
    intrusiveness: ClassVar[int] = 0
    retry: ClassVar[Retry] = "repeat"
    assumptions: ClassVar[tuple[str, ...]] = (
        "the job runs in the default server of this user; other sockets are not asked",
        "the server's command line is that of its first session and says nothing of the others",
    )
    silence: ClassVar[str] = "Nothing was learned; no server is an answer."
    python: ClassVar[tuple[str, ...]] = ("identity", "tmux")

    def script_arguments(self) -> tuple[str, ...]:
        """The verb."""
        return ("list",)

    def read(self, rows: Sequence[dict[str, object]]) -> TmuxSeen | Malformed:
        """The server, then one row a pane."""
        if not rows:
            return Malformed("the first row is missing")
        head = _Head.model_validate(rows[0])
        raw = [_RawPane.model_validate(row) for row in rows[1:]]
        text = head.error

        def identity(pid: int, start_ticks: int) -> Identity | None:
            return None if pid <= 0 or start_ticks == 0 else head.at(pid, start_ticks)

        panes = tuple(
            Pane(
                session=pane.session,
                window=pane.window,
                pane=pane.pane,
                pane_id=pane.pane_id,
                process=identity(pane.pid, pane.start_ticks),
                foreground=identity(pane.foreground_pgid, pane.foreground_start_ticks),
                command=pane.command,
                dead=pane.dead,
                in_mode=pane.in_mode,
                attached=pane.attached,
            )
            for pane in raw
        )
        return TmuxSeen(
            state=server_state(head.status, text),
            text=text,
            uid=head.uid,
            socket_folder=head.socket_folder,
            server=identity(raw[0].server_pid, raw[0].server_start_ticks) if raw else None,
            panes=panes,
        )


class TmuxCapture(ScriptCommand):
    """The visible text of a pane and some lines above it."""

    name: ClassVar[str] = "tmux_capture"
    effect: ClassVar[Effect] = "observes"
    intrusiveness: ClassVar[int] = 0
    retry: ClassVar[Retry] = "repeat"
    assumptions: ClassVar[tuple[str, ...]] = (
        "a screen shows what was printed last, not what is true now",
    )
    silence: ClassVar[str] = "Nothing was learned; an empty pane is an answer."
    python: ClassVar[tuple[str, ...]] = ("identity", "tmux")

    pane_id: str = Field(pattern=_PANE_ID)
    """As tmux_sessions shows it, for example %0."""
    lines_above: int = Field(default=200, ge=0, le=10_000)
    """How many lines above the visible ones."""

    def script_arguments(self) -> tuple[str, ...]:
        """The verb, the pane, the number of lines."""
        return ("capture", self.pane_id, str(self.lines_above))

    def read(self, rows: Sequence[dict[str, object]]) -> PaneCaptured | Malformed:
        """One row."""
        raw = _RawCapture.model_validate(only(rows))
        error, text = raw.error, raw.text
        if raw.status != 0 and "can't find" in error:
            return PaneCaptured(state="no_pane", text=error, lines=())
        state = server_state(raw.status, error)
        lines = tuple(text.rstrip("\n").split("\n")) if state == "running" and text else ()
        return PaneCaptured(state=state, text=error, lines=lines)


class _RawCapture(Observation):
    status: int | None
    text: str
    error: str


class TmuxInterrupt(ScriptCommand):
    """Send C-c to a pane, if its foreground process still is the one that was meant."""

    name: ClassVar[str] = "tmux_interrupt"
    effect: ClassVar[Effect] = "destroys"
    intrusiveness: ClassVar[int] = 3
    retry: ClassVar[Retry] = "reconcile"
    assumptions: ClassVar[tuple[str, ...]] = (
        "C-c reaches the pane's foreground process group only, and may be ignored there",
        "a terminal in raw mode takes C-c as a key",
    )
    silence: ClassVar[str] = "Unknown whether the key was sent; look at the process."
    python: ClassVar[tuple[str, ...]] = ("identity", "tmux")

    pane_id: str = Field(pattern=_PANE_ID)
    """As tmux_sessions shows it, for example %0."""
    foreground: Identity
    """The pane's foreground process, by the identity that was seen."""

    def victims(self) -> tuple[Identity, ...]:
        """The foreground process; its group goes with it."""
        return (self.foreground,)

    def script_arguments(self) -> tuple[str, ...]:
        """The verb, the pane, the leader of the foreground group."""
        return ("interrupt", self.pane_id, self.foreground.model_dump_json())

    def read(self, rows: Sequence[dict[str, object]]) -> InterruptSent | Malformed:
        """One row."""
        raw = _RawInterrupt.model_validate(only(rows))
        if raw.sent == (raw.refusal is not None):
            return Malformed("the answer says both sent and refused, or neither")
        return InterruptSent(sent=raw.sent, refusal=raw.refusal)


class _RawInterrupt(InterruptSent):
    status: int | None
