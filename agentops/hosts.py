"""The inventory: which hosts there are, how to reach them, and how careful to be.

Here: the models and their reading from parsed TOML. Not here: connections
(``agentops.transport``), rules about tiers (``agentops.policy``).
"""

import base64
import binascii
import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from agentops.errors import ConfigError, UsageError

Tier = Literal["dev", "prod", "unknown"]
LayerKind = Literal["pct", "docker", "sudo", "nsenter"]

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
_LABEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._=-]{0,62}")
_LABEL_CHARS = 63  # RFC 1035, section 2.3.4
# What each layer's argument may be: no leading dash, so that it can never be read as an option.
_LAYER_ARGUMENTS: Mapping[str, re.Pattern[str]] = {
    "pct": re.compile(r"[1-9][0-9]{2,8}"),
    "docker": re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,254}"),
    "sudo": re.compile(r"[a-z_][a-z0-9_-]{0,31}\$?"),
    "nsenter": re.compile(r"[1-9][0-9]{0,9}"),
}


class Layer(BaseModel):
    """One step of a route behind the machine itself, as ``kind:argument``.

    The argument is a container id for pct, a name for docker, a user for sudo, a pid for nsenter.

    >>> Layer.from_text("pct:200").text
    'pct:200'
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: LayerKind
    argument: str

    @field_validator("argument")
    @classmethod
    def _plain_text(cls, value: str) -> str:
        if "\n" in value:
            raise ValueError("a layer's argument is one line")
        return value

    @model_validator(mode="after")
    def _argument_fits_kind(self) -> Self:
        if not _LAYER_ARGUMENTS[self.kind].fullmatch(self.argument):
            raise ValueError(f"{self.argument!r} cannot be the argument of layer {self.kind}")
        return self

    @property
    def text(self) -> str:
        """The layer as written in the inventory."""
        return f"{self.kind}:{self.argument}"

    @classmethod
    def from_text(cls, text: str) -> "Layer":
        """Read ``kind:argument``; ``sudo`` alone means ``sudo:root``.

        Raises:
            UsageError: unknown kind, or an argument that the kind cannot have.
        """
        kind, _, argument = text.partition(":")
        if kind == "sudo" and not argument:
            argument = "root"
        try:
            return cls.model_validate({"kind": kind, "argument": argument})
        except ValidationError:
            raise UsageError(
                f"layer {text!r} is not known: write pct:ID, docker:NAME, sudo[:USER] or"
                " nsenter:PID, for example pct:200"
            ) from None


def _is_word(text: str) -> bool:
    """Whether it is one word that can be printed."""
    return bool(text) and text.isprintable() and not re.search(r"\s", text)


def _can_be_asked(address: str) -> bool:
    """Whether DNS has a question for it: no part is empty or too long."""
    parts = address.removesuffix(".").split(".")
    return all(0 < len(part) <= _LABEL_CHARS for part in parts)


def fingerprint_of(host_key: str) -> str:
    """SHA-256 fingerprint of a public key line, as ``ssh-keygen -l`` prints it.

    Raises:
        ValueError: the text is no public key line.

    Source: RFC 4253 section 6.6 (blob), OpenSSH's sshkey_fingerprint (unpadded base64).
    """
    kind, _, rest = host_key.strip().partition(" ")
    encoded, _, _ = rest.strip().partition(" ")
    if not encoded:
        raise ValueError("a host key is written as 'TYPE BASE64', for example 'ssh-ed25519 AAAA…'")
    try:
        blob = base64.b64decode(encoded, validate=True)
    except binascii.Error:
        raise ValueError("the host key's second field is not base64") from None
    if blob[4 : 4 + len(kind)] != kind.encode():
        raise ValueError("the host key's type and its base64 part do not belong together")
    digest = hashlib.sha256(blob).digest()
    return "SHA256:" + base64.b64encode(digest).decode().rstrip("=")


class Host(BaseModel):
    """One machine or container that can be acted on, and the route to it.

    Without a key the agent's and the user's default ones are shown; agent is the agent's socket,
    "none" for no agent, and by default that of SSH_AUTH_SOCK. certificate goes with the key. The
    server is believed by its own pinned key, or by a certificate of one of host_ca for its address.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    transport: Literal["ssh", "local"] = "ssh"
    address: str = ""
    port: int = Field(default=22, ge=1, le=65535)
    user: str = "root"
    key: Path | None = None
    certificate: Path | None = None
    agent: str | None = None
    host_key: str | None = None
    host_ca: tuple[str, ...] = ()
    jump: str | None = None
    layers: tuple[Layer, ...] = ()
    tier: Tier = "unknown"
    labels: tuple[str, ...] = ()

    @field_validator("layers", mode="before")
    @classmethod
    def _layers_from_text(cls, value: object) -> object:
        if isinstance(value, list | tuple):
            return tuple(Layer.from_text(item) if isinstance(item, str) else item for item in value)
        return value

    @model_validator(mode="after")
    def _is_usable(self) -> Self:
        if not _NAME.fullmatch(self.name):
            raise ValueError(f"name {self.name!r} must be letters, digits, dot, dash, underscore")
        if self.transport == "ssh" and (not self.address or self.address.startswith("-")):
            raise ValueError(f'host {self.name} has no address: write address = "HOST or IP"')
        if self.transport == "ssh" and not (_is_word(self.address) and _can_be_asked(self.address)):
            raise ValueError(f"host {self.name}: address {self.address!r} is no name or number")
        if self.transport == "ssh" and not _is_word(self.user):
            raise ValueError(f"host {self.name}: user {self.user!r} is no name")
        if any(not _LABEL.fullmatch(label) for label in self.labels):
            raise ValueError(f"host {self.name}: labels are letters, digits and . _ = -")
        for line in (*self.host_ca, *([] if self.host_key is None else [self.host_key])):
            fingerprint_of(line)
        return self

    @property
    def fingerprint(self) -> str | None:
        """What the host is known by: its pinned key's SHA-256 fingerprint; None without a pin.

        Where an authority vouches for it, the authority's fingerprint and the certified address.
        """
        if self.host_key is not None:
            return fingerprint_of(self.host_key)
        if not self.host_ca:
            return None
        return f"{fingerprint_of(self.host_ca[0])}@{self.address}:{self.port}"

    def route(self) -> tuple[str, ...]:
        """The way to the host, one word a layer, for journals and people."""
        if self.transport == "local":
            first = "local"
        else:
            first = f"ssh:{self.user}@{self.address}:{self.port}"
        hops = (f"jump:{self.jump}",) if self.jump else ()
        return (*hops, first, *(layer.text for layer in self.layers))


