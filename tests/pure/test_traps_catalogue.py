"""Every trap of the catalogue and every sample has a test that is named by its id."""

import re
from pathlib import Path

TESTS = Path(__file__).parents[1]
SAMPLES = TESTS / "support" / "samples"

TRAPS = frozenset(
    [f"a{n:02}" for n in range(1, 12)]
    + [f"b{n:02}" for n in (*range(1, 16), 17, 18, 21)]
    + [f"c{n:02}" for n in (*range(1, 21), *range(22, 27))]
    + [f"d{n:02}" for n in range(1, 12)]
    + [f"e{n:02}" for n in range(1, 8)]
    + [f"f{n:02}" for n in range(1, 4)]
    + [f"g{n:02}" for n in range(1, 10)]
)


def names() -> str:
    texts = [
        path.read_text() for path in TESTS.glob("*/test_*.py") if path.name != Path(__file__).name
    ]
    return "\n".join(re.findall(r"def (test_\w+)", "\n".join(texts)))


def test_the_catalogue_has_eighty_four_traps() -> None:
    assert len(TRAPS) == 84


def test_every_trap_has_a_test() -> None:
    found = {match.lower() for match in re.findall(r"test_([a-g]\d\d)_", names())}
    assert TRAPS - found == frozenset()
    assert found <= TRAPS


def test_every_sample_is_read_by_a_test() -> None:
    sources = "\n".join(path.read_text() for path in TESTS.glob("*/test_*.py"))
    samples = sorted(path.name for path in SAMPLES.iterdir())
    assert len(samples) == 19
    assert [name for name in samples if name not in sources] == []
