"""Which layouts a permutation of pieces between the ranks of a group can reach."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator

from .state import Orders

__all__ = ["permuted"]

# Per tensor dim: the pieces before each mesh dim that stays, then all pieces.
Signature = tuple[tuple[int, ...], ...]


def permuted(orders: Orders, group: tuple[int, ...], sizes: tuple[int, ...]) -> list[Orders]:
    """All orders that cut the tensor as `orders` do, with other mesh dims of `group`.

    Sizes are not looked at: the pieces are the same only if they are even.
    """
    outside = tuple(tuple(m for m in order if m not in group) for order in orders)
    alike = _arrangements(outside, group, sizes)[_signature(orders, group, sizes)]
    return [other for other in alike if other != orders]


@functools.lru_cache(maxsize=100_000)
def _arrangements(
    outside: Orders, group: tuple[int, ...], sizes: tuple[int, ...]
) -> dict[Signature, list[Orders]]:
    """Every way to put mesh dims of `group` into `outside`, or to leave them out."""
    found = [outside]
    for m in group:
        found += [longer for orders in found for longer in _with(orders, m)]
    by_signature: dict[Signature, list[Orders]] = {}
    for orders in found:
        by_signature.setdefault(_signature(orders, group, sizes), []).append(orders)
    return by_signature


def _with(orders: Orders, mesh_dim: int) -> Iterator[Orders]:
    for dim, order in enumerate(orders):
        for i in range(len(order) + 1):
            longer = (*order[:i], mesh_dim, *order[i:])
            yield (*orders[:dim], longer, *orders[dim + 1 :])


def _signature(orders: Orders, group: tuple[int, ...], sizes: tuple[int, ...]) -> Signature:
    pieces = []
    for order in orders:
        before = [
            math.prod(sizes[other] for other in order[:i])
            for i, m in enumerate(order)
            if m not in group
        ]
        pieces.append((*before, math.prod(sizes[m] for m in order)))
    return tuple(pieces)
