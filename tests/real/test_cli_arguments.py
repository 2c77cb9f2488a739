"""What a person types for a command's arguments, and a file that comes back whole."""

import hashlib
import json
import os
from pathlib import Path

import pytest

from agentops.cli.command_arguments import build_command
from agentops.commands.deploy import DeployFiles
from agentops.errors import UsageError
from tests.support.command_line import User, user


def test_a_list_is_json_or_one_element_each_time(tmp_path: Path) -> None:
    del tmp_path
    for pairs in (['paths=["/a", "/b"]'], ["paths=/a", "paths=/b"], ['paths=["/a"]', "paths=/b"]):
        assert build_command("locks", pairs).arguments()["paths"] == ["/a", "/b"]
    assert build_command("run_argv", ["argv=7"]).arguments()["argv"] == ["7"]
    with pytest.raises(UsageError, match=r"paths.*absolute.*'7'"):
        build_command("disk_free", ["paths=7"])
    with pytest.raises(UsageError, match="--arg path is given twice"):
        build_command("file_digest", ["path=/a", "path=/b"])


def test_a_value_may_come_from_a_file_and_an_at_sign_may_be_meant(tmp_path: Path) -> None:
    (tmp_path / "diff").write_text("@@ -1 +1 @@\n-x\n+y\n")
    said = [f"diff=@{tmp_path}/diff", "path=/f", f"expects={'0' * 64}"]
    assert build_command("apply_patch", said).stdin() == (tmp_path / "diff").read_bytes()
    assert build_command("run_argv", ["argv=@@x"]).arguments()["argv"] == ["@x"]
    with pytest.raises(UsageError, match=r"--arg path=@/nope: /nope cannot be read: No such file"):
        build_command("file_digest", ["path=@/nope"])


def test_a_file_to_deploy_takes_its_content_from_a_source(tmp_path: Path) -> None:
    (tmp_path / "run.py").write_bytes(b"\xff\n")
    item = {"path": "/srv/run.py", "source": str(tmp_path / "run.py"), "expects": "absent"}
    for pair in (f"files={json.dumps(item)}", f"files={json.dumps([item])}"):
        command = build_command("deploy_files", [pair])
        assert isinstance(command, DeployFiles)
        assert [file.content for file in command.files] == [b"\xff\n"]


@pytest.fixture
def who(tmp_path: Path) -> User:
    """A user with this machine as the only host."""
    made = user(tmp_path)
    text = '[hosts.here]\ntransport = "local"\ntier = "dev"\n'
    (made.folder / "agentops.toml").write_text(text)
    return made


def test_a_file_of_several_parts_is_saved_whole(who: User) -> None:
    content = os.urandom(9 << 20)
    (who.folder / "there").write_bytes(content)
    words = ("do", "transfer", "--host", "here", "--arg", f"path={who.folder}/there", "--json")
    said = who.run(*words, "--save", "back")
    assert said.status == 0, said.err
    assert (who.folder / "back").read_bytes() == content
    seen = said.json["observation"]
    assert (seen["saved"], seen["content_base64"]) == ("back", "")
    assert seen["sha256"] == hashlib.sha256(content).hexdigest()
    assert not (who.folder / "back.part").exists()
    refused = who.run("do", "disk_free", "--host", "here", "--save", "x")
    refused.refused(2, "--save is for transfer")
    missing = who.run(*words[:5], f"path={who.folder}/nope", "--json", "--save", "none")
    assert missing.json["observation"]["problem"]
    assert not (who.folder / "none").exists()


def test_the_status_says_whether_what_was_asked_for_is_so(who: User) -> None:
    wait = 'condition={"kind":"file_exists","path":"%s"}'
    ask = ("do", "wait_until", "--host", "here", "--arg", "timeout_ms=50", "--arg")
    assert who.run(*ask, wait % "/etc/hostname").status == 0
    not_met = who.run(*ask, wait % "/nope", "--json")
    assert (not_met.status, not_met.json["outcome"]) == (1, "completed")
    assert who.run("do", "check_model", "--host", "here", "--arg", "path=/nope").status == 1
