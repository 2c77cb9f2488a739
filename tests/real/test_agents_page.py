"""The page for users of coding agents: its configurations are parsed, and started as they say."""

import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

from agentops.cli.main import build_parser
from agentops.server.tools import TOOLS
from tests.support.command_line import User, user

PAGE = Path(__file__).parents[2] / "docs" / "agents.md"
_BLOCK = re.compile(r"In `([^`]+)`:\n\n```(json|toml)\n(.*?)```", re.DOTALL)
_PLACE = "${workspaceFolder}"
SERVERS = {
    ".mcp.json": ("mcpServers", "agent:claude-code"),
    ".codex/config.toml": ("mcp_servers", "agent:codex"),
    ".cursor/mcp.json": ("mcpServers", "agent:cursor"),
}
HOOKS = {
    ".claude/settings.json": {"tool_name": "Bash", "tool_input": {"command": "ssh h pkill x"}},
    ".codex/hooks.json": {"tool_name": "Bash", "tool_input": {"command": "ssh h pkill x"}},
    ".cursor/hooks.json": {"hook_event_name": "beforeShellExecution", "command": "ssh h pkill x"},
}


def files() -> Mapping[str, Any]:
    """The page's configuration files by their path, parsed."""
    read = {"json": json.loads, "toml": tomllib.loads}
    return {path: read[kind](text) for path, kind, text in _BLOCK.findall(PAGE.read_text())}


@pytest.fixture(scope="module")
def person(tmp_path_factory: pytest.TempPathFactory) -> User:
    """A user with a new project, and agentops on the search path."""
    place = tmp_path_factory.mktemp("agents")
    programs = place / "bin"
    programs.mkdir()
    program = programs / "agentops"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m agentops "$@"\n')
    program.chmod(0o755)
    who = user(place, PATH=f"{programs}:{os.environ['PATH']}")
    assert who.run("init").status == 0
    return who


def test_the_page_has_a_server_and_a_hook_for_each_of_three_agents() -> None:
    assert set(files()) == {*SERVERS, *HOOKS}


@pytest.mark.parametrize("path", SERVERS)
async def test_the_server_of_a_configuration_starts_and_answers(person: User, path: str) -> None:
    key, actor = SERVERS[path]
    entry = files()[path][key]["agentops"]
    words = [word.replace(_PLACE, str(person.folder)) for word in entry["args"]]
    named = any(_PLACE in word for word in entry["args"])
    started = StdioServerParameters(
        command=entry["command"],
        args=words,
        env={**person.environ, **entry["env"]},
        cwd="/" if named else person.folder,
    )
    with (person.folder / "mcp.log").open("a") as log:
        async with Client(stdio_client(started, errlog=log)) as client:
            listed = await client.list_tools()
            said = await client.call_tool("hosts", {})
    assert {tool.name for tool in listed.tools} == set(TOOLS)
    assert said.structured_content is not None
    assert said.structured_content["ok"] is True
    assert entry["env"]["AGENTOPS_ACTOR"] == actor


@pytest.mark.parametrize("path", HOOKS)
def test_the_hook_of_a_configuration_stops_a_typed_kill(person: User, path: str) -> None:
    hooks = files()[path]["hooks"]
    entry = hooks["beforeShellExecution"][0] if "version" in files()[path] else None
    if entry is None:
        (rule,) = hooks["PreToolUse"]
        assert rule["matcher"] == "Bash"
        (entry,) = rule["hooks"]
        assert entry["type"] == "command"
    done = subprocess.run(
        ["sh", "-c", entry["command"]],
        input=json.dumps(HOOKS[path]).encode(),
        env=person.environ,
        cwd=person.folder,
        capture_output=True,
        check=False,
    )
    assert done.returncode == 2
    assert b"agentops do signal_process" in done.stderr


def test_the_tools_that_are_allowed_unasked_are_those_that_only_look() -> None:
    allowed = files()[".claude/settings.json"]["permissions"]["allow"]
    looking = {f"mcp__agentops__{name}" for name, t in TOOLS.items() if t.effect == "observes"}
    assert set(allowed) == looking


def test_the_commands_on_the_page_are_commands() -> None:
    lines = re.findall(r"^\$ agentops (.*)$", PAGE.read_text(), re.MULTILINE)
    assert len(lines) >= 5
    for line in lines:
        build_parser().parse_args(line.split())
