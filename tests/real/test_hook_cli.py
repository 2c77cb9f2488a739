"""``agentops hook`` as coding agents call it: a message on standard input, an exit status back."""

import json
from pathlib import Path

import pytest

from agentops.cli import main
from tests.support.command_line import Said, User, user

SHOWS = "agentops do gpu_status --host h"


@pytest.fixture(scope="module")
def person(tmp_path_factory: pytest.TempPathFactory) -> User:
    """A user without any settings."""
    return user(tmp_path_factory.mktemp("hook"))


def hook(person: User, message: bytes, *words: str) -> Said:
    """Call the hook with *message* on standard input."""
    path = person.folder / "message"
    path.write_bytes(message)
    with path.open("rb") as file:
        return person.run("hook", *words, stdin=file)


@pytest.mark.parametrize(
    "message",
    [
        {
            "session_id": "s", "hook_event_name": "PreToolUse", "tool_name": "Bash",
            "tool_input": {"command": "ssh h nvidia-smi", "description": "harmless"},
        },
        {"tool_name": "shell", "tool_input": {"command": ["bash", "-lc", "ssh h nvidia-smi"]}},
    ],
    ids=["claude-code", "codex"],
)  # fmt: skip
def test_a_message_with_an_act_ends_with_2_and_one_line(
    person: User, message: dict[str, object]
) -> None:
    said = hook(person, json.dumps(message).encode())
    said.refused(2, SHOWS)


def test_cursor_is_answered_in_json_too(person: User) -> None:
    message = {"hook_event_name": "beforeShellExecution", "command": "ssh h nvidia-smi"}
    said = hook(person, json.dumps(message).encode())
    assert said.status == 2
    assert said.json["permission"] == "deny"
    assert SHOWS in said.json["agent_message"]
    passed = hook(person, json.dumps(message | {"command": "ls"}).encode())
    assert (passed.status, passed.json) == (0, {})


def test_words_are_taken_too_and_a_read_passes_in_silence(person: User) -> None:
    hook(person, b"", "--", "ssh", "h", "nvidia-smi").refused(2, SHOWS)
    passed = hook(person, b"", "ssh", "-v", "h", "ls")
    assert (passed.status, passed.out, passed.err) == (0, "", "")


@pytest.mark.parametrize(
    "message",
    [
        b"", b"\xff\xfe\x00", b"null", b"[]", b"[1, {}]", b'{"tool_input": null}', b"{" * 100_000,
        b"[" * 100_000, b'{"tool_input": {"command": 7}}', b'{"tool_name": "Read"}',
        b'{"tool_input": {"file_path": "/x"}}',
    ],
    ids=range(11),
)  # fmt: skip
def test_an_odd_message_passes_without_a_traceback(
    message: bytes,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    """In this process: what is tested is the reading, and a process costs a second."""
    path = tmp_path / "message"
    path.write_bytes(message)
    with path.open() as file:
        monkeypatch.setattr("sys.stdin", file)
        assert main(["hook"]) == 0
    assert capsys.readouterr().err == ""


def test_a_broken_settings_file_does_not_open_the_way(person: User) -> None:
    settings = person.folder / "agentops.toml"
    settings.write_text("[hosts\n")
    hook(person, b"ssh h nvidia-smi").refused(2, SHOWS)
    settings.unlink()
