"""``agentops verify`` and ``agentops replay``: is it what was written, is it what follows?

``verify`` asks whether this is the journal that was written, ``replay`` whether the same facts
lead to the same decisions. Neither opens a socket nor writes a byte, but for the note that outputs
were played.
"""

import argparse
import json
from pathlib import Path

from pydantic import JsonValue

from agentops.cli.context import (
    add_journal_option,
    add_json_option,
    add_reading_options,
    record_reading,
    require_journal,
    settings_for,
)
from agentops.cli.playing import (
    add_play_options,
    play,
    play_options,
    reparse_all,
    reparsed_value,
    tell_reparsed,
)
from agentops.cli.policies import read_policy_file
from agentops.cli.printing import emit, say
from agentops.cli.status import Status
from agentops.cli.trusting import name_of, trusted, verified
from agentops.cli.values import nearest
from agentops.config import Settings
from agentops.errors import UsageError
from agentops.policy import PolicyConfig, Recomputed, recompute
from journal import KeyStore, Reader, Verification
from journal.bundle_check import bundled_journal, is_bundle, verify_bundle
from journal.verification import verify_chain
from reports.replay import Reparsed, first_difference

_DEFAULT_MODES = ("verify", "redecide")
_MODES = (*_DEFAULT_MODES, "reparse", "play")


