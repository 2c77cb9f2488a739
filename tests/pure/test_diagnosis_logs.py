"""Whole logs as they come: the first root, what follows it, and what is no failure at all."""

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentops.diagnosis.diagnose import Diagnosis, diagnose
from agentops.diagnosis.lines import split_lines
from agentops.diagnosis.progress import Progress, told_by
from agentops.diagnosis.standing import Marks
from agentops.diagnosis.tracebacks import Tracebacks

GOLDEN = Path(__file__).parents[1] / "golden" / "diagnosis"
LOGS = json.loads((GOLDEN / "logs.json").read_text(encoding="utf-8"))
OOM = json.loads((GOLDEN / "signatures.json").read_text(encoding="utf-8"))["F01"]["positive"][0]
FULL = "OSError: [Errno 28] No space left on device"
STEPS = "step=1 loss=3.1\nstep=2 loss=3.0\nstep=3 loss=2.9\n"
MORE = "step=4 loss=2.9\nstep=5 loss=2.8\nstep=6 loss=2.8\nstep=7 loss=2.7\n"


def uncaught(last: str) -> str:
    """A traceback from the program's top level."""
    return f'Traceback (most recent call last):\n  File "/t.py", line 3, in <module>\n{last}\n'


def caught(last: str) -> str:
    """A traceback that some function printed."""
    return uncaught(last).replace("<module>", "step")


def read(log: str) -> Diagnosis:
    """The diagnosis of one text."""
    return diagnose([log.encode()])


def root_of(log: str) -> str | None:
    """The signature of the first root."""
    root = read(log).first_root
    return None if root is None else root.signature


def status_of(seen: Diagnosis) -> int:
    """As the command says it: 1 a failure stands, 0 progress and no failure, 3 neither."""
    if seen.failed:
        return 1
    return 0 if seen.progressed else 3


@pytest.mark.parametrize("name", sorted(LOGS))
def test_log_is_read_as_a_person_would(name: str) -> None:
    """First root, class, cascades and exit status; and no root where none is provable."""
    wanted = LOGS[name]
    seen = read(wanted["log"])
    assert status_of(seen) in wanted["exit"]
    root = seen.first_root
    if wanted["root"] is None or (root is None and wanted.get("or_no_root", False)):
        assert root is None
    else:
        assert root is not None
        assert any(text.lower() in root.text.lower() for text in wanted["root"]), root.text
        assert root.signature in wanted.get("signatures", [root.signature])
        assert root.relaunch in wanted.get("relaunch", [root.relaunch])
    cascades = "\n".join(finding.text for finding in seen.cascades)
    assert [text for text in wanted.get("cascades", ()) if text not in cascades] == []
    claimed = {finding.signature for finding in seen.roots}
    texts = "\n".join(finding.text for finding in seen.roots)
    never = wanted.get("never", ())
    assert [word for word in never if word in claimed or (len(word) > 4 and word in texts)] == []


@pytest.mark.parametrize("name", sorted(LOGS))
def test_log_is_read_the_same_whatever_the_chunks(name: str) -> None:
    """Cut into pieces of 997 bytes, and with all its lines but the literals' blocks skipped."""
    data = LOGS[name]["log"].encode()
    pieces = [data[at : at + 997] for at in range(0, len(data), 997)]
    whole, cut = diagnose([data]), diagnose(pieces)
    assert (whole.first_root, whole.roots, status_of(whole)) == (
        cut.first_root,
        cut.roots,
        status_of(cut),
    )


def test_an_exception_that_nobody_caught_is_not_disproved_by_steps_below_it() -> None:
    """Buffered output is written when the program ends, below the traceback."""
    assert root_of(uncaught(OOM) + STEPS + MORE) == "F01"
    assert root_of(STEPS + uncaught(OOM) + MORE) == "F01"
    assert root_of(STEPS + uncaught(OOM) + "uploader: retrying\n" + MORE) == "F01"
    assert root_of("step=1 lo" + uncaught(OOM).replace("<module>", "step") + MORE) == "F01"


def test_a_new_start_in_the_same_log_outlives_the_exception() -> None:
    """Its word, or a step that went back; without steps after it, nothing is proven."""
    again = "resumed from checkpoint at step 2\n"
    assert root_of(STEPS + uncaught(OOM) + again + MORE) is None
    assert root_of(STEPS + uncaught(OOM) + "step=1\nstep=2\nstep=3\nstep=4\n") is None
    assert root_of(STEPS + uncaught(OOM) + again) == "F01"
    # Buffered words of an earlier start may stand below as well.
    assert root_of(uncaught(OOM) + again + MORE) == "F01"


def test_a_caught_exception_needs_steps_before_and_after_it() -> None:
    """Or a word that it was handled."""
    assert root_of(STEPS + caught(OOM) + MORE) is None
    assert root_of(STEPS + caught(OOM)) == "F01"
    assert root_of(caught(OOM) + MORE) == "F01"
    assert root_of(caught(OOM) + "halving the batch\n" + MORE) is None
    ended = "ERROR:root:training failed\n" + caught(OOM)
    assert root_of(STEPS + ended + MORE) == "F01"
    assert root_of(STEPS + caught(OOM) + "giving up\n" + MORE) == "F01"
    assert root_of(caught("ValueError: x")) == "exception"
    assert root_of(caught("ValueError: x") + "retrying in 5 s\n") is None


