"""Merkle trees, against published vectors and against the definition itself.

The eight entries and their roots and paths are those with which implementations of RFC 6962 are tested
(github.com/google/certificate-transparency, merkletree/merkle_tree_test.cc; github.com/transparency-dev/merkle).
"""

import hashlib

import pytest

from execution.core.merkle import Levels, Tree, includes, leaf_hash, node_hash

ENTRIES = [
    bytes.fromhex(text)
    for text in (
        "",
        "00",
        "10",
        "2021",
        "3031",
        "40414243",
        "5051525354555657",
        "606162636465666768696a6b6c6d6e6f",
    )
]
EMPTY = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
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
PATHS = {
    (0, 1): [],
    (0, 8): [
        "96a296d224f285c67bee93c30f8a309157f0daa35dc5b87e410b78630a09cfc7",
        "5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e",
        "6b47aaf29ee3c2af9af889bc1fb9254dabd31177f16232dd6aab035ca39bf6e4",
    ],
    (5, 8): [
        "bc1a0643b12e4d2d7c77918f44e0f4f79a838b6cf9ec5b5c283e1f4d88599e6b",
        "ca854ea128ed050b41b35ffc1b87b8eb2bde461e9e3b5596ece6b9d5975a0ae0",
        "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    ],
    (2, 3): ["fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125"],
    (1, 5): [
        "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
        "5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e",
        "bc1a0643b12e4d2d7c77918f44e0f4f79a838b6cf9ec5b5c283e1f4d88599e6b",
    ],
}


def defined_root(entries: list[bytes]) -> bytes:
    """MTH of RFC 9162 §2.1.1, word for word."""
    if not entries:
        return hashlib.sha256().digest()
    if len(entries) == 1:
        return leaf_hash(entries[0])
    k = 1
    while k * 2 < len(entries):
        k *= 2
    return node_hash(defined_root(entries[:k]), defined_root(entries[k:]))


def defined_path(index: int, entries: list[bytes]) -> tuple[bytes, ...]:
    """PATH of RFC 9162 §2.1.3.1, word for word."""
    if len(entries) == 1:
        return ()
    k = 1
    while k * 2 < len(entries):
        k *= 2
    if index < k:
        return (*defined_path(index, entries[:k]), defined_root(entries[k:]))
    return (*defined_path(index - k, entries[k:]), defined_root(entries[:k]))


def grown(entries: list[bytes]) -> Tree:
    tree = Tree()
    for entry in entries:
        tree.append(entry)
    return tree


def test_the_roots_are_those_of_other_implementations() -> None:
    assert Tree().root().hex() == Levels([]).root().hex() == EMPTY
    tree = Tree()
    for size, (entry, root) in enumerate(zip(ENTRIES, ROOTS, strict=True), start=1):
        tree.append(entry)
        assert (tree.size, tree.root().hex()) == (size, root)
        assert Levels(ENTRIES[:size]).root().hex() == root


@pytest.mark.parametrize(("index", "size"), sorted(PATHS))
def test_the_paths_are_those_of_other_implementations(index: int, size: int) -> None:
    proof = Levels(ENTRIES[:size]).proof(index)
    assert [each.hex() for each in proof] == PATHS[index, size]
    assert includes(bytes.fromhex(ROOTS[size - 1]), size, index, ENTRIES[index], proof)


@pytest.mark.parametrize("size", [*range(1, 34), 63, 64, 65, 127, 129])
def test_every_root_and_path_of_every_small_tree_is_as_defined(size: int) -> None:
    entries = [str(number).encode() for number in range(size)]
    levels = Levels(entries)
    assert grown(entries).root() == levels.root() == defined_root(entries)
    for index, entry in enumerate(entries):
        proof = levels.proof(index)
        assert proof == defined_path(index, entries)
        assert includes(levels.root(), size, index, entry, proof)


@pytest.mark.parametrize("size", [1, 2, 3, 5, 8, 13])
def test_a_proof_of_something_else_is_refused(size: int) -> None:
    entries = [str(number).encode() for number in range(size)]
    levels = Levels(entries)
    root = levels.root()
    for index, entry in enumerate(entries):
        proof = levels.proof(index)
        assert not includes(root, size, index, b"another", proof)
        assert not includes(root[::-1], size, index, entry, proof)
        assert not includes(root, size, index, entry, (*proof, root))
        assert not any(includes(root, size, other, entry, proof) for other in range(-1, size + 1) if other != index)
        for place in range(len(proof)):
            assert not includes(root, size, index, entry, proof[:place] + proof[place + 1 :])
            assert not includes(root, size, index, entry, (*proof[:place], root, *proof[place + 1 :]))
            assert not includes(root, size, index, entry, (*proof[:place], proof[place][:-1], *proof[place + 1 :]))


def test_an_inner_node_is_never_taken_for_an_entry() -> None:
    """Second preimages: what the prefixes are for (RFC 9162 §2.1.1)."""
    left, right = leaf_hash(b"a"), leaf_hash(b"b")
    assert leaf_hash(left + right) != node_hash(left, right)
    assert not includes(Levels([b"a", b"b"]).root(), 1, 0, left + right, ())


def test_a_proof_for_no_entry_is_not_made() -> None:
    with pytest.raises(IndexError):
        Levels([]).proof(0)
    with pytest.raises(IndexError):
        Levels([b"a"]).proof(-1)
