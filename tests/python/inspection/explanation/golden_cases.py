"""Decisions whose texts are kept word for word in golden/."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch.distributed.tensor import Partial

import shardprop
from shardprop.inspection.explanation import Explanation

from ...specs import SS, P, R, S, spec_of
from .meshes import named_mesh

aten = torch.ops.aten


def mm_with_an_all_gather() -> Explanation:
    mesh = named_mesh(dp=2, tp=4)
    x = spec_of(mesh, (4096, 1024), (S(0), S(1)))
    weight = spec_of(mesh, (1024, 2048), (R, S(1)))
    return shardprop.explain(aten.mm.default, x, weight)


def embedding_with_a_partial() -> Explanation:
    mesh = named_mesh(tp=4)
    weight = spec_of(mesh, (32000, 1024), (S(0),))
    indices = spec_of(mesh, (8, 512), (R,), dtype=torch.int64)
    return shardprop.explain(aten.embedding.default, weight, indices)


def in_place_that_cannot_stay() -> Explanation:
    mesh = named_mesh(tp=4)
    x = spec_of(mesh, (1024, 1024), (P,))
    return shardprop.explain(aten.relu_.default, x)


def mixed_partials_without_a_strategy() -> Explanation:
    mesh = named_mesh(dp=2, tp=4)
    x = spec_of(mesh, (512, 512), (P, Partial("max")))
    return shardprop.explain(aten.mul_.Tensor, x, spec_of(mesh, (512, 512), (S(1), R)))


def partials_that_do_not_mix() -> Explanation:
    mesh = named_mesh(dp=2, tp=4)
    x = spec_of(mesh, (512, 512), (P, Partial("max")))
    return shardprop.explain(aten.add.Tensor, x, spec_of(mesh, (512, 512), (S(0), P)))


def too_small_to_cut() -> Explanation:
    mesh = named_mesh(dp=2, tp=4)
    x = spec_of(mesh, (3, 4096), (R, S(1)))
    return shardprop.explain(aten.add.Tensor, x, spec_of(mesh, (3, 4096), (P, R)))


def strided_bmm_of_attention() -> Explanation:
    """Queries whose batch and heads were folded into one dim, as views leave them."""
    mesh = named_mesh(dp=2, cp=2, tp=2)
    queries = spec_of(mesh, (64, 512, 64), (S(0), S(1), SS(0, 4)), strided_is_order=False)
    keys = spec_of(mesh, (64, 64, 512), (S(0), R, S(2)))
    return shardprop.explain(aten.bmm.default, queries, keys)


def softmax_that_follows() -> Explanation:
    mesh = named_mesh(dp=2, tp=4)
    x = spec_of(mesh, (512, 4096), (S(0), S(1)))
    return shardprop.explain(aten._softmax.default, x, -1, False)


def mm_under_policy_optimal() -> Explanation:
    mesh = named_mesh(dp=2, tp=4)
    x = spec_of(mesh, (4096, 1024), (S(0), S(1)))
    weight = spec_of(mesh, (1024, 2048), (R, S(1)))
    with shardprop.enabled(policy="optimal", topology="h100-nvlink"):
        return shardprop.explain(aten.mm.default, x, weight)


def rule_that_was_registered() -> Explanation:
    mesh = named_mesh(dp=2, tp=4)
    with torch.library._scoped_library("shardprop_golden", "DEF") as library:
        library.define("gemm(Tensor x, Tensor weight) -> Tensor")
        torch.library.register_fake(
            "shardprop_golden::gemm",
            lambda x, weight: x.new_empty(x.shape[0], weight.shape[1]),
            lib=library,
        )
        gemm = torch.ops.shardprop_golden.gemm.default
        with shardprop.temporary_rules():
            # From a file of a short name, wherever the checkout lies: lines are wrapped by length.
            line = compile('register_rule(gemm, "m k, k n -> m n")', "golden_cases.py", "exec")
            exec(line, {"register_rule": shardprop.register_rule, "gemm": gemm})
            x = spec_of(mesh, (4096, 1024), (S(0), R))
            return shardprop.explain(gemm, x, spec_of(mesh, (1024, 2048), (S(0), R)))


def list_of_two_kinds_of_elements() -> Explanation:
    mesh = named_mesh(tp=4)
    whole, cut = spec_of(mesh, (64, 64), (R,)), spec_of(mesh, (64, 64), (S(0),))
    grads = [cut, cut, spec_of(mesh, (64, 64), (S(1),))]
    return shardprop.explain(aten._foreach_add.List, [cut, whole, cut], grads)


def function_of_several_ops() -> Explanation:
    mesh = named_mesh(tp=4)

    def scores(queries: torch.Tensor, keys: torch.Tensor) -> torch.Tensor:
        return torch.relu(queries @ keys).softmax(-1)

    queries, keys = spec_of(mesh, (64, 32), (S(0),)), spec_of(mesh, (32, 64), (S(0),))
    return shardprop.explain(scores, queries, keys)


CASES: tuple[Callable[[], Explanation], ...] = (
    mm_with_an_all_gather,
    embedding_with_a_partial,
    in_place_that_cannot_stay,
    mixed_partials_without_a_strategy,
    partials_that_do_not_mix,
    too_small_to_cut,
    strided_bmm_of_attention,
    softmax_that_follows,
    mm_under_policy_optimal,
    rule_that_was_registered,
    list_of_two_kinds_of_elements,
    function_of_several_ops,
)
