"""Hosts from an SSH configuration: what ssh would do, without running what it would run."""

import re
from pathlib import Path

import pytest

from agentops.box import Box
from agentops.errors import UsageError
from agentops.hosts import Inventory, fingerprint_of, toml_entry
from agentops.transport import Ended, connector
from agentops.transport.ssh_config import aliases, import_all
from tests.support.boxes import host_of, run_argv
from tests.support.command_line import User, user

pytestmark = pytest.mark.needs("ssh")
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJk2TXEh4X/KsUJDxIgUIOJxVTtIllNE+sNV2f1w85mB"


def config(folder: Path, text: str, name: str = "config") -> Path:
    path = folder / name
    path.write_text(text)
    return path


async def test_patterns_includes_and_matches_count_and_only_names_become_hosts(
    tmp_path: Path,
) -> None:
    known = config(tmp_path, f"10.0.0.7 {KEY}\n@cert-authority *.lab {KEY}\n", "known")
    config(tmp_path, "Host lab\n  HostName box.lab\n", "more.conf")
    main = config(
        tmp_path,
        f"Include {tmp_path}/*.conf\n"
        "Host gpu1 gpu2 !gpu9 gpu*  # three\n  HostName 10.0.0.7\n"
        'Match originalhost "gpu2"\n  Port=2222\n'
        f"Host *\n  User ops\n  UserKnownHostsFile {known}\n",
    )
    assert aliases(main) == ("lab", "gpu1", "gpu2")
    found = await import_all(main, tier="prod")
    hosts = {host.name: host for host in found.hosts}
    assert list(hosts) == ["lab", "gpu1", "gpu2"]
    assert hosts["gpu1"].route() == ("ssh:ops@10.0.0.7:22",)
    assert hosts["gpu2"].route() == ("ssh:ops@10.0.0.7:2222",)
    assert (hosts["gpu1"].host_key, hosts["gpu1"].host_ca) == (KEY, ())
    assert (hosts["lab"].host_key, hosts["lab"].host_ca) == (None, (KEY,))
    assert hosts["lab"].fingerprint == f"{fingerprint_of(KEY)}@box.lab:22"
    assert {host.tier for host in found.hosts} == {"prod"}
    # Default identity files are no choice of anybody's: agent and defaults are tried.
    assert {host.key for host in found.hosts} == {None}


async def test_jump_hosts_come_first_and_a_second_hop_goes_through_the_first(
    tmp_path: Path,
) -> None:
    main = config(
        tmp_path,
        "Host door\n  HostName 192.0.2.1\nHost hall\n  HostName 192.0.2.2\n"
        "Host far\n  HostName 10.0.0.1\n  ProxyJump door,hall\n"
        "Host near\n  HostName 10.0.0.2\n  ProxyJump door\n"
        "Host odd\n  HostName 10.0.0.3\n  ProxyJump ops@192.0.2.9:2200\n",
    )
    found = await import_all(main, names=("far", "near", "odd"))
    inventory = Inventory.parse(
        {host.name: host.model_dump(exclude={"name"}) for host in found.hosts}, "imported"
    )
    assert [host.name for host in found.hosts] == [
        "door", "hall-by-door", "far", "near", "ops-192.0.2.9-2200", "odd",
    ]  # fmt: skip
    assert inventory.get("far").jump == "hall-by-door"
    assert inventory.get("hall-by-door").jump == "door"
    assert inventory.get("near").jump == "door"
    assert inventory.get("ops-192.0.2.9-2200").route() == ("ssh:ops@192.0.2.9:2200",)


async def test_what_cannot_be_carried_over_is_left_out_with_its_reason(tmp_path: Path) -> None:
    main = config(
        tmp_path,
        "Host ok\n  HostName h\nHost cloud\n  ProxyCommand cloud-tool connect %h\n"
        "Host round\n  ProxyJump trip\nHost trip\n  ProxyJump round\n",
    )
    found = await import_all(main, known=("ok",))
    assert found.hosts == ()
    assert found.left_out["ok"] == "it is in the inventory already"
    assert "ProxyCommand cloud-tool connect %h cannot be carried" in found.left_out["cloud"]
    assert found.left_out["round"] == "jump hosts go in a circle: round → trip → round"


@pytest.mark.parametrize("line", ['Match exec "touch {ran}"', 'Match host x !exec "touch {ran}"'])
async def test_a_match_that_would_run_a_program_is_refused_and_runs_none(
    tmp_path: Path, line: str
) -> None:
    ran = tmp_path / "ran"
    main = config(tmp_path, f"Host a\n  Port 22\n{line.format(ran=ran)}\n  User x\n")
    with pytest.raises(UsageError, match=rf"{main}:3: Match exec would run a program"):
        await import_all(main)
    assert not ran.exists()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('Host "a\n', r"config:1: a quote is not closed"),
        ("Include {here}\n", "include one another without an end"),
        ("Host a\nBogus yes\n", "Bad configuration option: bogus"),
    ],
)
async def test_a_broken_configuration_is_one_clear_line(
    tmp_path: Path, text: str, message: str
) -> None:
    main = config(tmp_path, text.format(here=tmp_path / "config"))
    try:
        said = "; ".join((await import_all(main)).left_out.values())
    except UsageError as error:
        said = str(error)
    assert re.search(message, said), said


