"""One command on many hosts from the command line: an end for each, and one status for all."""

import json
from pathlib import Path

import pytest

from agentops.cli.main import main


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with an inventory: three hosts that are this machine, one that is not there."""
    for name, folder in (("HOME", "h"), ("XDG_CONFIG_HOME", "c"), ("XDG_STATE_HOME", "s")):
        (tmp_path / folder).mkdir()
        monkeypatch.setenv(name, str(tmp_path / folder))
    monkeypatch.delenv("AGENTOPS_JOURNAL", raising=False)
    monkeypatch.chdir(tmp_path)
    local = "".join(
        f'[hosts.h{n}]\ntransport = "local"\ntier = "dev"\nlabels = ["here", "all"]\n'
        for n in range(3)
    )
    key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJk2TXEh4X/KsUJDxIgUIOJxVTtIllNE+sNV2f1w85mB"
    gone = (
        f'[hosts.gone]\naddress = "127.0.0.1"\nport = 1\nhost_key = "{key}"\ntier = "dev"\n'
        'labels = ["all"]\n'
    )
    (tmp_path / "agentops.toml").write_text('[journal]\npath = "ops.journal"\n' + local + gone)
    return tmp_path


def told(capsys: pytest.CaptureFixture[str]) -> dict[str, dict[str, object]]:
    said = capsys.readouterr()
    hosts: dict[str, dict[str, object]] = json.loads(said.out)["hosts"]
    assert len(said.err.splitlines()) == len(hosts)
    return hosts


def test_every_host_has_its_own_end(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (place / "file").write_text("x")
    words = ["do", "file_digest", "--hosts", "here", "--at-once", "2", "--json"]
    assert main([*words, "--arg", f"path={place / 'file'}"]) == 0
    hosts = told(capsys)
    assert sorted(hosts) == ["h0", "h1", "h2"]
    assert len({tuple(end["events"]) for end in hosts.values()}) == 3  # type: ignore[arg-type] # lists of ids


def test_one_host_that_is_not_there_costs_the_others_nothing(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    del place
    assert main(["do", "disk_free", "--hosts", "all", "--json"]) == 6
    hosts = told(capsys)
    assert {name: end["status"] for name, end in hosts.items()} == {
        "gone": 6, "h0": 0, "h1": 0, "h2": 0,
    }  # fmt: skip


def test_a_label_that_nobody_has_is_one_line(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    del place
    assert main(["do", "disk_free", "--hosts", "nowhere"]) == 2
    assert capsys.readouterr().err.strip().endswith("gives one")