@dataclass(frozen=True, slots=True)
class Inventory:
    """All hosts of one configuration file, by name."""

    hosts: Mapping[str, Host]

    @classmethod
    def parse(cls, table: Mapping[str, object], source: str) -> "Inventory":
        """Read the ``[hosts]`` table of a parsed TOML file; *source* names the file in errors.

        Raises:
            ConfigError: a host's entry cannot be used; names file, host, field and value.
        """
        hosts: dict[str, Host] = {}
        for name, entry in table.items():
            if not isinstance(entry, Mapping):
                raise ConfigError(f"{source}: hosts.{name} must be a table, [hosts.{name}]")
            try:
                hosts[name] = Host.model_validate({**entry, "name": name})
            except UsageError as error:
                raise ConfigError(f"{source}: hosts.{name}: {error}") from None
            except ValidationError as error:
                first = error.errors(include_url=False)[0]
                field = ".".join(str(part) for part in first["loc"]) or "entry"
                raise ConfigError(f"{source}: hosts.{name}: {field}: {first['msg']}") from None
        for host in hosts.values():
            if host.jump is not None and host.jump not in hosts:
                raise ConfigError(
                    f"{source}: hosts.{host.name}: jump host {host.jump!r} is no host"
                )
        return cls(hosts=hosts)

    def get(self, name: str) -> Host:
        """The host of that name.

        Raises:
            UsageError: there is none; lists the names there are.
        """
        try:
            return self.hosts[name]
        except KeyError:
            known = ", ".join(sorted(self.hosts)) or "none yet"
            raise UsageError(
                f"host {name!r} is not in the inventory (known: {known}); add it with"
                f" agentops hosts add {name}"
            ) from None

    def labelled(self, label: str) -> tuple[Host, ...]:
        """All hosts that carry *label*, by name."""
        return tuple(host for _, host in sorted(self.hosts.items()) if label in host.labels)

    def __iter__(self) -> Iterator[Host]:
        return iter(self.hosts.values())


def repinned(text: str, name: str, host_key: str) -> str:
    """The inventory's text with another host key in the table of host *name*.

    Raises:
        UsageError: the table is not written as ``[hosts.NAME]``, so a person has to do it.
    """
    header = re.compile(rf'^\[\s*hosts\s*\.\s*"?{re.escape(name)}"?\s*\][^\n]*\n?', re.MULTILINE)
    found = header.search(text)
    line = f"host_key = {_toml_string(host_key)}\n"
    if found is None:
        raise UsageError(
            f"there is no table [hosts.{name}] to write to; add the line {line.strip()}"
        )
    rest = text[found.end() :]
    end = re.search(r"^\[", rest, re.MULTILINE)
    table = rest if end is None else rest[: end.start()]
    kept = re.sub(r"^host_key\s*=[^\n]*\n?", "", table, flags=re.MULTILINE)
    return text[: found.end()] + line + kept + rest[len(table) :]


def toml_entry(host: Host) -> str:
    """The host as a TOML table, ready to be appended to the inventory's file."""
    lines = [f"[hosts.{_toml_string(host.name)}]"]
    if host.transport == "local":
        lines.append('transport = "local"')
    else:
        lines.append(f"address = {_toml_string(host.address)}")
        lines.append(f"port = {host.port}")
        lines.append(f"user = {_toml_string(host.user)}")
    optional = {
        "key": None if host.key is None else str(host.key),
        "certificate": None if host.certificate is None else str(host.certificate),
        "agent": host.agent,
        "host_key": host.host_key,
        "jump": host.jump,
    }
    lines += [f"{k} = {_toml_string(v)}" for k, v in optional.items() if v is not None]
    if host.host_ca:
        lines.append(f"host_ca = [{', '.join(_toml_string(x) for x in host.host_ca)}]")
    if host.layers:
        lines.append(f"layers = [{', '.join(_toml_string(x.text) for x in host.layers)}]")
    lines.append(f"tier = {_toml_string(host.tier)}")
    if host.labels:
        lines.append(f"labels = [{', '.join(_toml_string(x) for x in host.labels)}]")
    return "\n".join(lines) + "\n"


def _toml_string(text: str) -> str:
    # A TOML basic string takes JSON's escapes, and JSON's writer escapes all that TOML must.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
