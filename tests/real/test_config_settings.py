"""Which file wins, and what a broken one says."""

from pathlib import Path

import pytest

from agentops.config import load_settings
from agentops.errors import ConfigError


def _environ(tmp_path: Path, **more: str) -> dict[str, str]:
    return {"HOME": str(tmp_path / "home"), **more}


def _write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def test_a_flag_beats_the_environment_beats_the_project_beats_the_user(tmp_path: Path) -> None:
    work = tmp_path / "work" / "deep"
    work.mkdir(parents=True)
    environ = _environ(tmp_path)
    default = load_settings(environ=environ, cwd=work)
    assert default.journal == tmp_path / "home/.local/state/agentops/default.journal"

    _write(tmp_path / "home/.config/agentops/agentops.toml", '[journal]\npath = "/u.journal"\n')
    assert load_settings(environ=environ, cwd=work).journal == Path("/u.journal")

    project = _write(tmp_path / "work/agentops.toml", '[journal]\npath = "p.journal"\n')
    assert load_settings(environ=environ, cwd=work).journal == tmp_path / "work/p.journal"
    assert load_settings(environ=environ, cwd=work).project == project

    named = _environ(tmp_path, AGENTOPS_JOURNAL="/e.journal")
    assert load_settings(environ=named, cwd=work).journal == Path("/e.journal")
    flagged = load_settings(environ=named, cwd=work, journal=Path("/f.journal"))
    assert flagged.journal == Path("/f.journal")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[journal\n", "not TOML"),
        ("[journal]\npaht = 'x'\n", "journal.paht: this key is not known"),
        ("[journal]\npath = 3\n", "journal.path"),
        ("[hosts.a]\nadress = 'x'\n", "adress"),
        ("[hosts.a]\naddress = '10.0.0.1'\ntier = 'live'\n", "tier"),
    ],
)
def test_a_broken_file_is_named_with_key_and_remedy(tmp_path: Path, text: str, said: str) -> None:
    path = _write(tmp_path / "agentops.toml", text)
    with pytest.raises(ConfigError) as raised:
        load_settings(environ=_environ(tmp_path), cwd=tmp_path)
    assert said in str(raised.value)
    assert str(path) in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("place", ["work/agentops.toml", "home/.config/agentops/agentops.toml"])
@pytest.mark.parametrize("sort", ["folder", "link to nowhere"])
def test_what_has_the_name_and_is_no_file_is_not_passed_over(
    tmp_path: Path, place: str, sort: str
) -> None:
    path = tmp_path / place
    path.parent.mkdir(parents=True)
    if sort == "folder":
        path.mkdir()
    else:
        path.symlink_to("nowhere")
    (tmp_path / "work/deep").mkdir(parents=True)
    with pytest.raises(ConfigError, match="is no file; move it away") as raised:
        load_settings(environ=_environ(tmp_path), cwd=tmp_path / "work/deep")
    assert str(raised.value).startswith(str(path))


def test_without_a_home_the_remedy_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="HOME is not set"):
        load_settings(environ={}, cwd=tmp_path)
