"""Captures: bounded memory, head and tail, true length."""

from hypothesis import given
from hypothesis import strategies as st

from journal.capture import Capture


@given(
    st.lists(st.binary(max_size=40), max_size=12),
    st.integers(2, 64),
    st.sampled_from([1, 8, 1024]),
)
def test_what_is_kept_is_all_or_the_first_and_the_last_half(
    chunks: list[bytes], limit: int, memory: int
) -> None:
    capture = Capture(limit_bytes=limit, memory_bytes=memory)
    for chunk in chunks:
        capture.write(chunk)
    whole = b"".join(chunks)
    assert capture.length_bytes == len(whole)
    assert capture.truncated == (len(whole) > limit)
    head, tail = limit - limit // 2, limit // 2
    expected = whole if len(whole) <= limit else whole[:head] + whole[-tail:]
    assert capture.content() == expected
    assert expected.startswith(capture.head)
    assert expected.endswith(capture.tail)
    capture.close()


def test_a_long_output_leaves_memory_at_the_bound() -> None:
    capture = Capture(limit_bytes=4 << 20, memory_bytes=1 << 16)
    for number in range(512):
        capture.write(bytes([number % 251]) * (1 << 15))
    assert not isinstance(capture._store, bytearray)
    assert capture.length_bytes == 16 << 20
    assert len(capture.content()) == 4 << 20
    capture.close()
