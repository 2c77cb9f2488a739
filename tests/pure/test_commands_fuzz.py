"""What the fuzzer tries for minutes, for seconds in every run: seeds, and damage to them."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentops.transport.frame import StreamReader
from tests.support.parser_targets import ParserTargets, scratch, stream
from tests.torture.fuzz_journal import mutated

TARGETS = ParserTargets(scratch())
SEEDS = tuple(TARGETS.seeds())


@pytest.mark.parametrize("name", TARGETS.all)
def test_every_target_reads_its_seeds_and_any_other_bytes(name: str) -> None:
    number = list(TARGETS.all).index(name)
    own = [seed for seed in SEEDS if seed[0] == number]
    assert own, "a target without a seed is not fuzzed"
    for seed in own:
        TARGETS.one(seed)
    for seed in SEEDS:
        TARGETS.one(bytes((number,)) + seed[1:])


@settings(max_examples=300)
@given(seed=st.sampled_from(SEEDS), draw=st.integers(0, 2**32))
def test_no_damage_to_an_answer_raises_or_grows(seed: bytes, draw: int) -> None:
    TARGETS.one(mutated(seed, random.Random(draw)))  # noqa: S311 - damage, no secret


class Losing(StreamReader):
    """A reader that loses a byte of some pieces."""

    def feed(self, chunk: bytes) -> None:
        """Take less than what comes."""
        super().feed(chunk[:-1] if len(chunk) == 3 else chunk)


def test_the_frames_target_sees_a_reader_that_loses_a_byte() -> None:
    said = b"\n:agentops begin 6e6f6e6365 7\nabcdefghi"
    stream(2, said)
    with pytest.raises(AssertionError):
        stream(2, said, Losing)
