"""The plan of a deployment: the difference, seen without anybody's leave."""

from pathlib import Path

from agentops.commands.comparing import CompareFiles, FilesCompared, FileToCompare
from agentops.commands.deploy import DeployFiles, FilesDeployed, FileToDeploy
from agentops.transport import LocalTransport
from tests.support.boxes import observe


async def compared(*files: tuple[Path, bytes]) -> FilesCompared:
    wanted = tuple(FileToCompare(path=str(path), content=content) for path, content in files)
    return await observe(LocalTransport(), CompareFiles(files=wanted), FilesCompared)


async def test_the_difference_is_the_one_that_the_deployment_makes(tmp_path: Path) -> None:
    one, two, new = tmp_path / "one", tmp_path / "two", tmp_path / "new"
    one.write_bytes(b"a\nb\nc")
    two.write_bytes(b"same\n")
    wanted = ((one, b"a\nB\nc"), (two, b"same\n"), (new, b"x\n"))
    seen = await compared(*wanted)
    assert not seen.same
    first, second, third = seen.files
    assert first.lines[2:] == (
        "@@ -1,3 +1,3 @@", " a", "-b", "+B", " c", "\\ No newline at end of file",
    )  # fmt: skip
    assert (second.same, second.lines) == (True, ())
    assert (third.exists, third.lines[-1]) == (False, "+x")
    files = tuple(
        FileToDeploy(path=file.path, content=content, expects=file.sha256 or "absent")
        for file, (_, content) in zip(seen.files, wanted, strict=True)
    )
    done = await observe(LocalTransport(), DeployFiles(files=files), FilesDeployed)
    assert done.deployed
    assert (await compared(*wanted)).same


async def test_what_cannot_be_shown_says_why(tmp_path: Path) -> None:
    binary, long, folder = tmp_path / "binary", tmp_path / "long", tmp_path / "folder"
    binary.write_bytes(b"\0\1")
    long.write_bytes(b"".join(b"%d\n" % n for n in range(2000)))
    folder.mkdir()
    seen = await compared((binary, b"\0\2"), (long, b""), (folder, b""))
    assert [file.problem for file in seen.files] == ["binary", "cut", "unreadable"]
    assert [len(file.lines) for file in seen.files] == [0, 400, 0]
    assert not any(file.same for file in seen.files)
