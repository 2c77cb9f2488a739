"""Hosts from the user's own SSH configuration, as inventory entries.

``ssh -G ALIAS`` says what OpenSSH would do, with every pattern, ``Match`` and ``Include`` resolved,
so of that language only the names are read here: which aliases there are, and in which files.
A ``Match exec`` is refused before ssh is asked, because asking would run its program.

The pins are those of known_hosts; a host that is not in there stays without one.
"""

import asyncio
import glob
import os
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import asyncssh
from pydantic import ValidationError

from agentops.errors import UsageError
from agentops.hosts import Host, Tier
from agentops.transport.ssh_keys import home_path

_TIMEOUT_S = 10.0
_KEY_TYPES = ("ssh-ed25519", "ecdsa-sha2-nistp256", "ecdsa-sha2-nistp384", "ssh-rsa")
_INCLUDES_MAX = 16
_LINE = re.compile(r"\s*([A-Za-z]+)(?:\s*=\s*|\s+)(.*)")
_NOT_A_NAME = re.compile(r"[^A-Za-z0-9._-]+")
_PLACE = re.compile(r"(?:(.+)@)?(?:\[(.+)\]|([^:]+))(?::([0-9]+))?")
# These together are not somebody's choice but OpenSSH's defaults, spelled out.
_DEFAULT_FILES = frozenset(
    f"~/.ssh/id_{kind}" for kind in ("rsa", "ecdsa", "ecdsa_sk", "ed25519", "ed25519_sk")
)


@dataclass(frozen=True, slots=True)
class Imported:
    """What a configuration gives: hosts in an order in which jump hosts come first, and the rest.

    left_out says for an alias why it is no host of the inventory.
    """

    hosts: tuple[Host, ...]
    left_out: Mapping[str, str]


def aliases(config: Path) -> tuple[str, ...]:
    """The names that a configuration file and its includes give, in order; patterns are no names.

    Raises:
        UsageError: a file cannot be read, includes go round, or there is a ``Match exec``.
    """
    names: dict[str, None] = {}
    for keyword, words, place in _lines(config, depth=0):
        if keyword == "match" and "exec" in {word.lower().lstrip("!") for word in words}:
            raise UsageError(
                f"{place}: Match exec would run a program to answer; give the hosts names without"
                " it, for example in a file of their own, and import that"
            )
        if keyword == "host":
            names.update(dict.fromkeys(word for word in words if not set("*?!") & set(word)))
    return tuple(names)


def _lines(config: Path, *, depth: int) -> Iterator[tuple[str, list[str], str]]:
    """Keyword in lower case, words, and FILE:LINE of every line, includes in their place."""
    if depth > _INCLUDES_MAX:
        raise UsageError(f"{config}: files include one another without an end")
    try:
        text = config.read_text("utf-8", "surrogateescape")
    except OSError as error:
        raise UsageError(f"{config} cannot be read: {error.strerror}") from None
    if "\0" in text:
        raise UsageError(f"{config} holds a NUL byte and is no configuration")
    for number, line in enumerate(text.splitlines(), 1):
        found = _LINE.fullmatch(line)
        if found is None:
            continue
        place = f"{config}:{number}"
        try:
            words = shlex.split(found[2], comments=True)
        except ValueError:
            raise UsageError(f"{place}: a quote is not closed") from None
        keyword = found[1].lower()
        yield keyword, words, place
        if keyword == "include":
            for word in words:
                # OpenSSH takes a bare name from ~/.ssh, wherever the including file is.
                pattern = home_path("~/.ssh") / home_path(word)
                for path in sorted(glob.glob(str(pattern))):  # noqa: PTH207 - an absolute pattern
                    yield from _lines(Path(path), depth=depth + 1)


async def import_all(
    config: Path, *, names: Sequence[str] = (), known: Sequence[str] = (), tier: Tier = "unknown"
) -> Imported:
    """The hosts of a configuration (of *names* only, if given), and the jump hosts they need.

    Hosts in *known* are in the inventory already: they are left out, and may be jumped through.

    Raises:
        UsageError: the configuration cannot be used at all, or has no alias of that name.
    """
    there = aliases(config)
    strangers = [name for name in names if name not in there]
    if strangers:
        raise UsageError(f"{config} has no Host {strangers[0]} (it has: {', '.join(there)})")
    gathering = _Gathering(config, frozenset(known), tier)
    for alias in names or there:
        try:
            await gathering.add(alias)
        except UsageError as error:
            gathering.left_out[alias] = str(error)
    return Imported(tuple(gathering.hosts.values()), gathering.left_out)


@dataclass(slots=True)
class _Gathering:
    """Hosts as they are found; a jump host is added before who needs it."""

    config: Path
    known: frozenset[str]
    tier: Tier
    hosts: dict[str, Host] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)

    async def add(
        self, alias: str, *, hops: tuple[str, ...] | None = None, seen: tuple[str, ...] = ()
    ) -> str:
        """Add *alias* and the hosts before it; gives its name in the inventory.

        hops are those of a ProxyJump that named this one last: they stand in place of its own.
        """
        if alias in seen:
            raise UsageError(f"jump hosts go in a circle: {' → '.join((*seen, alias))}")
        options = await _options(alias, self.config)
        host = host_from_options(alias, options, tier=self.tier)
        before = jumps_of(options) if hops is None else hops
        if before:
            # The same machine by another way is another entry.
            via = await self.add(before[-1], hops=before[:-1] or None, seen=(*seen, alias))
            host = host.model_copy(update={"jump": via})
            if hops:
                host = host.model_copy(update={"name": f"{host.name}-by-{via}"})
        if host.name in self.known:
            if hops is None and alias == host.name:
                self.left_out.setdefault(alias, "it is in the inventory already")
        else:
            self.hosts.setdefault(host.name, host)
        return host.name


