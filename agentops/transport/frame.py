r"""The frame: the shell wrapper around a command, and the reader of what comes back.

The wrapper runs in the innermost layer. It prints a begin marker, runs the command with its stdin
closed (unless input is given), a plain locale and a remote deadline, and prints an end marker with
the command's status, on both streams. A marker is one line ``:agentops begin NONCE PID`` or
``:agentops end|cut NONCE STATUS``, always after a newline of its own, so output without a final
newline stays whole. The line stands in no argv: the wrapper composes it, so a listing of processes
cannot forge it. PID is the wrapper's own, in the innermost layer; command and wrapper share a
process group that ``timeout`` leads, where there is one.

``cut`` instead of ``end`` says that the wrapper itself was told to stop: by the remote deadline,
by the transport's signal, or by a stranger.
"""

import shlex
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from agentops.transport.layers import Argv

PREAMBLE_LIMIT = 4096
_DIGITS_MAX = 16

# A shell defers its trap until the foreground child has ended, so a "cut" marker with a status
# proves that the command itself is gone. Children get the default handler back.
_WRAP = (
    't=end; trap "t=cut" TERM INT HUP; n=$1; shift; '
    'printf "\\n:agentops begin %s %s\\n" "$n" $$ >&2; '
    'printf "\\n:agentops begin %s %s\\n" "$n" $$; "$@"; s=$?; '
    'printf "\\n:agentops %s %s %s\\n" "$t" "$n" "$s" >&2; '
    'printf "\\n:agentops %s %s %s\\n" "$t" "$n" "$s"'
)
# The variables are unset because COLUMNS cuts listings and LC_* translates messages.
PLAIN = (
    "unset LANG LANGUAGE COLUMNS LINES LC_CTYPE LC_MESSAGES LC_NUMERIC LC_TIME LC_COLLATE; "
    "LC_ALL=C; export LC_ALL"
)
_START = (
    f'd=$1 i=$2 w=$3; shift 3; {PLAIN}; [ "$i" = 1 ] || exec </dev/null; '
    "if command -v timeout >/dev/null 2>&1; "
    'then exec timeout -k 2 "$d" sh -c "$w" agentops "$@"; '
    'else exec sh -c "$w" agentops "$@"; fi'
)
_SHELL_START = (
    f"{PLAIN}; w={shlex.quote(_WRAP)}; "
    "command -v timeout >/dev/null 2>&1 && t='timeout -k 2' || t=; "
    'command -v setsid >/dev/null 2>&1 && t="setsid $t"'
)


def frame(argv: Argv, *, nonce: str, remote_deadline_s: int, has_stdin: bool) -> Argv:
    """Wrap *argv*; the result needs nothing but a POSIX sh where it runs."""
    flag = "1" if has_stdin else "0"
    return ("sh", "-c", _START, "agentops", str(remote_deadline_s), flag, _WRAP, nonce, *argv)


def shell_prelude() -> str:
    """What a persistent shell is sent first: the same frame, ready for ``shell_request``."""
    return f"{_SHELL_START}; case $t in *timeout*) ;; *) exit 69 ;; esac\n"


def shell_request(argv: Argv, *, nonce: str, remote_deadline_s: int) -> str:
    """One line for a persistent shell: the frame around *argv*, in a session of its own."""
    words = shlex.join((nonce, *argv))
    return f'$t {remote_deadline_s} sh -c "$w" agentops {words} </dev/null\n'


# The frame is known by its pid and by the nonce in its argv, so a reused pid is never signalled.
# timeout leads the group and hands TERM on to it once; a KILL goes to the whole group.
_STOP = (
    "case $(tr '\\0' ' ' <\"/proc/$1/cmdline\") in *\" $2 \"*) ;; *) exit 3 ;; esac 2>/dev/null; "
    'read -r x <"/proc/$1/stat"; set -- "$1" "$3" ${x##*") "}; g=$5 c=; '
    '[ "$g" -gt 1 ] || exec kill -s "$2" "$1"; '
    'read -r c 2>/dev/null <"/proc/$g/comm"; '
    'if [ "$2$c" = TERMtimeout ]; then kill -s TERM "$g"; else kill -s "$2" -- "-$g"; fi'
)


