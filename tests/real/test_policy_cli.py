"""The commands of policy, diagnosis and approvals, as they are typed."""

import json
import subprocess
from importlib.resources import files
from pathlib import Path

import pytest

from tests.support.command_line import User

SHIPPED = Path(str(files("agentops.policy"))) / "files" / "dev.toml"


def typed(*words: str, cwd: Path, stdin: bytes = b"") -> tuple[int, str, str]:
    """Run the program; gives status, stdout, stderr."""
    who = User(cwd, cwd, {"AGENTOPS_JOURNAL": str(cwd / "test.journal")})
    if not stdin:
        said = who.run(*words)
        return said.status, said.out, said.err
    with who.start(*words, stdin=subprocess.PIPE) as process:
        out, err = process.communicate(stdin, timeout=60)
    return process.returncode, out.decode(), err.decode()


def test_the_shipped_policy_passes_its_tests_and_a_broken_copy_fails(tmp_path: Path) -> None:
    """Status 0 and 1; the broken case and the unreached rule are named."""
    status, out, _ = typed("policy", "test", "--json", cwd=tmp_path)
    assert (status, json.loads(out)["passed"]) == (0, True)
    broken = tmp_path / "broken.toml"
    text = SHIPPED.read_text(encoding="utf-8")
    broken.write_text(text.replace('signal = "KILL", fact', 'signal = "TERM", fact'))
    status, out, _ = typed("policy", "test", str(broken), cwd=tmp_path)
    assert status == 1
    assert "FAIL a-kill-during-a-checkpoint-is-forbidden" in out
    assert "MISS no-kill-while-a-checkpoint-is-written" in out


def test_lint_and_diff_answer_by_status(tmp_path: Path) -> None:
    """0 where nothing is found, 1 where something is."""
    other = tmp_path / "other.toml"
    text = SHIPPED.read_text(encoding="utf-8")
    other.write_text(text + "[budget]\nsignals = 3\n")
    status, out, _ = typed("policy", "lint", cwd=tmp_path)
    assert (status, out.strip().endswith("no finding")) == (0, True)
    status, out, _ = typed("policy", "diff", str(SHIPPED), str(SHIPPED), cwd=tmp_path)
    assert (status, out.strip()) == (0, "no difference")
    status, out, _ = typed("policy", "diff", str(SHIPPED), str(other), cwd=tmp_path)
    assert status == 1
    assert "budget.signals" in out


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("policy", "test", "missing.toml"), "missing.toml: cannot be read"),
        (("policy", "explain", "nothing"), "journal"),
        (("diagnose", "missing.log"), "missing.log"),
        (("freeze",), "name one HOST, or say --all"),
        (("approve", "nothing"), "no open question"),
    ],
)
def test_bad_input_is_one_clear_line_and_status_2(
    words: tuple[str, ...], says: str, tmp_path: Path
) -> None:
    """No traceback, nothing changed."""
    status, _, err = typed(*words, cwd=tmp_path)
    assert status == 2
    assert says in err
    assert "Traceback" not in err
    assert err.count("\n") == 1


def test_diagnose_reads_standard_input(tmp_path: Path) -> None:
    """The first root, in JSON."""
    log = b"[rank3]: ModuleNotFoundError: No module named 'flash_attn'\n"
    status, out, _ = typed("diagnose", "-", "--json", cwd=tmp_path, stdin=log)
    assert status == 1
    assert json.loads(out)["first_root"]["signature"] == "F19"
    assert typed("diagnose", "-", cwd=tmp_path, stdin=b"step=1 loss=2.0\n")[0] == 0


def test_a_log_without_any_step_is_no_sign_of_health(tmp_path: Path) -> None:
    for log, wanted, said in (
        (b"", 3, "no step"),
        (bytes(range(128, 256)) * 9, 3, "no step"),
        (b"step=41 loss=2.5\nstep=42 loss=2.4\n", 0, "steps up to 42"),
    ):
        status, out, _ = typed("diagnose", "-", cwd=tmp_path, stdin=log)
        assert (status, "no failure stands" in out, said in out) == (wanted, True, True)


def test_freeze_and_thaw_are_journalled(tmp_path: Path) -> None:
    """Each leaves an event; nothing waits for approval."""
    status, out, err = typed("freeze", "--all", "--reason", "night", "--json", cwd=tmp_path)
    assert (status, json.loads(out)["acting"]) == (0, "frozen"), err
    assert typed("thaw", "--all", cwd=tmp_path)[0] == 0
    status, out, _ = typed("approvals", "--json", cwd=tmp_path)
    assert (status, json.loads(out)) == (0, {"approvals": [], "frozen": []})
    status, out, _ = typed("log", "--json", cwd=tmp_path)
    assert "acting_frozen" in out
    assert "acting_thawed" in out
