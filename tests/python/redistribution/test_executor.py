"""The executor carries out what torch carries out: to the bit, on real processes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ..device import DEVICE
from ..optimal.gloo import Processes
from .moved_on_ranks import (
    compared_moves,
    gradients_alike,
    grouped_otherwise,
    seconds_until_begun,
)

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def ranks() -> Iterator[Processes]:
    processes = Processes(4)
    yield processes
    processes.close()


@pytest.mark.parametrize("policy", ["torch", "optimal"])
@pytest.mark.parametrize("sizes", [(4,), (2, 2)], ids=str)
def test_moves_are_the_same(ranks: Processes, sizes: tuple[int, ...], policy: str) -> None:
    for compared, by_executor, differ in ranks.call(compared_moves, sizes, 40, 20261125, policy):
        assert differ == []
        assert compared > 144
        assert by_executor > compared // 3  # some of the others move nothing


@pytest.mark.parametrize("policy", ["torch", "optimal"])
@pytest.mark.parametrize("sizes", [(4,), (2, 2)], ids=str)
@pytest.mark.parametrize("later", [False, True], ids=["now", "later"])
def test_gradients_are_the_same(
    ranks: Processes, sizes: tuple[int, ...], policy: str, later: bool
) -> None:
    assert ranks.call(gradients_alike, sizes, policy, later) == [[]] * 4


@pytest.mark.parametrize("policy", ["torch", "optimal"])
def test_no_move_outlives_its_groups(ranks: Processes, policy: str) -> None:
    assert ranks.call(grouped_otherwise, policy) == [[True] * 8] * 4


@pytest.mark.skipif(DEVICE == "cuda", reason="there the tests' own all-gather waits")
def test_who_does_not_need_the_result_yet_does_not_wait_for_it(ranks: Processes) -> None:
    late = 2.0
    for moves in ranks.call(seconds_until_begun, late):
        assert all(is_right for _, _, is_right in moves)
        assert [name for name, begun, _ in moves if begun > late / 2] == []