def test_who_caught_an_exception_is_told_by_the_last_traceback_of_its_chain() -> None:
    """And code that is run from a string is nobody's top level."""
    during = "\nDuring handling of the above exception, another exception occurred:\n\n"
    chain = uncaught("ValueError: x") + during + caught("RuntimeError: y")
    assert root_of(STEPS + chain + MORE) is None
    chain = caught("ValueError: x") + during + uncaught("RuntimeError: y")
    assert root_of(STEPS + chain + MORE) == "exception"
    run = uncaught("ValueError: x").replace("/t.py", "<string>")
    run = run.replace("ValueError", '  File "/lib.py", line 4, in load\nValueError')
    assert root_of(STEPS + run + MORE) is None


def test_an_exception_that_python_ignores_is_no_failure_but_a_full_disk_is() -> None:
    """Destructors and logging print tracebacks of their own."""
    ignored = "Exception ignored in: <function Loader.__del__ at 0x7f>\n"
    assert root_of(ignored + caught("AssertionError: can only test a child process")) is None
    assert root_of(ignored + caught("RuntimeError: " + OOM.partition(": ")[2])) is None
    assert root_of("--- Logging error ---\n" + caught(FULL)) == "F65"


def test_what_a_job_outlived_is_told_and_is_no_root() -> None:
    """It stands under its own heading, with its place and count."""
    seen = read(STEPS + caught(OOM) + MORE)
    assert [(f.signature, f.first_line, f.count) for f in seen.survived] == [("F01", 6, 1)]
    assert not seen.failed


def test_the_first_place_is_of_the_failure_that_stands() -> None:
    """An earlier one that was outlived is counted, and is not the root."""
    seen = read(STEPS + caught(OOM) + MORE + caught(OOM))
    assert seen.first_root is not None
    assert (seen.first_root.first_line, seen.first_root.count) == (13, 2)
    assert seen.survived == ()
    later = read(STEPS + caught(OOM) + MORE + caught(OOM) + MORE.replace("step=", "step=1"))
    assert [(finding.first_line, finding.count) for finding in later.survived] == [(6, 2)]


def test_a_card_that_fell_off_the_bus_is_not_disproved_by_steps() -> None:
    """Other cards may go on."""
    line = "NVRM: Xid (PCI:0000:ca:00): 79, pid=1, GPU has fallen off the bus.\n"
    assert root_of(STEPS + line + MORE) == "F40"


def test_a_full_disk_is_not_disproved_by_steps() -> None:
    """The job goes on, and its checkpoints do not."""
    assert root_of(STEPS + caught(FULL) + MORE) == "F65"
    assert root_of(f'note: "{FULL}"\n' + STEPS + MORE) is None


def test_a_loss_that_stays_not_finite_stands_although_steps_advance() -> None:
    """One norm that overflows and recovers does not."""
    lost = "".join(f"step={at} loss=nan\n" for at in range(4, 40))
    assert root_of(STEPS + lost) == "F59"
    assert root_of(STEPS + "step=3 grad_norm=inf\n" + MORE) is None


def test_an_unknown_exception_is_a_root_of_its_own() -> None:
    """The chain's first one; a look-up that missed gives way to what came of it."""
    caused = "\nThe above exception was the direct cause of the following exception:\n\n"
    during = "\nDuring handling of the above exception, another exception occurred:\n\n"
    seen = read(caught("ValueError: empty batch") + caused + uncaught("RuntimeError: no data"))
    assert seen.first_root is not None
    assert (seen.first_root.signature, seen.first_root.text) == (
        "exception",
        "ValueError: empty batch",
    )
    missed = read(caught("KeyError: 'adam'") + during + uncaught("RuntimeError: no such optimizer"))
    assert missed.first_root is not None
    assert missed.first_root.text == "RuntimeError: no such optimizer"
    ninja = "subprocess.CalledProcessError: Command '['ninja']' returned non-zero exit status 1."
    built = read(caught(ninja) + caused + uncaught("RuntimeError: Error building extension 'x'"))
    assert built.first_root is not None
    assert built.first_root.text == "RuntimeError: Error building extension 'x'"


def test_a_known_text_in_a_chain_is_the_root_and_not_its_wrapping() -> None:
    """What the program says about it is neither a second root nor a cascade."""
    caused = "\nThe above exception was the direct cause of the following exception:\n\n"
    seen = read(caught(FULL) + caused + uncaught("SaveError: cannot save"))
    assert [finding.signature for finding in seen.roots] == ["F65"]
    assert seen.cascades == ()


def test_what_happens_after_an_interrupt_is_no_cause() -> None:
    """Threads and workers fail while a program that was interrupted comes down."""
    seen = read(STEPS + uncaught("KeyboardInterrupt") + caught("OSError: handle is closed"))
    assert (seen.first_root, seen.failed) == (None, False)
    assert root_of(STEPS + uncaught("OSError: handle is closed")) == "exception"


