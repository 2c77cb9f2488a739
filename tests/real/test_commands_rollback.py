"""A deployment that is taken back: content, mode and owner as before, or nothing at all."""

import os
from pathlib import Path

import pytest
from pydantic import ValidationError

from agentops.commands.deploy import DeployFiles, FilesDeployed, FileToDeploy
from agentops.commands.patching import ApplyPatch
from agentops.commands.rolling_back import FileToRollBack, RollBack
from agentops.transport import LocalTransport
from tests.support.boxes import observe

HERE = LocalTransport()


def rolled_back(*answers: FilesDeployed) -> RollBack:
    """The roll-back of what these deployments answered."""
    files = [file for answer in answers for file in answer.files]
    return RollBack(
        files=tuple(
            FileToRollBack(
                path=file.path, expects=file.after_sha256 or "0" * 64, backup=file.backup
            )
            for file in files
        )
    )


def forge(path: str) -> None:
    """Write something else there."""
    Path(path).write_bytes(b"forged")


async def deployed(*files: tuple[Path, bytes]) -> FilesDeployed:
    """Files written over anything, with backups."""
    wanted = tuple(FileToDeploy(path=str(p), content=c, expects="anything") for p, c in files)
    answer = await observe(HERE, DeployFiles(files=wanted), FilesDeployed)
    assert answer.deployed, answer
    return answer


async def test_what_was_replaced_comes_back_and_what_was_new_goes(tmp_path: Path) -> None:
    old, new = tmp_path / "old.sh", tmp_path / "new.sh"
    old.write_bytes(b"before\n")
    old.chmod(0o750)
    answer = await deployed((old, b"after\n"), (new, b"new\n"))
    back = await observe(HERE, rolled_back(answer), FilesDeployed)
    assert back.deployed, back
    assert (old.read_bytes(), old.stat().st_mode & 0o777) == (b"before\n", 0o750)
    assert not new.exists()
    # A repeat finds the work done.
    again = await observe(HERE, rolled_back(answer), FilesDeployed)
    assert again.deployed
    assert [file.changed for file in again.files] == [False, False]


async def test_a_patch_is_taken_back(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_bytes(b"a\nb\n")
    digest = (await deployed((path, b"a\nb\n"))).files[0].after_sha256
    patch = ApplyPatch(path=str(path), expects=str(digest), diff="@@ -2 +2 @@\n-b\n+c\n")
    answer = await observe(HERE, patch, FilesDeployed)
    assert path.read_bytes() == b"a\nc\n"
    assert (await observe(HERE, rolled_back(answer), FilesDeployed)).deployed
    assert path.read_bytes() == b"a\nb\n"


async def test_nothing_is_put_back_over_what_somebody_wrote_since(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    one.write_bytes(b"1")
    two.write_bytes(b"2")
    answer = await deployed((one, b"11"), (two, b"22"))
    two.write_bytes(b"by hand")
    back = await observe(HERE, rolled_back(answer), FilesDeployed)
    assert (back.deployed, back.problem) == (False, "refused")
    assert [file.refusal for file in back.files] == [None, "unexpected_content"]
    assert (one.read_bytes(), two.read_bytes()) == (b"11", b"by hand")


async def test_a_backup_that_is_not_what_its_name_says_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"before")
    answer = await deployed((path, b"after"))
    forge(str(answer.files[0].backup))
    back = await observe(HERE, rolled_back(answer), FilesDeployed)
    assert [file.refusal for file in back.files] == ["content_damaged"]
    assert path.read_bytes() == b"after"
    with pytest.raises(ValidationError, match="a backup of /a is named"):
        FileToRollBack(path="/a", expects="0" * 64, backup="/etc/shadow")


@pytest.mark.needs("root")
async def test_a_replaced_file_keeps_its_owner(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"before")
    os.chown(path, 12345, 54321)
    answer = await deployed((path, b"after"))
    assert (path.stat().st_uid, path.stat().st_gid) == (12345, 54321)
    assert (await observe(HERE, rolled_back(answer), FilesDeployed)).deployed
    assert (path.stat().st_uid, path.read_bytes()) == (12345, b"before")
