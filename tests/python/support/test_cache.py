"""What a cache says of its bytes."""

from __future__ import annotations

import gc
import sys
from dataclasses import dataclass

import pytest
import torch

import shardprop
from shardprop.rules.families.views.dim_map import Group
from shardprop.support.cache import BoundedMap, held_bytes, stats_of_maps

NAME = "numbers of a test"


@dataclass
class NotOurs:
    held: list[int]


def test_containers_and_our_own_objects_are_looked_into() -> None:
    numbers = [1_000_000 + i for i in range(50)]
    inside = sys.getsizeof(numbers) + sum(map(sys.getsizeof, numbers))
    assert held_bytes([numbers]) == inside
    assert held_bytes([(numbers,), {"x": numbers}]) > inside
    ours = Group((0, 1), tuple(numbers))
    assert held_bytes([ours]) > sum(map(sys.getsizeof, numbers))


def test_each_object_counts_once() -> None:
    shared = ["a" * 10_000]
    once = held_bytes([shared])
    assert held_bytes([shared, shared]) == once
    assert held_bytes([(shared, shared)]) < once + 1_000
    shared.append(shared)  # type: ignore[arg-type]
    assert held_bytes([shared]) < once + 1_000


def test_what_is_not_ours_counts_with_its_own_size_only() -> None:
    assert held_bytes([NotOurs([*range(1_000)])]) < 1_000
    assert held_bytes([torch.ops.aten.mm.default, torch.float32, int]) < 1_000


def test_a_map_tells_its_bytes_from_a_sample_of_its_entries() -> None:
    held: BoundedMap[str] = BoundedMap(NAME, 2_000)
    assert stats_of_maps()[NAME].bytes == 0
    for key in range(1_000):
        held.put(key, f"{key:05d}" * 200)
    stats = stats_of_maps()[NAME]
    assert (stats.entries, stats.capacity) == (1_000, 2_000)
    assert 1_000_000 < stats.bytes < 1_300_000


@pytest.mark.slow
def test_maps_of_one_name_are_told_together_and_dropped_ones_no_more() -> None:
    maps: list[BoundedMap[int]] = [BoundedMap(NAME, 10) for _ in range(3)]
    for held in maps:
        held.put("x", 1)
    assert shardprop.stats().caches[NAME].entries == 3
    assert shardprop.stats().caches[NAME].capacity == 30
    del held
    maps.clear()
    gc.collect()
    assert NAME not in shardprop.stats().caches
