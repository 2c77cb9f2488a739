"""Events that stand in no journal: what is folded or told without a line, a chain or a disk."""

from journal.envelope import Actor, Event, HostRef
from journal.events import Payload


def unwritten(
    payload: Payload,
    seq: int = 0,
    *,
    ts_us: int = 0,
    mono_ns: int = 0,
    boot: str = "boot",
    incident: str | None = None,
    host: HostRef | None = None,
) -> Event:
    """An event of the engine's, named by its place."""
    return Event(
        id=f"e{seq:04d}", stream="s1-00000000", seq=seq, prev="", leaf="", ts_us=ts_us,
        mono_ns=mono_ns, boot=boot, incident=incident, host=host, actor=Actor("engine", "told"),
        cause=None, idem=None, kind=str(getattr(payload, "kind", "")), schema=1, payload=payload,
        out={}, redacted={}, line=b"",
    )  # fmt: skip