def stop_frame(*, pid: int, nonce: str, signal: Literal["TERM", "KILL"]) -> Argv:
    """An argv for the frame's own layer that signals the frame's process group.

    Needed because OpenSSH ignores signal requests in sessions of root. Exits 3 if that frame is
    gone.

    Source: OpenSSH 9.2, session.c, ``session_signal_req`` (needs privilege separation).
    """
    return ("sh", "-c", _STOP, "agentops-stop", str(pid), nonce, signal)


@dataclass(frozen=True, slots=True)
class EndMarker:
    """What the wrapper said last: ``end`` if the command ended by itself, else ``cut``."""

    kind: Literal["end", "cut"]
    status: int


@dataclass(slots=True)
class StreamReader:
    """Takes one stream's chunks, hands on what stands between the markers, in bounded memory.

    Bytes outside the markers are the preamble; its first 4096 bytes are kept.
    """

    nonce: str
    deliver: Callable[[bytes], None]
    frame_pid: int | None = None
    ended: EndMarker | None = None
    preamble: bytearray = field(default_factory=bytearray)
    _held: bytes = b""

    @property
    def begun(self) -> bool:
        """Whether the begin marker was seen: the frame ran."""
        return self.frame_pid is not None

    def feed(self, chunk: bytes) -> None:
        """Take the next bytes of the stream, in any cut."""
        data = self._held + chunk
        self._held = b""
        if not self.begun:
            data = self._look_for_begin(data)
        if self.begun and self.ended is None:
            data = self._look_for_end(data)
        if self.ended is not None:
            self._keep_outside(data)

    def finish(self) -> None:
        """The stream is closed: hand on what was held back as a possible marker."""
        held, self._held = self._held, b""
        if self.begun and self.ended is None:
            if held:
                self.deliver(held)
        else:
            self._keep_outside(held)

    def _look_for_begin(self, data: bytes) -> bytes:
        found = _first_marker(data, self._heads("begin"))
        if found is not None:
            self._keep_outside(data[: found.start])
            self.frame_pid = found.number
            return data[found.end :]
        at = len(data) - _unfinished(data, self._heads("begin"))
        self._keep_outside(data[:at])
        self._held = data[at:]
        return b""

    def _look_for_end(self, data: bytes) -> bytes:
        heads = self._heads("end", "cut")
        found = _first_marker(data, heads)
        if found is None:
            return self._hold_from(data, len(data) - _unfinished(data, heads))
        if found.start:
            self.deliver(data[: found.start])
        kind: Literal["end", "cut"] = "end" if found.head == heads[0] else "cut"
        self.ended = EndMarker(kind=kind, status=found.number)
        return data[found.end :]

    def _heads(self, *kinds: str) -> tuple[bytes, ...]:
        return tuple(f"\n:agentops {kind} {self.nonce} ".encode() for kind in kinds)

    def _hold_from(self, data: bytes, at: int) -> bytes:
        if at:
            self.deliver(data[:at])
        self._held = data[at:]
        return b""

    def _keep_outside(self, data: bytes) -> None:
        self.preamble += data[: PREAMBLE_LIMIT - len(self.preamble)]


@dataclass(frozen=True, slots=True)
class _Found:
    """A whole marker in some bytes: where it stands, how it begins, and its number."""

    start: int
    end: int
    head: bytes
    number: int


def _first_marker(data: bytes, heads: tuple[bytes, ...]) -> _Found | None:
    """The first whole marker in *data*; what only begins like one is passed over."""
    first: _Found | None = None
    for head in heads:
        at = data.find(head)
        while at >= 0 and (first is None or at < first.start):
            after = at + len(head)
            digits, newline, _ = data[after : after + _DIGITS_MAX + 1].partition(b"\n")
            if newline and digits.isdigit():
                first = _Found(at, after + len(digits) + 1, head, int(digits))
            at = data.find(head, at + 1)
    return first


def _unfinished(data: bytes, heads: tuple[bytes, ...]) -> int:
    """Length of the end of *data* that may be the start of a marker."""
    at = data.find(b"\n", max(0, len(data) - len(heads[0]) - _DIGITS_MAX))
    while at >= 0:
        tail = data[at:]
        for head in heads:
            digits = tail[len(head) :]
            if head.startswith(tail) or (
                tail.startswith(head) and (not digits or digits.isdigit())
            ):
                return len(tail)
        at = data.find(b"\n", at + 1)
    return 0