async def test_a_name_that_the_file_does_not_have_lists_those_it_has(tmp_path: Path) -> None:
    main = config(tmp_path, "Host a b\n")
    with pytest.raises(UsageError, match=r"has no Host c \(it has: a, b\)"):
        await import_all(main, names=("c",))


@pytest.mark.needs("sshd", "root-namespaces")
async def test_an_imported_way_through_a_jump_host_carries_commands(
    box: Box, tmp_path: Path
) -> None:
    with Box(containers=()) as inner:
        boxes = {"door": box.address, "gpu": inner.address}
        known = "".join(f"[{at.address}]:{at.port} {at.host_key}\n" for at in boxes.values())
        (tmp_path / "known").write_text(known)
        text = f"Host *\n  UserKnownHostsFile {tmp_path}/known\n"
        for name, at in boxes.items():
            text += f"Host {name}\n  HostName {at.address}\n  Port {at.port}\n"
            text += f"  User {at.user}\n  IdentityFile {at.key}\n"
        found = await import_all(config(tmp_path, text + "  ProxyJump door\n"))
        inventory = Inventory({host.name: host for host in found.hosts})
        transport = connector(inventory)(inventory.get("gpu"))
        assert isinstance((await run_argv(transport, "true")).answer, Ended)
        await transport.close()


def project(tmp_path: Path) -> User:
    who = user(tmp_path)
    (who.folder / "agentops.toml").write_text('[hosts.here]\ntransport = "local"\n')
    return who


@pytest.mark.needs("sshd", "root-namespaces")
def test_import_writes_what_it_planned_and_pin_asks_the_host_itself(
    box: Box, tmp_path: Path
) -> None:
    who = project(tmp_path)
    at = box.address
    main = config(
        tmp_path,
        f"Host gpu\n  HostName {at.address}\n  Port {at.port}\n  User {at.user}\n"
        f"  IdentityFile {at.key}\n  UserKnownHostsFile none\n",
    )
    before = (who.folder / "agentops.toml").read_text()
    planned = who.run("hosts", "import", main, "--plan", "--tier", "dev", "--label", "h200")
    assert planned.status == 0, planned
    assert '[hosts."gpu"]' in planned.out
    assert (who.folder / "agentops.toml").read_text() == before
    done = who.run("hosts", "import", main, "--tier", "dev", "--label", "h200")
    assert (who.folder / "agentops.toml").read_text() == before + "\n" + planned.out
    assert "without a known key: gpu; agentops hosts pin NAME asks for it" in done.err
    unpinned = who.run("do", "probe_host", "--host", "gpu", "--json")
    assert unpinned.status == 6
    assert "run agentops hosts pin gpu" in unpinned.json["says"]
    again = who.run("hosts", "import", main, "--json")
    assert again.status == 1
    assert again.json["left_out"] == {"gpu": "it is in the inventory already"}
    alone = who.run("hosts", "pin", "gpu")
    assert (alone.status, "nobody to ask" in alone.err) == (4, True)
    fingerprint = fingerprint_of(at.host_key)
    assert who.run("hosts", "pin", "gpu", "--fingerprint", fingerprint).status == 0
    assert who.run("do", "probe_host", "--host", "gpu", "--json").json["outcome"] == "completed"
    # A second pin replaces the first and leaves the rest of the file alone.
    text = (who.folder / "agentops.toml").read_text()
    assert who.run("hosts", "pin", "gpu", "--fingerprint", fingerprint).status == 0
    assert (who.folder / "agentops.toml").read_text() == text
    assert text.count("host_key") == 1
    listed = who.run("hosts", "list", "--json").json["hosts"]
    assert [host["labels"] for host in listed if host["name"] == "gpu"] == [["h200"]]


@pytest.mark.needs("sshd", "root-namespaces")
def test_the_key_of_a_host_behind_a_jump_host_is_asked_through_it(box: Box, tmp_path: Path) -> None:
    who = project(tmp_path)
    at = box.address
    with (who.folder / "agentops.toml").open("a") as file:
        file.write("\n" + toml_entry(host_of(box, name="door")))
    words = ("hosts", "add", "gpu", "--address", at.address, "--port", str(at.port))
    more = ("--key", str(at.key), "--user", at.user, "--jump", "door", "--fingerprint")
    assert who.run(*words, *more, fingerprint_of(at.host_key)).status == 0
    assert who.run("do", "probe_host", "--host", "gpu", "--json").json["outcome"] == "completed"
