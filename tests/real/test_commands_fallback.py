"""Which script a host runs: Python where it is new enough, else sh, else an honest no."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentops.commands.base import Malformed
from agentops.commands.files import FileDigest, FileDigested
from agentops.commands.model_check import CheckModel
from agentops.commands.remote.identity import encoded
from agentops.commands.script import python_source
from agentops.transport import LocalTransport
from tests.support.boxes import run_argv
from tests.support.fakes import put_program

OLD = """
#!/bin/sh
# As a Python of 2016 would answer the version question of the script: too old.
exit 177
"""


async def run_with(folder: Path, argv: tuple[str, ...]) -> tuple[int, bytes, bytes]:
    """Run argv where PATH finds the folder's python3 and nothing newer."""
    script = 'PATH="$1:/usr/bin:/bin"; export PATH; shift; exec "$@"'
    ran = await run_argv(LocalTransport(), "sh", "-c", script, "sh", str(folder), *argv)
    return ran.completed.exit_status, ran.completed.stdout, ran.completed.stderr


async def test_an_old_python_leaves_the_answer_to_sh(tmp_path: Path) -> None:
    put_program(tmp_path, "python3", OLD)
    command = FileDigest(path="/etc/hostname")
    status, out, err = await run_with(tmp_path, command.argv())
    assert status == 0, err
    # The sh script counts whole seconds; that is how it is told from Python's.
    assert b"000," in out
    seen = command.parse((await run_argv(LocalTransport(), *command.argv())).completed)
    assert isinstance(seen, FileDigested)


async def test_a_command_without_an_sh_script_says_that_python_is_missing(tmp_path: Path) -> None:
    put_program(tmp_path, "python3", OLD)
    command = CheckModel(path="/nope")
    ran = await run_argv(
        LocalTransport(),
        *("sh", "-c", 'PATH="$1:/usr/bin:/bin"; export PATH; shift; exec "$@"', "sh"),
        *(str(tmp_path), *command.argv()),
    )
    parsed = command.parse(ran.completed)
    assert isinstance(parsed, Malformed)
    assert "no python3 3.9 or newer" in parsed.reason


async def test_a_python_that_fails_is_a_failure_and_not_a_fallback(tmp_path: Path) -> None:
    put_program(tmp_path, "python3", "#!/bin/sh\nexit 3\n")
    status, _, _ = await run_with(tmp_path, FileDigest(path="/etc/hostname").argv())
    assert status == 3


@pytest.mark.parametrize(
    "names", [("identity", "list_processes"), ("identity", "writing", "deploy_files")]
)
def test_a_joined_program_imports_nothing_of_ours_and_runs_one_main(names: tuple[str, ...]) -> None:
    source = python_source(*names)
    assert "agentops.commands" not in source
    assert source.count('if __name__ == "__main__"') == 1
    compile(source, "joined", "exec")


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
        max_leaves=8,
    )
)
def test_the_scripts_own_json_is_what_json_would_write(value: object) -> None:
    assert encoded(value) == json.dumps(value, separators=(",", ":"))
