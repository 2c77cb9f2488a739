"""Merkle trees over a stream's leaves: running root, inclusion and consistency proofs. Pure.

Source: RFC 6962, section 2.1 (RFC 9162, section 2.1 for the verifying algorithms). Leaves enter as
hashes (``journal.lines.leaf_hash``); nothing here knows what they stand for.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field

EMPTY_ROOT = hashlib.sha256(b"").digest()


def node_hash(left: bytes, right: bytes) -> bytes:
    """SHA-256 over 0x01, left, right. Source: RFC 6962, section 2.1."""
    return hashlib.sha256(b"\x01" + left + right).digest()


@dataclass(slots=True)
class Frontier:
    """The running state of a growing tree: one hash per set bit of its size.

    >>> frontier = Frontier()
    >>> frontier.add(b"a" * 32); frontier.root() == b"a" * 32
    True
    """

    size: int = 0
    peaks: list[bytes] = field(default_factory=list)

    def add(self, leaf: bytes) -> None:
        """Take one more leaf hash."""
        size = self.size
        while size & 1:
            leaf = node_hash(self.peaks.pop(), leaf)
            size >>= 1
        self.peaks.append(leaf)
        self.size += 1

    def root(self) -> bytes:
        """The tree's root hash at the present size."""
        if not self.peaks:
            return EMPTY_ROOT
        root = self.peaks[-1]
        for peak in reversed(self.peaks[:-1]):
            root = node_hash(peak, root)
        return root

    def copy(self) -> "Frontier":
        """An independent state of the same tree."""
        return Frontier(self.size, list(self.peaks))


def root_of(leaves: Sequence[bytes]) -> bytes:
    """The root over these leaf hashes."""
    frontier = Frontier()
    for leaf in leaves:
        frontier.add(leaf)
    return frontier.root()


class Tree:
    """A whole tree with its inner hashes, for many proofs over the same leaves.

    An odd node at the end of a level is carried up unchanged, which gives RFC 6962's tree.
    """

    def __init__(self, leaves: Sequence[bytes]) -> None:
        self.size = len(leaves)
        self._levels = [list(leaves)]
        while len(self._levels[-1]) > 1:
            below = self._levels[-1]
            level = [node_hash(below[at], below[at + 1]) for at in range(0, len(below) - 1, 2)]
            self._levels.append(level + below[len(level) * 2 :])

    @property
    def root(self) -> bytes:
        """The root hash."""
        return self._levels[-1][0] if self.size else EMPTY_ROOT

    def inclusion_proof(self, index: int, size: int | None = None) -> list[bytes]:
        """The audit path of the leaf at *index*, from the leaf upwards. RFC 6962, 2.1.1.

        In the tree as it was when it had *size* leaves; all of them if None.
        """
        size = self.size if size is None else size
        if not 0 <= index < size <= self.size:
            raise IndexError(f"leaf {index} is outside a tree of {size} in one of {self.size}")
        path: list[bytes] = []
        start = 0
        while size > 1:
            left = 1 << (size - 1).bit_length() - 1  # the biggest power of two below size
            if index < start + left:
                path.append(self.root_over(start + left, size - left))
                size = left
            else:
                path.append(self.root_over(start, left))
                start, size = start + left, size - left
        return path[::-1]

    def root_over(self, start: int, size: int) -> bytes:
        """The root over *size* leaves from *start* on, where a subtree of that size may begin.

        With *start* 0: the tree's root when it had so many leaves.
        """
        if size == 0:
            return EMPTY_ROOT
        left = 1 << size.bit_length() - 1
        node = self._levels[left.bit_length() - 1][start // left]
        return node if left == size else node_hash(node, self.root_over(start + left, size - left))


def inclusion_proof(leaves: Sequence[bytes], index: int) -> list[bytes]:
    """One audit path; see ``Tree`` for many."""
    return Tree(leaves).inclusion_proof(index)


def root_from_inclusion(leaf: bytes, index: int, size: int, path: Sequence[bytes]) -> bytes | None:
    """The root that this path leads to, or None if it has the wrong length for the place.

    Source: RFC 9162, section 2.1.3.2.
    """
    if not 0 <= index < size:
        return None
    node, last, root = index, size - 1, leaf
    for sibling in path:
        if last == 0:
            return None
        if node & 1 or node == last:
            root = node_hash(sibling, root)
            while not node & 1 and node:
                node >>= 1
                last >>= 1
        else:
            root = node_hash(root, sibling)
        node >>= 1
        last >>= 1
    return root if last == 0 else None


def consistency_proof(leaves: Sequence[bytes], old_size: int) -> list[bytes]:
    """Proof that the tree over ``leaves[:old_size]`` is a prefix. Source: RFC 6962, 2.1.2."""
    if not 0 < old_size <= len(leaves):
        raise IndexError(f"an old size of {old_size} is outside 1..{len(leaves)}")
    return _subproof(leaves, old_size, whole=True)


def is_consistent(
    old_size: int, old_root: bytes, new_size: int, new_root: bytes, path: Sequence[bytes]
) -> bool:
    """Whether the path proves that the old tree is a prefix of the new one.

    Source: RFC 9162, section 2.1.4.2.
    """
    if old_size == new_size:
        return not path and old_root == new_root
    if not 0 < old_size < new_size or not path:
        return False
    hashes = list(path)
    if old_size & (old_size - 1) == 0:
        hashes.insert(0, old_root)
    node, last = old_size - 1, new_size - 1
    while node & 1:
        node >>= 1
        last >>= 1
    old = new = hashes[0]
    for sibling in hashes[1:]:
        if last == 0:
            return False
        if node & 1 or node == last:
            old = node_hash(sibling, old)
            new = node_hash(sibling, new)
            while not node & 1 and node:
                node >>= 1
                last >>= 1
        else:
            new = node_hash(new, sibling)
        node >>= 1
        last >>= 1
    return last == 0 and old == old_root and new == new_root


def _split(size: int) -> int:
    """The largest power of two below *size*."""
    return 1 << ((size - 1).bit_length() - 1)


def _subproof(leaves: Sequence[bytes], old_size: int, *, whole: bool) -> list[bytes]:
    if old_size == len(leaves):
        return [] if whole else [root_of(leaves)]
    split = _split(len(leaves))
    if old_size <= split:
        return [*_subproof(leaves[:split], old_size, whole=whole), root_of(leaves[split:])]
    return [*_subproof(leaves[split:], old_size - split, whole=False), root_of(leaves[:split])]
