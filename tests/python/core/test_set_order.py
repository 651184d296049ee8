"""The core's idea of how a Python set iterates, against the interpreter that runs."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from shardprop import _core

MASK = 0xFFFFFFFFFFFFFFFF


class Hashed:
    """An element with a given hash that equals only itself."""

    def __init__(self, value: int) -> None:
        self.value = value

    def __hash__(self) -> int:
        return self.value


@given(st.lists(st.integers(-(2**60), 2**60) | st.integers(0, 40), max_size=40))
def test_sets_iterate_as_the_core_says(hashes: list[int]) -> None:
    elements = [Hashed(value) for value in hashes]
    built: set[Hashed] = set()
    for element in elements:
        built.add(element)
    order = _core.set_order([hash(element) & MASK for element in elements])
    assert [elements[i] for i in order] == list(built)


@given(st.integers(0, 20), st.integers(1, 2**32 - 1))
def test_a_strided_shard_hashes_as_the_core_says(dim: int, split_factor: int) -> None:
    assert _core.hash_int_pair(dim, split_factor) == hash((dim, split_factor)) & MASK
