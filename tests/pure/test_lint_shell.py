"""The shell reader: operators, nesting, statuses, patterns that find their own shell."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reports import shell

KILL = (
    'ssh -o ConnectTimeout=10 root@h "pct exec 200 -- /bin/bash -lc '
    "'pkill -9 -f train.py || true; sleep 2; pgrep -af train.py || true'\" 2>&1"
)
CHECK = (
    "sleep 8 && ssh root@h \"pct exec 200 -- bash -c 'nvidia-smi --query-gpu=index; "
    "test -f /m/config.json && echo ok || echo missing'\""
)


def test_layers_are_unwrapped_down_to_the_script_that_works() -> None:
    levels = list(shell.nested(KILL))
    assert [w.name for w in levels[-1].wrappers] == ["ssh", "pct", "bash"]
    names = [(item.last.name, item.after) for item in levels[-1].script.items]
    assert names == [
        ("pkill", "||"), ("true", ";"), ("sleep", ";"), ("pgrep", "||"), ("true", ""),
    ]  # fmt: skip


def test_a_pattern_in_its_own_shells_command_line_is_found() -> None:
    assert [s.name for s, _ in shell.self_matches(KILL)] == ["pkill", "pgrep"]
    assert shell.self_matches("pkill -f train.py") == ()
    assert shell.self_matches("sh -c 'pkill -A -f train.py'") == ()


def test_a_check_whose_status_is_covered_is_named() -> None:
    thrown = shell.status_thrown_away(shell.innermost(KILL))
    assert [simple.name for simple in thrown] == ["pgrep"]


def test_what_follows_a_semicolon_is_unconditional() -> None:
    inner = shell.innermost(CHECK)
    assert shell.conditional(inner, "nvidia-smi") is False
    assert shell.conditional(inner, "test") is True
    assert shell.conditional(inner, "absent") is None
    assert [s.name for s in shell.hidden_failures(inner)] == ["nvidia-smi"]


@pytest.mark.parametrize(
    ("text", "zero"),
    [
        ("test -f x && echo ok || echo missing", True),
        ("a || true", True),
        ("a && b", False),
        ("a; b", False),
        ("a && echo ok", False),
        ("", False),
    ],
)
def test_a_status_that_is_nought_in_any_case_is_told(text: str, *, zero: bool) -> None:
    assert shell.always_zero(shell.parse(text)) is zero


def test_quotes_and_redirections_are_not_words() -> None:
    (item,) = shell.parse('echo \'a b\' "c\\"d" e\\ f >out 2>&1 <in').items
    assert item.last.argv == ("echo", "a b", 'c"d', "e f")


@given(st.text(max_size=80))
def test_no_text_makes_the_reader_fail(text: str) -> None:
    for level in shell.nested(text):
        shell.always_zero(level.script)
        shell.status_thrown_away(level.script)
    shell.self_matches(text)