async def import_host(alias: str, *, tier: Tier = "unknown", config: Path | None = None) -> Host:
    """The inventory entry for one alias, without its jump host.

    Raises:
        UsageError: there is no ssh program, it does not accept the alias, or the way to the host
            cannot be carried over.
    """
    options = await _options(alias, config)
    host = host_from_options(alias, options, tier=tier)
    hops = jumps_of(options)
    return host.model_copy(update={"jump": _name(hops[-1])}) if hops else host


async def _options(alias: str, config: Path | None) -> str:
    """What ``ssh -G`` prints for an alias, or for a jump host as USER@HOST:PORT."""
    found = _PLACE.fullmatch(alias)
    user, bare, name, port = (None, None, alias, None) if found is None else found.groups()
    chosen = [] if config is None else ["-F", str(config)]
    chosen += ["-l", user] if user else []
    chosen += ["-p", port] if port else []
    try:
        process = await asyncio.create_subprocess_exec(
            *("ssh", *chosen, "-G", "--", bare or name),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
    except FileNotFoundError:
        raise UsageError("reading the SSH configuration needs the ssh program") from None
    async with asyncio.timeout(_TIMEOUT_S):
        out, err = await process.communicate()
    if process.returncode != 0:
        said = err.decode("utf-8", "backslashreplace").strip()
        raise UsageError(f"ssh does not accept the name {alias!r}: {said}")
    return out.decode("utf-8", "backslashreplace")


def host_from_options(alias: str, text: str, *, tier: Tier = "unknown") -> Host:
    r"""Read what ``ssh -G`` printed: one option a line, name first, in lower case.

    Raises:
        UsageError: the way to the host cannot be carried over.

    >>> host_from_options("gpu", "hostname 10.1.2.6\nport 2222\nuser ops\n").route()
    ('ssh:ops@10.1.2.6:2222',)
    """
    options = _parsed(text)
    command = _first(options, "proxycommand")
    if command not in {None, "none"}:
        raise UsageError(f"ProxyCommand {command} cannot be carried over; use ProxyJump")
    address = _first(options, "hostname") or alias
    port = _port(_first(options, "port") or "22", alias)
    called = _first(options, "hostkeyalias") or address
    known = (*options.get("userknownhostsfile", ()), *options.get("globalknownhostsfile", ()))
    key, authorities = _pins(known, called, port)
    files = options.get("identityfile", ())
    chosen = () if set(files) >= _DEFAULT_FILES else files
    agent = _first(options, "identityagent")
    try:
        return Host(
            name=_name(alias),
            address=address,
            port=port,
            user=_first(options, "user") or "root",
            key=_existing(chosen),
            certificate=_existing(options.get("certificatefile", ())),
            agent=None if agent in {None, "SSH_AUTH_SOCK"} else agent,
            host_key=key,
            # asyncssh compares a certificate's names with the address, not with a HostKeyAlias.
            host_ca=authorities if called == address else (),
            tier=tier,
        )
    except ValidationError as error:
        said = error.errors(include_url=False)[0]["msg"].removeprefix("Value error, ")
        raise UsageError(f"{alias}: {said}") from None


def _port(text: str, alias: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= len("65535")):
        raise UsageError(f"{alias}: port {text!r} is no number that a port can have")
    return int(text)


def jumps_of(text: str) -> tuple[str, ...]:
    """The hops before a host, first hop first, as ``ssh -G`` printed them."""
    jump = _first(_parsed(text), "proxyjump")
    return () if jump in {None, "none"} else tuple(str(jump).split(","))


def _parsed(text: str) -> dict[str, list[str]]:
    if "\0" in text:
        raise UsageError("ssh printed a NUL byte, which no option can hold")
    options: dict[str, list[str]] = {}
    for line in text.splitlines():
        name, _, value = line.partition(" ")
        options.setdefault(name, []).append(value.strip())
    return options


def _name(alias: str) -> str:
    """An alias, or a jump host as USER@HOST:PORT, as a name of the inventory."""
    return _NOT_A_NAME.sub("-", alias).strip("-")


def _first(options: Mapping[str, Sequence[str]], name: str) -> str | None:
    values = options.get(name)
    return values[0] if values else None


def _existing(paths: Sequence[str]) -> Path | None:
    """The first file that is there; None leaves the choice to agent and defaults."""
    found = (home_path(path) for path in paths)
    return next((path for path in found if os.path.isfile(path)), None)  # noqa: PTH113 - never raises


def _pins(lines: Sequence[str], address: str, port: int) -> tuple[str | None, tuple[str, ...]]:
    """The host's key in known_hosts, the strongest type first, and the authorities for it.

    What is marked as revoked is neither.
    """
    plain: dict[str, str] = {}
    authorities: list[str] = []
    for path in (home_path(word) for line in lines for word in line.split()):
        if not os.path.isfile(path):  # noqa: PTH113 - never raises
            continue
        try:
            known = asyncssh.read_known_hosts(str(path))
        except (OSError, ValueError):
            continue
        keys, signers, revoked, *_ = known.match(address, "", None if port == 22 else port)  # noqa: PLR2004 - SSH's own
        good = [_line(key) for key in keys if key not in revoked]
        plain |= {line.split()[0]: line for line in good if line.split()[0] not in plain}
        authorities += [_line(key) for key in signers if key not in revoked]
    return next((plain[kind] for kind in _KEY_TYPES if kind in plain), None), tuple(authorities)


def _line(key: asyncssh.SSHKey) -> str:
    return " ".join(key.export_public_key().decode().split()[:2])