def test_peers_that_leave_are_no_failure_only_after_the_jobs_own_end() -> None:
    """A root after it is one all the same, and so is a peer that leaves the next run."""
    left = "NCCL WARN socketProgress: Connection closed by remote peer n1<40110>\n"
    done = STEPS + "Training finished\n"
    assert not read(done + left).failed
    assert read(STEPS + left).failed
    assert read(done + MORE + left).failed
    assert root_of(done + uncaught(OOM)) == "F01"


def test_tracebacks_of_ranks_between_each_other_are_told_apart() -> None:
    """Each rank's frames and last line belong to its own."""
    one = uncaught("ValueError: first").splitlines()
    two = uncaught("TypeError: second").splitlines()
    mixed = [
        line for a, b in zip(one, two, strict=True) for line in (f"[rank1]: {a}", f"[rank0]: {b}")
    ]
    seen = read("\n".join(mixed) + "\n")
    assert seen.first_root is not None
    assert seen.first_root.text == "ValueError: first"
    assert (seen.first_root.count, seen.first_root.ranks) == (2, (0, 1))


def test_steps_in_blocks_that_are_not_read_line_by_line_count() -> None:
    """Blocks without any literal are skipped; their first and last counters are not."""
    chunks = [(STEPS + caught(OOM)).encode(), *(b"step=%d a=1\n" % at for at in range(4, 9))]
    assert diagnose(chunks).first_root is None
    assert diagnose(chunks[:2]).first_root is not None


def test_a_traceback_that_spans_blocks_is_followed_to_its_end() -> None:
    """Its last line holds no literal of the catalogue."""
    lines = uncaught("LimitViolation: too far").encode().splitlines(keepends=True)
    root = diagnose(lines).first_root
    assert root is not None
    assert root.text == "LimitViolation: too far"


def test_a_counter_that_eight_ranks_repeat_is_one_advance() -> None:
    """Otherwise a single step after a failure would look like progress."""
    progress = Progress()
    for rank in range(8):
        progress.take("step=5 loss=2.0", rank)
    assert (progress.advances, progress.backs) == (1, 0)


def test_a_bar_that_begins_again_is_no_new_start() -> None:
    """Each epoch has one; a step that goes back is one."""
    progress = Progress()
    for at in (90, 99, 3):
        progress.take(f"Epoch 1:  9%|#    | {at}/100 [00:01<00:09, 9.1it/s]")
    assert progress.backs == 0
    for step in (90, 99, 3):
        progress.take(f"step={step}")
    assert progress.backs == 1


@pytest.mark.parametrize(
    "line",
    [
        "Loading checkpoint shards:  12%|#   | 1/8 [00:04<00:31,  4.5s/it]",
        "Downloading shards:  50%|#   | 4/8 [00:04<00:31,  4.5s/it]",
        "steps_per_second=12",
        "in 3 steps: 12",
        "iterations:   0",
    ],
)
def test_other_counters_are_no_progress(line: str) -> None:
    """Loading, rates and plurals."""
    assert told_by(line) is None


@pytest.mark.parametrize(
    "line", ["a." * 4_000, "error: " * 1_100, "100%|" * 1_600, "1/" * 4_000 + " loss", '"' * 8_000]
)
def test_a_hostile_line_costs_no_more_than_its_length(line: str) -> None:
    """Patterns that try every pair of places would take seconds for each of these."""
    data = (uncaught(line) * 3 + "no such error\n").encode()
    began = time.process_time()
    diagnose([data])
    assert time.process_time() - began < 2


def test_memory_is_bounded_whatever_the_number_of_tracebacks() -> None:
    """Thousands leave a bounded number behind; the first one that stands does not give way."""
    handled = "".join(f"step={at}\n{caught('ValueError: handled')}" for at in range(300))
    log = handled + "step=301\n" + uncaught("TypeError: x") + caught("ValueError: y") * 3_000
    tracebacks = Tracebacks(Marks(Progress()))
    for line in split_lines([log.encode()]):
        tracebacks.take(line)
    assert len(tracebacks.chains) <= 64
    first = read(log).first_root
    # Too few steps followed the last of those that were handled.
    assert first is not None
    assert first.text == "ValueError: handled"
    assert first.first_line == 4 * 298 + 4
    assert first.count >= 3_000


WORDS = st.sampled_from(
    [STEPS, MORE, OOM, FULL, caught(OOM), uncaught("ValueError: x"), "\r", "[rank1]: ", "\x1b[0m"]
)


@settings(deadline=None)
@given(st.lists(WORDS | st.text(max_size=20), max_size=8), st.integers(1, 60))
def test_any_order_of_any_lines_gives_a_diagnosis(parts: list[str], size: int) -> None:
    """Total, and the roots are among what stands."""
    data = "\n".join(parts).encode("utf-8", "surrogatepass")

    def pieces() -> Iterator[bytes]:
        yield from (data[at : at + size] for at in range(0, len(data), size))

    seen = diagnose(pieces())
    assert seen.first_root is None or seen.first_root in seen.roots
    assert not {f.signature for f in seen.survived} & {f.signature for f in seen.roots}
