"""Hosts from the user's own SSH configuration, as inventory entries.

``ssh -G ALIAS`` says what OpenSSH would do, with every ``Match`` and ``Include`` resolved, so
nothing of that language is parsed here. The pinned key is the one in the user's known_hosts; a host
that is not in there stays without a key, and is asked for on first use.
"""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import asyncssh

from agentops.errors import UsageError
from agentops.hosts import Host, Tier

_TIMEOUT_S = 10.0
_KEY_TYPES = ("ssh-ed25519", "ecdsa-sha2-nistp256", "ecdsa-sha2-nistp384", "ssh-rsa")


async def import_host(alias: str, *, tier: Tier = "unknown", config: Path | None = None) -> Host:
    """The inventory entry for one alias of ``~/.ssh/config`` (or of another file).

    Raises:
        UsageError: there is no ssh program, or it does not accept the alias.
    """
    chosen = () if config is None else ("-F", str(config))
    try:
        process = await asyncio.create_subprocess_exec(
            "ssh",
            *chosen,
            "-G",
            "--",
            alias,
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
    return host_from_options(alias, out.decode("utf-8", "backslashreplace"), tier=tier)


def host_from_options(alias: str, text: str, *, tier: Tier = "unknown") -> Host:
    r"""Read what ``ssh -G`` printed: one option a line, name first, in lower case.

    >>> host_from_options("gpu", "hostname 10.1.2.6\nport 2222\nuser ops\n").route()
    ('ssh:ops@10.1.2.6:2222',)
    """
    options: dict[str, list[str]] = {}
    for line in text.splitlines():
        name, _, value = line.partition(" ")
        options.setdefault(name, []).append(value.strip())
    address = _first(options, "hostname") or alias
    port = int(_first(options, "port") or 22)
    jump = _first(options, "proxyjump")
    return Host(
        name=alias,
        address=address,
        port=port,
        user=_first(options, "user") or "root",
        key=_existing(options.get("identityfile", ())),
        host_key=_pinned(
            options.get("userknownhostsfile", ()), _first(options, "hostkeyalias") or address, port
        ),
        # Only the last hop is named here; the hops before it are that host's own business.
        jump=None if jump in {None, "none"} else str(jump).rsplit(",", 1)[-1],
        tier=tier,
    )


def _first(options: dict[str, list[str]], name: str) -> str | None:
    values = options.get(name)
    return values[0] if values else None


def _existing(paths: Sequence[str]) -> Path | None:
    """The first identity file that is there; None leaves the choice to agent and defaults."""
    found = (Path(path).expanduser() for path in paths)
    return next((path for path in found if path.exists()), None)


def _pinned(lines: Sequence[str], address: str, port: int) -> str | None:
    """The host's key in known_hosts, the strongest type first."""
    for path in (Path(word).expanduser() for line in lines for word in line.split()):
        if not path.exists():
            continue
        try:
            known = asyncssh.read_known_hosts(str(path))
        except (OSError, ValueError):
            continue
        keys = known.match(address, "", None if port == 22 else port)[0]  # noqa: PLR2004 - SSH's own
        found = {
            str(line.split()[0]): " ".join(line.split()[:2])
            for line in (key.export_public_key().decode() for key in keys)
        }
        for kind in _KEY_TYPES:
            if kind in found:
                return found[kind]
    return None
