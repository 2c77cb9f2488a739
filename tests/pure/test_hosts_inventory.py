"""The inventory: what it accepts, what it says when it cannot."""

import tomllib

import pytest

from agentops.errors import ConfigError, UsageError
from agentops.hosts import Host, Inventory, Layer, fingerprint_of, toml_entry

# Public key and fingerprint as ssh-keygen -l printed them for a key that was thrown away.
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJk2TXEh4X/KsUJDxIgUIOJxVTtIllNE+sNV2f1w85mB"
FINGERPRINT = "SHA256:rtwWAyGBBe9K1rOvP4bmgJ52+nCroGuNlIq5L+/NlF0"


def parse(text: str) -> Inventory:
    return Inventory.parse(tomllib.loads(text)["hosts"], "agentops.toml")


def test_a_fingerprint_is_what_ssh_keygen_prints() -> None:
    assert fingerprint_of(KEY + " comment") == FINGERPRINT


def test_a_host_survives_being_written_and_read() -> None:
    host = Host(
        name="gpu-1",
        address="10.1.2.6",
        port=2222,
        user="ops",
        host_key=KEY,
        layers=(Layer.from_text("pct:200"), Layer.from_text("sudo")),
        tier="prod",
        labels=("h200", "rack=7"),
    )
    assert parse(toml_entry(host)).get("gpu-1") == host


def test_a_host_without_a_tier_gets_the_strictest() -> None:
    assert parse('[hosts.a]\naddress = "h"').get("a").tier == "unknown"


def test_the_route_names_every_layer() -> None:
    host = parse('[hosts.a]\naddress = "h"\nlayers = ["pct:200", "sudo"]').get("a")
    assert host.route() == ("ssh:root@h:22", "pct:200", "sudo:root")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[hosts.a]\nport = 22", r"agentops\.toml: hosts\.a: entry: .*has no address"),
        ('[hosts.a]\naddress = "h"\nport = 99999', r"hosts\.a: port: .*less than or equal"),
        ('[hosts.a]\naddress = "h"\ntier = "test"', r"hosts\.a: tier: .*'dev', 'prod'"),
        ('[hosts.a]\naddress = "h"\nadress = "x"', r"hosts\.a: adress: Extra inputs"),
        ('[hosts.a]\naddress = "h"\nlayers = ["lxc:1"]', r"hosts\.a: layer 'lxc:1' is not known"),
        ('[hosts.a]\naddress = "-oProxyCommand=x"', r"hosts\.a: entry: .*has no address"),
        ('[hosts.a]\naddress = "h"\nhost_key = "ssh-rsa AAAA"', r"hosts\.a: .*do not belong"),
        ('[hosts.a]\naddress = "h"\njump = "b"', r"hosts\.a: jump host 'b' is no host"),
        ('[hosts]\na = "h"', r"hosts\.a must be a table"),
    ],
)
def test_a_bad_entry_is_one_line_with_file_host_and_field(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as raised:
        parse(text)
    assert "\n" not in str(raised.value)


def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(UsageError, match=r"host 'x' is not in the inventory \(known: a\)"):
        parse('[hosts.a]\naddress = "h"').get("x")


def test_labels_select_hosts_by_name_order() -> None:
    text = "\n".join(f'[hosts.{n}]\naddress = "h"\nlabels = ["gpu"]' for n in "ba")
    assert [host.name for host in parse(text).labelled("gpu")] == ["a", "b"]
