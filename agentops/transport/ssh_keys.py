"""What an SSH connection is made with: which server keys are believed, which own keys are shown.

Here: pins, certificate authorities, key files, certificates, the agent. Not here: connecting
(``ssh_connection``). Neither ``~/.ssh/config`` nor ``known_hosts`` is read: the inventory says all.
"""

import os
from dataclasses import dataclass
from pathlib import Path

import asyncssh

from agentops.hosts import Host, fingerprint_of

_RSA = ("rsa-sha2-512", "rsa-sha2-256")
_ECDSA = ("ecdsa-sha2-nistp256", "ecdsa-sha2-nistp384", "ecdsa-sha2-nistp521")
_CERTIFIED = tuple(f"{kind}-cert-v01@openssh.com" for kind in ("ssh-ed25519", *_ECDSA, *_RSA))
_NO_AGENT = "none"


class PinnedClient(asyncssh.SSHClient):
    """Believes the pinned key, or a pinned authority's certificate, and remembers what it saw."""

    def __init__(self, host: Host) -> None:
        self._pinned = None if host.host_key is None else fingerprint_of(host.host_key)
        self._authorities = frozenset(fingerprint_of(line) for line in host.host_ca)
        self.offered: str | None = None
        self.certified = False
        """Whether a certificate of a pinned authority was shown; it may have another fault."""
        self._connection: asyncssh.SSHClientConnection | None = None

    @property
    def greeted(self) -> bool:
        """Whether the server said who it is; one with too many at its door hangs up before."""
        made = self._connection
        return made is not None and made.get_extra_info("server_version") is not None

    def connection_made(self, conn: asyncssh.SSHClientConnection) -> None:
        """Keep it, to know how far it came."""
        self._connection = conn

    def validate_host_public_key(
        self, host: str, addr: str, port: int, key: asyncssh.SSHKey
    ) -> bool:
        """Whether this plain key is the pinned one."""
        del host, addr, port
        self.offered = _fingerprint(key)
        return self.offered == self._pinned

    def validate_host_ca_key(self, host: str, addr: str, port: int, key: asyncssh.SSHKey) -> bool:
        """Whether this key may certify; asyncssh then checks names and dates of the certificate."""
        del host, addr, port
        self.offered = f"a certificate by {_fingerprint(key)}"
        self.certified = _fingerprint(key) in self._authorities
        return self.certified


def _fingerprint(key: asyncssh.SSHKey) -> str:
    return fingerprint_of(key.export_public_key().decode())


def algorithms(host: Host) -> list[str]:
    """What to ask the server for: else one with several keys may show another than the pinned."""
    asked = list(_CERTIFIED) if host.host_ca else []
    if host.host_key is not None:
        kind = host.host_key.split()[0]
        return [*asked, *(_RSA if kind == "ssh-rsa" else (kind,))]
    return asked or ["ssh-ed25519", _ECDSA[0], *_RSA]


@dataclass(frozen=True, slots=True)
class OwnKeys:
    """What to show the server. keys None leaves the choice to the agent and the default files.

    agent is the socket to ask; "" for none. only is the one key of the agent's that may be used.
    """

    keys: tuple[asyncssh.SSHKeyPair, ...] | None
    certificates: tuple[str, ...] = ()
    agent: str = ""
    only: str | None = None

    @property
    def account(self) -> str:
        """What was there to show, for a person who was not let in."""
        if self.keys is not None:
            return "with the configured key"
        if not self.agent:
            return "no key is configured, and there is no agent (SSH_AUTH_SOCK)"
        return f"with the keys of the agent at {self.agent}"


def home_path(path: str | Path) -> Path:
    """The path with the home folder in place of ~; as it is where nobody has that name."""
    return Path(os.path.expanduser(path))  # noqa: PTH111 - pathlib's raises for an unknown user


def own_keys(host: Host) -> OwnKeys | str:
    """The keys that *host* names, or why they cannot be used.

    A configured key is the only one that is shown. If its file is locked by a passphrase, the agent
    is asked for it, and for no other.
    """
    agent = os.environ.get("SSH_AUTH_SOCK", "") if host.agent is None else host.agent
    agent = "" if agent == _NO_AGENT else agent
    certificates = () if host.certificate is None else (str(home_path(host.certificate)),)
    for certificate in certificates:
        if not Path(certificate).exists():
            return f"certificate {certificate} is not there"
    if host.key is None:
        return OwnKeys(None, certificates, agent)
    path = home_path(host.key)
    try:
        return OwnKeys(tuple(asyncssh.load_keypairs(str(path), certlist=list(certificates))))
    except asyncssh.KeyEncryptionError as error:
        why: object = error
    except (OSError, asyncssh.KeyImportError) as error:
        if "passphrase" not in str(error).lower():
            return f"key file {path} cannot be used: {error}"
        why = error
    public = path.with_name(path.name + ".pub")
    if agent and public.exists():
        return OwnKeys(None, certificates, agent, only=str(public))
    return f"key file {path} is locked ({why}), and no agent is there to ask for it"
