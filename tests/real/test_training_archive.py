"""The trainer's archive: the same source gives the same bytes."""

import io
import os
import subprocess
import sys
import tarfile
from pathlib import Path

from agentops.training import TrainerArchive, trainer_archive


def test_the_same_source_gives_the_same_digest_whatever_the_clock_says(tmp_path: Path) -> None:
    """The digest comes out again in another process, after every file was touched."""
    archive = trainer_archive()
    assert "trainer/__main__.py" in archive.files
    folder = tmp_path / "trainer"
    for name, content in archive.files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        os.utime(path, (1, 1))
    (folder / "__pycache__").mkdir()
    (folder / "__pycache__" / "stale.py").write_bytes(b"")
    script = (
        "import sys; sys.path.insert(0, sys.argv[1]);"
        "from agentops.training import trainer_archive; print(trainer_archive().sha256)"
    )
    again = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path)], capture_output=True, text=True, check=True
    )
    assert again.stdout.strip() == archive.sha256


def test_one_changed_byte_changes_the_digest() -> None:
    archive = trainer_archive()
    changed = TrainerArchive({**archive.files, "trainer/loss.py": b"pass\n"})
    assert changed.sha256 != archive.sha256


def test_looking_at_the_trainer_does_not_import_it() -> None:
    script = (
        "import sys; from agentops.training import trainer_archive; trainer_archive();"
        "sys.exit(any(name in sys.modules for name in ('trainer', 'torch')))"
    )
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


def test_the_tar_unpacks_to_the_same_files() -> None:
    archive = trainer_archive()
    with tarfile.open(fileobj=io.BytesIO(archive.tar())) as tar:
        names = tar.getnames()
        assert names == sorted(archive.files)
        first = tar.extractfile(names[0])
        assert first is not None
        assert first.read() == archive.files[names[0]]