def register(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the commands."""
    checking = commands.add_parser("verify", help="is this the journal that was written?")
    checking.add_argument("path", metavar="PATH", nargs="?", type=Path, help="a journal's folder")
    checking.add_argument(
        "--chain", action="store_true", help="only the links between lines, at the hash's speed"
    )
    checking.set_defaults(run=_verify)

    replay = commands.add_parser("replay", help="verify, then decide again; or read or play again")
    replay.add_argument(
        "words", metavar="PATH|MODE", nargs="*", help=f"a journal's folder; {', '.join(_MODES)}"
    )
    replay.add_argument(
        "--policy", type=Path, metavar="FILE", help="decide under this policy instead"
    )
    add_play_options(replay)
    replay.set_defaults(run=_replay)
    for parser in (checking, replay):
        parser.add_argument("--key", metavar="LINE|FILE", help="the public key line to trust")
        parser.add_argument(
            "--anchor", action="append", type=Path, metavar="FILE", help="anchors to compare with"
        )
        add_json_option(parser)
    add_journal_option(checking)
    add_reading_options(replay)


def _verify(arguments: argparse.Namespace) -> Status:
    settings = settings_for(arguments)
    if arguments.path is None:
        require_journal(settings)
    path = arguments.path or settings.journal
    if is_bundle(path):
        return _verify_bundle(arguments, settings, path)
    if arguments.chain:
        return _verify_chain(arguments, path)
    verification = verified(settings, path, key=arguments.key, anchors=arguments.anchor)
    doubtful = verification.in_doubt
    if arguments.json:
        emit(
            _value(verification)
            | {
                "in_doubt": [
                    {"command": each.command, "command_id": each.command_id, "event": each.event_id}
                    for each in doubtful
                ]
            }
        )
        return _status(verification)
    _tell(verification)
    _tell_trust(verification, arguments, settings, path)
    for each in doubtful:
        where = "" if each.host is None else f" on {each.host.name}"
        print(  # noqa: T201
            f"  in doubt: {each.command}{where} [{each.event_id}] has no outcome; its controller"
            " runs or died, and the next writer settles it by a probe"
        )
    return _status(verification)


def _verify_chain(arguments: argparse.Namespace, path: Path) -> Status:
    """Good links say nothing of what was cut off or sealed: a yes to the whole is not possible."""
    held, finding = verify_chain(path)
    if arguments.json:
        emit({"links": held, "finding": None if finding is None else str(finding)})
    elif finding is None:
        print(f"LINKED  {held} events; seals, outputs and rules were not looked at")  # noqa: T201
    else:
        print(f"TAMPERED  {held} events, then:\n  {finding}")  # noqa: T201
    return Status.CANNOT_SAY if finding is None else Status.NO


def _verify_bundle(arguments: argparse.Namespace, settings: Settings, path: Path) -> Status:
    """A bundle is judged by a key and anchors from outside it, here from this user's key store."""
    name = bundled_journal(path)
    pinned = KeyStore(settings.places.keys).pinned(name)
    own = name == name_of(settings.keyed or settings.journal)
    given = trusted(arguments.key, settings, own=own)
    keys = [each.line for each in reversed(pinned.keys)]
    if given is not None and (arguments.key is not None or given not in keys):
        keys = [given]
    if not keys:
        raise UsageError(f"{path}: no key of this bundle's journal is known here; give --key LINE")
    known = [Path(place) for place in pinned.places if Path(place).is_file()]
    # A bundle is sealed by one key: of those that this journal had, the newest when it was made.
    tried = (verify_bundle(path, key=key, anchors=arguments.anchor or known) for key in keys)
    found = next(tried)
    while found.status == "tampered" and (older := next(tried, None)) is not None:
        found = older if older.status != "tampered" else found
    if arguments.json:
        emit(
            {
                "status": found.status,
                "events": found.events,
                "incident": found.incident,
                "finding": found.finding,
            }
        )
    else:
        of = "a bundle" if found.incident is None else f"a bundle about incident {found.incident}"
        print(f"{found.status.upper()}  {found.events} events of {of}")  # noqa: T201
        if found.finding is not None:
            print(f"  {found.finding}")  # noqa: T201
    if found.status == "intact":
        return Status.YES
    return Status.NO if found.status == "tampered" else Status.CANNOT_SAY


def _status(verification: Verification) -> Status:
    match verification.status:
        case "intact":
            return Status.YES
        case "tampered":
            return Status.NO
        case "unanchored" | "unsealed":
            return Status.CANNOT_SAY


def _value(verification: Verification) -> dict[str, object]:
    finding = verification.finding
    return {
        "status": verification.status,
        "journal": verification.journal_id,
        "events": verification.events,
        "streams": [
            {
                "stream": each.stream,
                "events": each.size,
                "anchored": each.anchored,
                "sealed": each.sealed - each.anchored,
                "unsealed": each.size - each.sealed,
            }
            for each in verification.ranges
        ],
        "finding": None
        if finding is None
        else {
            "code": finding.code,
            "copy": finding.copy,
            "stream": finding.stream,
            "seq": finding.seq,
            "where": finding.where,
            "text": finding.message,
        },
        "remarks": [{"code": each.code, "text": each.message} for each in verification.remarks],
        "keys": list(verification.keys),
    }


def _tell(verification: Verification) -> None:
    print(f"{verification.status.upper()}  {verification.events} events")  # noqa: T201
    for each in verification.ranges:
        print(  # noqa: T201
            f"  stream {each.stream}: {each.anchored} anchored, {each.sealed - each.anchored}"
            f" sealed, {each.size - each.sealed} unsealed"
        )
    finding = verification.finding
    if finding is not None:
        print(f"  {finding}")  # noqa: T201
    for remark in verification.remarks:
        print(f"  {remark}")  # noqa: T201


def _tell_trust(
    verification: Verification, arguments: argparse.Namespace, settings: Settings, path: Path
) -> None:
    """Whose key was trusted where a seal is by another, and how to trust one where none is."""
    finding = verification.finding
    if not verification.keys and finding is None:
        print(  # noqa: T201
            f"  nobody whom you trust has signed {path}; take its key line from its owner"
            " (agentops journal key show) and give --key LINE"
        )
    if finding is None or finding.code not in {"BAD_SEAL_SIGNATURE", "BAD_ANCHOR_SIGNATURE"}:
        return
    origin = f"the key store {settings.places.keys}"
    if arguments.key is not None:
        origin = f"--key {arguments.key}"
    elif settings.journal_key is not None:
        origin = f"[journal] key of {settings.origins['key']}"
    print(f"  trusted: {', '.join(verification.keys)}\n    from {origin}")  # noqa: T201


def _replay(arguments: argparse.Namespace) -> Status:
    settings = settings_for(arguments)
    path, modes = _path_and_modes(arguments.words, settings)
    if "play" not in modes and (unused := play_options(arguments)):
        raise UsageError(f"{unused}: is for the mode play; add play, or leave it out")
    config = None if arguments.policy is None else read_policy_file(arguments.policy)
    verification = (
        verified(settings, path, key=arguments.key, anchors=arguments.anchor)
        if "verify" in modes
        else None
    )
    recomputed = None
    if "redecide" in modes and (verification is None or verification.status != "tampered"):
        recomputed = recompute(Reader.open(path), config)
    reparsed = reparse_all(Reader.open(path)) if "reparse" in modes else None
    if verification is None and modes != ("play",):
        say("not verified: whether these are the facts that were written says agentops verify")
    if "play" in modes:
        play(Reader.open(path), arguments)
        if path == settings.journal:
            record_reading(settings, "play", arguments.incident or "all")
    elif arguments.json:
        emit(
            {
                "verify": None if verification is None else _value(verification),
                "redecide": None if recomputed is None else _recomputed_value(recomputed),
                "reparse": None if reparsed is None else reparsed_value(reparsed),
            }
        )
    else:
        if verification is not None:
            _tell(verification)
            _tell_trust(verification, arguments, settings, path)
        if recomputed is not None:
            _tell_recomputed(recomputed, config)
        if reparsed is not None:
            tell_reparsed(reparsed)
    return _worst(verification, recomputed, reparsed)


def _path_and_modes(words: list[str], settings: Settings) -> tuple[Path, tuple[str, ...]]:
    modes = [word for word in words if word in _MODES]
    paths = [word for word in words if word not in _MODES]
    slips = [word for word in paths if not Path(word).exists() and nearest(word, _MODES)]
    if slips:
        meant = nearest(slips[0], _MODES)
        raise UsageError(f"replay {slips[0]}: neither a journal nor a mode{meant}")
    if len(paths) > 1:
        raise UsageError(f"replay {' '.join(paths)}: give one journal; modes: {', '.join(_MODES)}")
    return Path(paths[0]) if paths else settings.journal, tuple(modes) or _DEFAULT_MODES


def _recomputed_value(recomputed: Recomputed) -> dict[str, object]:
    first = recomputed.first
    return {
        "decisions": recomputed.decisions,
        "identical": first is None,
        "horizon": recomputed.horizon,
        "first_difference": None
        if first is None
        else {
            "event": first.event,
            "incident": first.incident,
            "ordinal": first.ordinal,
            "what": first.what,
            "recorded": first.recorded,
            "recomputed": first.recomputed,
        },
    }


def _tell_recomputed(recomputed: Recomputed, config: PolicyConfig | None) -> None:
    under = "" if config is None else " under the given policy"
    first = recomputed.first
    if first is None and not recomputed.decisions:
        print("NOTHING TO RECOMPUTE  no decision is recorded")  # noqa: T201
    elif first is None:
        print(f"IDENTICAL{under}  {recomputed.decisions} decisions recomputed")  # noqa: T201
    else:
        print(  # noqa: T201
            f"DIFFERS{under} at decision {first.ordinal} of incident {first.incident}"
            f" (event {first.event}): {first.what}\n"
            f"  recorded:   {json.dumps(first.recorded, ensure_ascii=False, sort_keys=True)}\n"
            f"  recomputed: {json.dumps(first.recomputed, ensure_ascii=False, sort_keys=True)}"
            f"{_where(first.recorded, first.recomputed)}"
        )
    if recomputed.horizon is not None:
        say(f"history ends at event {recomputed.horizon}: an observation was removed")


def _where(recorded: JsonValue, recomputed: JsonValue) -> str:
    """The first place where two decisions part, with both values; nothing when it is all of it."""
    found = first_difference(recorded, recomputed)
    if found is None or found[0] == "/":
        return ""
    pointer, old, new = found
    return f"\n  they part at {pointer}: {json.dumps(old)} and {json.dumps(new)}"


def _worst(
    verification: Verification | None, recomputed: Recomputed | None, reparsed: Reparsed | None
) -> Status:
    """A difference beats what cannot be said, which beats a yes.

    That nothing was there to be compared proves nothing, unless the journal is shown to be whole.
    """
    found = [] if verification is None else [_status(verification)]
    is_whole = verification is not None and verification.status == "intact"
    if recomputed is not None:
        if recomputed.first is not None:
            found.append(Status.NO)
        elif recomputed.horizon is not None or not (recomputed.decisions or is_whole):
            found.append(Status.CANNOT_SAY)
    if reparsed is not None:
        if reparsed.drifts:
            found.append(Status.NO)
        elif not (reparsed.compared or is_whole):
            found.append(Status.CANNOT_SAY)
    for status in (Status.NO, Status.CANNOT_SAY):
        if status in found:
            return status
    return Status.YES
