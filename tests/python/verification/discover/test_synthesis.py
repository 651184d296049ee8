"""Rows written by hand to rules."""

from __future__ import annotations

from typing import Any

import torch

from shardprop.verification.discover.evidence import Evidence
from shardprop.verification.discover.synthesis import propose

from .seen import evidence, seen

aten = torch.ops.aten


def _rule(of: Evidence) -> str:
    return propose(of)[0].text


_PRODUCT = [
    "S(0), R -> S(0)",
    "S(1), S(0) -> P(sum)",
    "R, S(1) -> S(1)",
    "P(sum), R -> P(sum)",
    "R, P(sum) -> P(sum)",
    "P(avg), R -> P(avg)",
    "R, P(avg) -> P(avg)",
]


def test_a_matrix_product() -> None:
    one = seen(aten.mm.default, [(4, 6), (6, 8), (4, 8)], _PRODUCT)
    assert _rule(evidence(aten.mm.default, one)) == "*m k, *k n -> m n"


def test_a_product_that_is_not_linear_has_no_marks() -> None:
    one = seen(aten.mm.default, [(4, 6), (6, 8), (4, 8)], _PRODUCT[:3])
    assert _rule(evidence(aten.mm.default, one)) == "m k, k n -> m n"


def test_a_dim_that_is_never_cut_is_whole() -> None:
    rows = ["S(0) -> S(0)"]
    one = seen(aten.relu.default, [(4, 6), (4, 6)], rows)
    assert _rule(evidence(aten.relu.default, one)) == "m w! -> m w"


def test_a_dim_that_follows_an_argument() -> None:
    op = aten.cumsum.default
    first = seen(op, [(4, 6), (4, 6)], ["S(1) -> S(1)"], dim=0)
    last = seen(op, [(4, 6, 8), (4, 6, 8)], ["S(0) -> S(0)", "S(1) -> S(1)"], call=1, dim=-1)
    assert _rule(evidence(op, first, last)) == "... n@dim! -> ... n@dim"


def test_a_dim_that_is_cut_only_where_it_divides_asks_for_it() -> None:
    op = aten.relu.default
    even = seen(op, [(4,), (4,)], ["S(0) -> S(0)"])
    uneven = seen(op, [(5,), (5,)], [], call=1)
    assert _rule(evidence(op, even, uneven)) == "m{even} -> m"


def test_an_average_asks_by_itself() -> None:
    op = aten.mean.dim
    arguments: dict[str, Any] = {"dim": [0], "keepdim": False}
    even = seen(op, [(4, 6), (6,)], ["S(0) -> P(avg)", "S(1) -> S(0)"], **arguments)
    uneven = seen(op, [(5, 6), (6,)], ["S(1) -> S(0)"], call=1, **arguments)
    other = seen(
        op, [(4, 6), (4, 1)], ["S(1) -> P(avg)", "S(0) -> S(0)"], call=2, dim=[1], keepdim=True
    )
    assert _rule(evidence(op, even, uneven, other)) == "... n@dim:avg -> ..."


def test_a_row_that_fails_on_one_call_is_in_no_rule() -> None:
    op = aten.relu.default
    one = seen(op, [(4, 6), (4, 6)], ["S(0) -> S(0)", "S(1) -> S(1)", "P(max) -> P(max)"])
    other = seen(op, [(4, 6), (4, 6)], ["S(0) -> S(0)"], call=1)
    for proposal in propose(evidence(op, one, other)):
        assert proposal.text in ("m w! -> m w", "_ -> _") or "P(max)" not in proposal.text
    assert _rule(evidence(op, one, other)) == "m w! -> m w"


def test_broadcast_dims_are_aligned_from_the_right() -> None:
    op = aten.add.Tensor
    one = seen(op, [(4, 6), (6,), (4, 6)], ["S(0), R -> S(0)", "S(1), S(0) -> S(1)"])
    other = seen(op, [(4, 1), (4, 6), (4, 6)], ["S(0), S(0) -> S(0)", "R, S(1) -> S(1)"], call=1)
    assert _rule(evidence(op, one, other)) == "..., ... -> ..."


def test_a_bias_waits_for_the_sum_that_a_contraction_leaves() -> None:
    rows = [
        "S(0), S(0), R -> S(0)",
        "P(sum), S(1), S(0) -> P(sum)",
        "S(1), R, S(1) -> S(1)",
        "P(sum), P(sum), R -> P(sum)",
        "P(sum), R, P(sum) -> P(sum)",
        "P(avg), P(avg), R -> P(avg)",
        "P(avg), R, P(avg) -> P(avg)",
    ]
    op = aten.addmm.default
    one = seen(op, [(4, 8), (4, 6), (6, 8), (4, 8)], rows)
    assert _rule(evidence(op, one)) == "+m n, *m k, *k n -> m n"


def test_an_operand_that_does_not_matter_is_whole() -> None:
    op = aten.mul.Tensor
    rows = ["S(0), R -> S(0)", "S(0), S(0) -> S(0)"]
    one = seen(op, [(4,), (4,), (4,)], rows)
    assert _rule(evidence(op, one)) == "m, _ -> m"
