"""``agentops hosts add|list|check|pin``: the inventory, and the first look at a host's key.

Here: what one host needs. Not here: taking many from an SSH configuration (``importing``).
"""

import argparse
import asyncio
import sys
from pathlib import Path

from pydantic import ValidationError
from rich.table import Table

from agentops.cli import importing
from agentops.cli.context import add_json_option, settings_for
from agentops.cli.inventory_file import append, place_of
from agentops.cli.printing import console, emit, say
from agentops.cli.status import Status
from agentops.errors import UsageError
from agentops.hosts import Host, Inventory, Layer, repinned
from agentops.transport import NotSent, OfferedKey, certified, shown_key

_KEY_TIMEOUT_S = 15.0


def register(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the commands."""
    hosts = commands.add_parser("hosts", help="the inventory of hosts").add_subparsers(
        metavar="ACTION", required=True
    )
    add = hosts.add_parser("add", help="add a host; its key is shown and asked for on first use")
    add.add_argument("name", metavar="NAME", help="what commands will call it")
    add.add_argument("--local", action="store_true", help="this machine, without SSH")
    add.add_argument("--address", metavar="HOST", default="", help="host name or IP address")
    add.add_argument("--port", type=int, default=22, help="of its SSH server")
    add.add_argument("--user", default="root", help="who logs in")
    add.add_argument("--key", type=Path, metavar="FILE", help="private key file")
    add.add_argument("--certificate", type=Path, metavar="FILE", help="goes with the private key")
    add.add_argument(
        "--agent", metavar="SOCKET", help="SSH agent, or none (default: SSH_AUTH_SOCK)"
    )
    add.add_argument(
        "--host-ca",
        type=Path,
        metavar="FILE",
        help="public key of an authority: believe the server by its certificate, ask nothing",
    )
    add.add_argument("--jump", metavar="NAME", help="go through this host of the inventory")
    add.add_argument(
        "--layer", action="append", default=[], metavar="KIND:ARG", help="pct:200, docker:NAME, …"
    )
    add.add_argument(
        "--tier",
        choices=("dev", "prod", "unknown"),
        default="unknown",
        help="how careful to be: only on dev do standing approvals hold",
    )
    add.add_argument("--label", action="append", default=[], metavar="LABEL", help="may repeat")
    _fingerprint_option(add)
    add.set_defaults(run=_add)

    importing.register(hosts)

    listing = hosts.add_parser("list", help="all hosts")
    add_json_option(listing)
    listing.set_defaults(run=_list)

    check = hosts.add_parser("check", help="does the host still show its pinned key?")
    check.add_argument("name", metavar="NAME", help="a host of the inventory")
    add_json_option(check)
    check.set_defaults(run=_check)

    pin = hosts.add_parser("pin", help="ask the host for its key, show it, and pin it if told so")
    pin.add_argument("name", metavar="NAME", help="a host of the inventory")
    _fingerprint_option(pin)
    pin.set_defaults(run=_pin)


def _fingerprint_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--fingerprint",
        metavar="SHA256:…",
        help="accept the key only if it is this one; asks nothing",
    )


def _add(arguments: argparse.Namespace) -> Status:
    settings = settings_for(arguments)
    if arguments.name in settings.inventory.hosts:
        raise UsageError(
            f"host {arguments.name!r} is in the inventory already; remove its table from"
            f" {place_of(settings)} first"
        )
    for name in ("key", "certificate"):
        path = getattr(arguments, name)
        if path is not None and not path.expanduser().is_file():
            raise UsageError(f"--{name} {path}: no such file")
    host = _host(arguments)
    if host.jump is not None:
        settings.inventory.get(host.jump)
    if host.transport == "ssh" and not host.host_ca:
        offered = asyncio.run(_offered(host, settings.inventory))
        if isinstance(offered, NotSent):
            say(f"agentops: {offered.detail}; nothing was added")
            return Status.NOT_SENT
        if not _accepted(host, offered, arguments.fingerprint):
            return Status.DENIED
        host = host.model_copy(update={"host_key": offered.line})
    path = append(settings, (host,))
    say(f"added {host.name} ({' → '.join(host.route())}, tier {host.tier}) to {path}")
    return Status.YES


def _host(arguments: argparse.Namespace) -> Host:
    if arguments.local and (arguments.address or arguments.jump):
        far = "--address" if arguments.address else "--jump"
        raise UsageError(f"--local is this machine; leave out {far}, or leave out --local")
    try:
        return Host.model_validate(
            {
                "name": arguments.name,
                "transport": "local" if arguments.local else "ssh",
                "address": arguments.address,
                "port": arguments.port,
                "user": arguments.user,
                "key": arguments.key,
                "certificate": arguments.certificate,
                "agent": arguments.agent,
                "host_ca": _authorities(arguments.host_ca),
                "jump": arguments.jump,
                "layers": tuple(Layer.from_text(text) for text in arguments.layer),
                "tier": arguments.tier,
                "labels": tuple(arguments.label),
            }
        )
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        field = ".".join(str(part) for part in first["loc"])
        said = first["msg"].removeprefix("Value error, ")
        raise UsageError(f"--{field}: {said}" if field else said) from error


def _authorities(path: Path | None) -> tuple[str, ...]:
    if path is None:
        return ()
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is no UTF-8 text"
        raise UsageError(f"--host-ca {path}: cannot be read: {reason}") from error
    keys = tuple(" ".join(line.split()[:2]) for line in lines if line.strip())
    if not keys:
        raise UsageError(f"--host-ca {path}: holds no public key; then nobody vouches for the host")
    return keys


def _pin(arguments: argparse.Namespace) -> Status:
    settings = settings_for(arguments)
    host = settings.inventory.get(arguments.name)
    if host.transport == "local":
        raise UsageError(f"{host.name} is this machine; it has no key to pin")
    offered = asyncio.run(_offered(host, settings.inventory))
    if isinstance(offered, NotSent):
        say(f"agentops: {offered.detail}; nothing was pinned")
        return Status.NOT_SENT
    if host.fingerprint is not None:
        say(f"{host.name} is known by {host.fingerprint} so far")
    if not _accepted(host, offered, arguments.fingerprint):
        return Status.DENIED
    path = Path(settings.origins[f"hosts.{host.name}"])
    text = path.read_text(encoding="utf-8")
    path.write_text(repinned(text, host.name, offered.line), encoding="utf-8")
    say(f"pinned {offered.fingerprint} for {host.name} in {path}")
    return Status.YES


async def _offered(host: Host, inventory: Inventory) -> OfferedKey | NotSent:
    try:
        async with asyncio.timeout(_KEY_TIMEOUT_S):
            return await shown_key(host, inventory)
    except TimeoutError:
        return NotSent(
            "deadline", f"{host.address}:{host.port} showed no key within {_KEY_TIMEOUT_S:.0f} s"
        )


def _accepted(host: Host, offered: OfferedKey, expected: str | None) -> bool:
    """The first-use question: a person compares fingerprints; without one the answer is no."""
    if expected is not None:
        if expected == offered.fingerprint:
            return True
        say(
            f"agentops: --fingerprint {expected} is not the key that {host.address} showed"
            f" ({offered.fingerprint}); nothing was added"
        )
        return False
    say(f"{host.address}:{host.port} shows the key {offered.fingerprint}")
    if not sys.stdin.isatty():
        say("agentops: nobody to ask; compare the key and repeat with --fingerprint SHA256:…")
        return False
    sys.stderr.write("Is this what the machine's owner says it is? [yes/no] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() == "yes"


def _list(arguments: argparse.Namespace) -> Status:
    hosts = list(settings_for(arguments).inventory)
    if arguments.json:
        emit({"hosts": [host.model_dump(mode="json") | {"route": host.route()} for host in hosts]})
        return Status.YES
    table = Table("host", "route", "tier", "labels", "key")
    for host in hosts:
        table.add_row(
            host.name,
            " → ".join(host.route()),
            host.tier,
            ", ".join(host.labels),
            host.fingerprint or "none pinned",
        )
    console().print(table)
    return Status.YES


def _check(arguments: argparse.Namespace) -> Status:
    inventory = settings_for(arguments).inventory
    host = inventory.get(arguments.name)
    if host.transport == "local":
        say(f"{host.name} is this machine; there is no key to compare")
        return Status.YES
    if host.host_key is None and host.host_ca:
        return _check_certificate(host, inventory, as_json=arguments.json)
    offered = asyncio.run(_offered(host, inventory))
    if isinstance(offered, NotSent):
        status, detail, shown = Status.NOT_SENT, offered.detail, None
    elif offered.fingerprint == host.fingerprint:
        status, detail, shown = Status.YES, "shows its pinned key", offered.fingerprint
    else:
        detail = f"pinned {host.fingerprint}, but shows {offered.fingerprint}"
        status, shown = Status.NO, offered.fingerprint
    if arguments.json:
        emit({"host": host.name, "pinned": host.fingerprint, "shown": shown, "detail": detail})
    else:
        say(f"{host.name}: {detail}")
    return status


def _check_certificate(host: Host, inventory: Inventory, *, as_json: bool) -> Status:
    """A certificate is shown only to who connects, so this logs in and out."""

    async def look() -> NotSent | None:
        async with asyncio.timeout(_KEY_TIMEOUT_S):
            return await certified(host, inventory)

    try:
        fault = asyncio.run(look())
    except TimeoutError:
        fault = NotSent("deadline", f"{host.name} did not answer within {_KEY_TIMEOUT_S:.0f} s")
    if fault is None:
        status, detail = Status.YES, "shows a certificate of its pinned authority"
    else:
        changed = fault.reason == "host_key_changed"
        status, detail = Status.NO if changed else Status.NOT_SENT, fault.detail
    if as_json:
        shown = host.fingerprint if fault is None else None
        emit({"host": host.name, "pinned": host.fingerprint, "shown": shown, "detail": detail})
    else:
        say(f"{host.name}: {detail}")
    return status
