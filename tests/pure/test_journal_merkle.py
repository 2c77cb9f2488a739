"""The tree: roots and proofs against published vectors, and against the definition."""

from hypothesis import given
from hypothesis import strategies as st

from journal.lines import leaf_hash
from journal.merkle import (
    EMPTY_ROOT,
    Frontier,
    consistency_proof,
    inclusion_proof,
    is_consistent,
    node_hash,
    root_from_inclusion,
    root_of,
)

# Inputs and roots of certificate-transparency's reference tests, for sizes 1 to 8.
INPUTS = ["", "00", "10", "2021", "3031", "40414243", "5051525354555657",
          "606162636465666768696a6b6c6d6e6f"]  # fmt: skip
ROOTS = [
    "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
    "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
    "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
    "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
    "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
    "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
    "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
]

LEAVES = st.lists(st.binary(min_size=32, max_size=32), min_size=1, max_size=40)


def defined_root(leaves: list[bytes]) -> bytes:
    """RFC 6962, section 2.1, word by word."""
    if len(leaves) == 1:
        return leaves[0]
    split = 1
    while split * 2 < len(leaves):
        split *= 2
    return node_hash(defined_root(leaves[:split]), defined_root(leaves[split:]))


def test_roots_are_those_of_the_reference_vectors() -> None:
    frontier = Frontier()
    assert frontier.root() == EMPTY_ROOT
    for given_hex, expected in zip(INPUTS, ROOTS, strict=True):
        frontier.add(leaf_hash(bytes.fromhex(given_hex)))
        assert frontier.root().hex() == expected


@given(LEAVES)
def test_the_running_root_is_the_defined_one(leaves: list[bytes]) -> None:
    assert root_of(leaves) == defined_root(leaves)


@given(LEAVES, st.data())
def test_an_inclusion_proof_leads_to_the_root_for_its_leaf_only(
    leaves: list[bytes], data: st.DataObject
) -> None:
    index = data.draw(st.integers(0, len(leaves) - 1))
    path = inclusion_proof(leaves, index)
    size = len(leaves)
    assert root_from_inclusion(leaves[index], index, size, path) == root_of(leaves)
    assert root_from_inclusion(b"\x00" * 31 + b"!", index, size, path) != root_of(leaves)
    assert root_from_inclusion(leaves[index], index, size, [*path, leaves[0]]) is None
    if path:
        assert root_from_inclusion(leaves[index], index, size, path[:-1]) != root_of(leaves)


@given(LEAVES, st.data())
def test_a_consistency_proof_holds_for_a_prefix_only(
    leaves: list[bytes], data: st.DataObject
) -> None:
    old = data.draw(st.integers(1, len(leaves)))
    path = consistency_proof(leaves, old)
    new_root = root_of(leaves)
    assert is_consistent(old, root_of(leaves[:old]), len(leaves), new_root, path)
    other = [b"\x01" * 32, *leaves[1:old]]
    if other != leaves[:old]:
        assert not is_consistent(old, root_of(other), len(leaves), new_root, path)
