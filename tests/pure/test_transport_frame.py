"""The frame's reader, fed in every cut, and the conclusions that its markers allow."""

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from agentops.transport.base import Ended, Lost, NotSent, Request
from agentops.transport.exchange import Closed, Exchange
from agentops.transport.frame import PREAMBLE_LIMIT, EndMarker, StreamReader, frame
from tests.support.boxes import Kept

NONCE = "6e6f6e6365"
BEGIN = f"\n:agentops begin {NONCE} 4711\n".encode()
END = f"\n:agentops end {NONCE} 7\n".encode()
CUT = f"\n:agentops cut {NONCE} 143\n".encode()


def read(stream: bytes, cuts: list[int]) -> tuple[bytes, StreamReader]:
    delivered = bytearray()
    reader = StreamReader(NONCE, delivered.extend)
    places = sorted({min(cut, len(stream)) for cut in cuts})
    for start, end in zip([0, *places], [*places, len(stream)], strict=True):
        reader.feed(stream[start:end])
    reader.finish()
    return bytes(delivered), reader


# Bytes that look like markers are the ones that matter.
near_marker = st.lists(
    st.sampled_from(
        [b"\n", b":agentops", b" end ", b" begin ", NONCE.encode(), b" 7", b"00ff ", b"x", b"\xff"]
    )
).map(b"".join)


@given(body=near_marker, cuts=st.lists(st.integers(0, 300), max_size=6))
def test_every_byte_between_the_markers_is_delivered_in_any_cut(
    body: bytes, cuts: list[int]
) -> None:
    assume(f" {NONCE} ".encode() not in body)
    delivered, reader = read(b"Welcome" + BEGIN + body + END + b"bye", cuts)
    assert delivered == body
    assert reader.frame_pid == 4711
    assert reader.ended == EndMarker("end", 7)
    assert bytes(reader.preamble) == b"Welcomebye"


@given(cuts=st.lists(st.integers(0, 300), max_size=6), length=st.integers(0, 60))
def test_a_cut_stream_never_ends(cuts: list[int], length: int) -> None:
    stream = (BEGIN + b"step=1" + END)[: len(BEGIN) + 6 + min(length, len(END) - 1)]
    delivered, reader = read(stream, cuts)
    assert reader.ended is None
    assert delivered == stream[len(BEGIN) :]


def test_output_without_a_final_newline_stays_whole() -> None:
    delivered, _ = read(BEGIN + b"abc" + END, [])
    assert delivered == b"abc"


def test_another_nonce_ends_nothing() -> None:
    forged = b"\n:agentops end 00ff 0\n"
    delivered, reader = read(BEGIN + forged, [])
    assert (delivered, reader.ended) == (forged, None)


def test_a_status_that_is_no_number_ends_nothing() -> None:
    _, reader = read(BEGIN + f"\n:agentops end {NONCE} 0x1\n".encode() + b"more", [])
    assert reader.ended is None


def test_the_preamble_is_bounded() -> None:
    _, reader = read(b"x" * 100_000 + BEGIN + END + b"y" * 100_000, [70_000])
    assert len(reader.preamble) == PREAMBLE_LIMIT


def test_the_markers_stand_in_no_argv() -> None:
    argv = frame(("ps",), nonce=NONCE, remote_deadline_s=5, has_stdin=False)
    listing = b"\n" + b"\0".join(word.encode() for word in argv) + b"\n"
    for joined in (listing, listing.replace(b"\0", b" ")):
        delivered, reader = read(joined, [])
        assert not reader.begun
        assert delivered == b""


def exchange(out: bytes, *, layered: bool = False, deadline_ms: int = 1000) -> Exchange:
    made = Exchange(Request(("x",), b"", deadline_ms, NONCE), Kept(), layered=layered)
    made.out.feed(out)
    made.finish()
    return made


def test_an_end_marker_is_an_end_even_after_the_deadline() -> None:
    answer = exchange(BEGIN + END).conclude(None, 5000, "")
    assert answer == Ended(exit_status=7, duration_ms=5000)


def test_a_frame_told_to_stop_in_time_was_killed_by_a_stranger() -> None:
    answer = exchange(BEGIN + CUT).conclude(Closed(143, None), 10, "")
    assert isinstance(answer, Lost)
    assert answer.reason == "frame_killed"


def test_a_frame_told_to_stop_at_the_deadline_proves_that_the_command_is_gone() -> None:
    answer = exchange(BEGIN + CUT).conclude(None, 1200, "")
    assert isinstance(answer, Lost)
    assert answer.reason == "deadline_stopped"


def test_a_dead_outer_layer_does_not_prove_that_the_inside_stopped() -> None:
    answer = exchange(BEGIN, layered=True).conclude(Closed(None, "KILL"), 1200, "")
    assert isinstance(answer, Lost)
    assert answer.reason == "deadline_still_running"


def test_a_layer_that_ends_before_the_begin_marker_sent_nothing() -> None:
    answer = exchange(b"container '201' not running!\n").conclude(Closed(255, None), 20, "")
    assert isinstance(answer, NotSent)
    assert answer.reason == "layer_down"
    assert "container '201' not running!" in answer.detail


@pytest.mark.parametrize("status", [0, 1, 137, 255])
def test_a_status_without_the_end_marker_is_no_end_whatever_it_is(status: int) -> None:
    answer = exchange(BEGIN + b"half").conclude(Closed(status, None), 20, "")
    assert isinstance(answer, Lost)
    assert answer.reason == "frame_killed"


def test_silence_without_a_close_is_lost_and_never_an_end() -> None:
    answer = exchange(BEGIN + b"half").conclude(None, 20, "the connection was lost")
    assert isinstance(answer, Lost)
    assert answer.reason == "connection_lost"
