"""Each signature against real texts and look-alikes, and whole logs as they come."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentops.diagnosis.catalogue import BY_ID, CATALOGUE
from agentops.diagnosis.diagnose import diagnose
from agentops.diagnosis.lines import LINE_BYTES_MAX, split_lines, undressed
from agentops.diagnosis.scan import Scanner

GOLDEN = Path(__file__).parents[1] / "golden" / "diagnosis" / "signatures.json"
TEXTS: dict[str, dict[str, list[str]]] = json.loads(GOLDEN.read_text(encoding="utf-8"))


def found(text: str) -> set[str]:
    """The signatures in *text*."""
    scanner = Scanner()
    lines = [undressed(line, number) for number, line in enumerate(text.split("\n"), start=1)]
    return {match.signature for line in lines if (match := scanner.look(line)) is not None}


def test_every_signature_has_two_positives_and_two_look_alikes() -> None:
    """A detector is admitted with both."""
    assert set(TEXTS) == set(BY_ID)
    short = [
        name
        for name, texts in TEXTS.items()
        if len(texts["positive"]) < 2 or len(texts["negative"]) < 2
    ]
    assert short == []


@pytest.mark.parametrize("name", sorted(TEXTS))
def test_signature_finds_its_texts_and_no_look_alike(name: str) -> None:
    """Positives are found as this signature; negatives are not."""
    missed = [text for text in TEXTS[name]["positive"] if name not in found(text)]
    mistaken = [text for text in TEXTS[name]["negative"] if name in found(text)]
    assert (missed, mistaken) == ([], [])


def test_ordinary_lines_that_use_the_same_words_match_nothing() -> None:
    """Counters, advice, settings and messages of success."""
    lines = json.loads((GOLDEN.parent / "ordinary.json").read_text(encoding="utf-8"))
    assert [(line, found(line)) for line in lines if found(line)] == []


def test_every_row_says_what_to_check_and_what_not_to_conclude() -> None:
    """No row without its probe and its limit."""
    assert [row.id for row in CATALOGUE if not (row.probe and row.not_proof and row.title)] == []


OOM = TEXTS["F01"]["positive"][0]
WATCHDOG = TEXTS["F22"]["positive"][0]


def test_the_first_root_is_not_the_loudest_cascade() -> None:
    """Seven ranks report a timeout; the rank that ran out of memory is the root."""
    log = "\n".join(
        [
            "[rank0]: step=10 loss=3.1",
            f"[rank3]: {OOM}",
            *(f"[rank{rank}]: {WATCHDOG}" for rank in range(7)),
        ]
    )
    seen = diagnose([log.encode()])
    assert seen.first_root is not None
    assert (seen.first_root.signature, seen.first_root.ranks) == ("F01", (3,))
    assert [finding.signature for finding in seen.cascades] == ["F22"]
    assert seen.cascades[0].count == 7


def test_a_log_with_cascades_only_names_no_root() -> None:
    """The cause is in another log; advice lines are no cause either."""
    seen = diagnose([f"{WATCHDOG}\n{TEXTS['F10']['positive'][0]}\n".encode()])
    assert seen.first_root is None
    assert {finding.signature for finding in seen.cascades} == {"F22", "F10"}


def test_a_bare_kill_is_never_called_out_of_memory() -> None:
    """Without the kernel's record it is a kill by somebody; with it, the record is the root."""
    bare = diagnose([b"  exitcode  : -9 (pid: 4711)\n"])
    assert bare.first_root is not None
    assert bare.first_root.signature == "F54"
    assert bare.first_root.relaunch == "R5"
    record = TEXTS["F53"]["positive"][0]
    both = diagnose([f"  exitcode  : -9 (pid: 4711)\n{record}\n".encode()])
    assert both.first_root is not None
    assert (both.first_root.signature, both.first_root.role) == ("F53", "confirm")
    assert [finding.signature for finding in both.roots] == ["F53"]


def test_the_kernels_record_of_a_kill_alone_is_no_sign_of_health() -> None:
    """A job that went on after it was not the victim; one that did not has failed."""
    record = TEXTS["F53"]["positive"][0]
    ended = diagnose([f"step=1\nstep=2\n{record}\n".encode()])
    assert ended.first_root is not None
    assert ended.first_root.signature == "F53"
    lived = diagnose([f"step=1\n{record}\nstep=2\nstep=3\nstep=4\n".encode()])
    assert lived.first_root is None
    assert [finding.signature for finding in lived.others] == ["F53"]


def test_the_same_root_without_a_step_between_is_a_loop() -> None:
    """Twice the same, and nothing was learnt in between; with steps between it is none."""
    assert diagnose([f"step=5\n{OOM}\n{OOM}\n".encode()]).loop == "F01"
    assert diagnose([f"step=5\n{OOM}\nstep=6\n{OOM}\n".encode()]).loop is None


def test_a_progress_bar_does_not_hide_an_error() -> None:
    """Carriage returns overwrite on a screen, not in a log."""
    bar = b"".join(b" %d%%|####\r" % percent for percent in range(100))
    seen = diagnose([bar + b"\x1b[31m" + OOM.encode() + b"\x1b[0m\r\n" + bar])
    assert seen.first_root is not None
    assert seen.first_root.signature == "F01"
    assert seen.first_root.first_line == 1


@settings(deadline=None)
@given(st.binary(max_size=400), st.lists(st.integers(1, 50), max_size=12))
def test_lines_do_not_depend_on_how_bytes_arrive(data: bytes, cuts: list[int]) -> None:
    """Any bytes, cut anywhere, give the same lines, and never an exception."""

    def pieces() -> Iterator[bytes]:
        rest = data
        for cut in cuts:
            yield rest[:cut]
            rest = rest[cut:]
        yield rest

    assert list(split_lines(pieces())) == list(split_lines([data]))


def test_a_line_without_end_is_cut_and_the_next_one_is_read() -> None:
    """Megabytes without a newline cost a bounded buffer."""
    chunks = [b"x" * 65_536] * 64 + [b"\n" + OOM.encode() + b"\n"]
    texts = list(split_lines(chunks))
    assert [len(line.text) for line in texts] == [LINE_BYTES_MAX, len(OOM)]
    assert texts[1].number == 2
