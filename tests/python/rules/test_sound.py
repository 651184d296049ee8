"""Where torch's own decision gives wrong values: ours is right, and torch's still is wrong.

If a test fails that says torch is wrong, torch has mended it: our rule may follow again, and the
correction goes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest
import torch
from torch.distributed.tensor import Partial, Placement

import shardprop
from shardprop import ShardpropError, _torch
from shardprop.propagation.propagator import propagate_sharding
from shardprop.rules import torch_registry
from shardprop.verification.calls.call import Call
from shardprop.verification.settings import Settings
from shardprop.verification.validate.check import check_op
from shardprop.verification.validate.results import OpReport

from ..specs import SS, R, S, spec_of

aten = torch.ops.aten

pytestmark = pytest.mark.skipif(
    _torch.IS_215_OR_LATER, reason="torch 2.15 lists rows for most of these ops itself"
)

_RNG = torch.Generator().manual_seed(0)
F = torch.randn(6, 6, generator=_RNG)
CUBE = torch.randn(6, 6, 6, generator=_RNG)
INTS = torch.randint(-9, 9, (6, 6), generator=_RNG)
BOOLS = torch.rand(6, 6, generator=_RNG) < 0.4
NANS = torch.where(torch.rand(6, 6, generator=_RNG) < 0.2, math.nan, F)
COMPLEX = torch.complex(F, F.T.contiguous())
IMAGES = torch.randint(-9, 9, (6, 6, 8, 8), generator=_RNG)
TARGET = torch.arange(6)
WEIGHT = torch.rand(6, generator=_RNG)
SCORES = torch.randn(6, 6, 4, generator=_RNG)


class Fault(NamedTuple):
    """A call, and a row that torch claims for it."""

    op: Any
    args: tuple[Any, ...]
    row: str
    kwargs: Mapping[str, Any] = MappingProxyType({})


FAULTS = [
    *(
        Fault(op, (F, dim), f"S({dim + 2}) -> S({dim + 2})")
        for op in (aten.cumsum.default, aten.cumprod.default, aten.logcumsumexp.default)
        for dim in (-1, -2)
    ),
    Fault(aten.select_backward.default, (F, [6, 6, 6], -1, 2), "S(0) -> S(1)"),
    Fault(aten.select_backward.default, (F, [6, 6, 6], -2, 2), "S(0) -> S(1)"),
    Fault(aten.slice_backward.default, (F[:, :4], [6, 6], -1, 0, 4, 1), "S(1) -> S(1)"),
    Fault(aten.linalg__powsum.default, (F, 2), "P(sum) -> P(sum)"),
    Fault(aten._foreach_powsum.Scalar, ([F], 3), "P(sum) -> P(sum)"),
    Fault(aten.nansum.default, (NANS,), "P(sum) -> P(sum)"),
    Fault(aten.sum.default, (BOOLS,), "P(sum) -> P(sum)"),
    Fault(aten.sum.dim_IntList, (BOOLS, [1]), "P(sum) -> P(sum)"),
    Fault(aten.sum.dim_IntList, (F, [1]), "P(sum) -> P(sum)", {"dtype": torch.int64}),
    Fault(aten.prod.dim_int, (F * 9, 1), "P(product) -> P(product)", {"dtype": torch.int64}),
    Fault(aten.any.dim, (F * 0, 1), "P(sum) -> P(sum)"),
    Fault(aten.new_full.default, (F, [6, 6], 3.0), "P(sum) -> P(sum) & S(1) -> S(1)"),
    Fault(aten.new_ones.default, (F, [6, 6]), "P(sum) -> P(sum) & S(1) -> S(1)"),
    *(
        Fault(aten.view.dtype, (F, torch.int32), f"P({op}) -> P({op})")
        for op in ("sum", "max", "min", "product")
    ),
    Fault(aten.view.dtype, (COMPLEX, torch.float32), "P(product) -> P(product)"),
    Fault(aten.view.dtype, (COMPLEX[:, :5], torch.float32), "S(1) -> S(1)"),
    Fault(aten.view.dtype, (F, torch.complex64), "_S(1, 2) -> _S(1, 2)"),
    Fault(aten.view_as_real.default, (COMPLEX,), "P(product) -> P(product)"),
    Fault(aten.view_as_real.default, (COMPLEX,), "_S(1, 2) -> _S(2, 2)"),
    Fault(aten.avg_pool1d.default, (IMAGES[0], [2]), "P(sum) -> P(sum)"),
    Fault(aten.avg_pool2d.default, (IMAGES, [2, 2]), "P(sum) -> P(sum)"),
    Fault(aten.avg_pool3d.default, (IMAGES[None], [2, 2, 2]), "P(sum) -> P(sum)"),
    Fault(
        aten.nll_loss_forward.default,
        (F, TARGET, WEIGHT, 1, -100),
        "S(0), S(0), R -> P(avg), P(sum)",
    ),
    Fault(aten.nll_loss_forward.default, (F, TARGET, None, 1, 2), "S(0), S(0) -> P(avg), P(sum)"),
    Fault(
        aten.nll_loss2d_forward.default,
        (SCORES[..., None], TARGET[:, None, None].expand(6, 4, 1).contiguous(), WEIGHT, 1, -100),
        "S(0), S(0), R -> P(avg), P(sum)",
    ),
    Fault(aten.gather.default, (F, 1, INTS[:3, :4].clamp(0, 5)), "S(0), S(0) -> S(0)"),
    Fault(
        aten.scatter_add.default,
        (F, 1, INTS.clamp(0, 5), torch.cat([F, F + 1])),
        "S(0), S(0), S(0) -> S(0)",
    ),
    Fault(aten.cat.default, ([F, BOOLS],), "P(sum), P(sum) -> P(sum)"),
    Fault(aten.stack.default, ([F, BOOLS],), "P(sum), P(sum) -> P(sum)"),
]


def _check(fault: Fault, rule: Any) -> OpReport:
    torch.manual_seed(0)
    args = tuple(a.contiguous() if isinstance(a, torch.Tensor) else a for a in fault.args)
    composed = (2, 2) if "&" in fault.row else ()
    settings = Settings(missing=False, rule=rule, composed=composed)
    return check_op(fault.op, [Call(fault.op, args, dict(fault.kwargs))], settings)


def _id(fault: Fault) -> str:
    return f"{fault.op}: {fault.row}"


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS, ids=_id)
def test_our_decision_is_right(fault: Fault) -> None:
    report = _check(fault, "active")
    assert report.calls == 1 and report.rule == "own rule"
    wrong = [(f.rows, f.reason) for f in report.unsound if "shard is empty" not in f.reason]
    # A view of elements that a shard has no whole number of raises, here as with torch.
    assert [why for _, why in wrong if "must be divisible" not in why] == []


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS, ids=_id)
def test_the_decision_of_torch_is_wrong(fault: Fault) -> None:
    found = {frozenset(finding.rows) for finding in _check(fault, "torch").unsound}
    assert frozenset(fault.row.split(" & ")) in found


# --- and where torch is right, its decision stays ------------------------------------------------

MeshOf = Any
SUM, AVG, PRODUCT = Partial("sum"), Partial("avg"), Partial("product")
MAX, BAND = Partial("max"), Partial("band")


@pytest.mark.parametrize(
    ("op", "dtype", "args", "placement"),
    [
        (aten.cumsum.default, torch.float32, (-1,), S(0)),
        (aten.sum.dim_IntList, torch.float32, ([1],), SUM),
        (aten.any.dim, torch.bool, (1,), SUM),
        (aten.all.dim, torch.float32, (1,), PRODUCT),
        (aten.fill_.Scalar, torch.float32, (2.0,), SUM),
        (aten.fill_.Scalar, torch.float32, (0,), SUM),
        (aten.fill_.Scalar, torch.float32, (2.0,), MAX),
        (aten.fill_.Scalar, torch.bool, (True,), SUM),
        (aten.zero_.default, torch.float32, (), SUM),
        (aten.view.dtype, torch.float32, (torch.float32,), SUM),
        (aten.view.dtype, torch.complex64, (torch.float32,), AVG),
        (aten.view.dtype, torch.int32, (torch.uint8,), BAND),
        (aten.view.dtype, torch.int64, (torch.int32,), S(1)),
        (aten.view.dtype, torch.uint8, (torch.int8,), SUM),
        (aten.avg_pool1d.default, torch.float32, ([2],), SUM),
    ],
    ids=str,
)
def test_what_torch_keeps_rightly_is_kept(
    mesh_of: MeshOf, op: Any, dtype: torch.dtype, args: tuple[Any, ...], placement: Placement
) -> None:
    x = spec_of(mesh_of(2), (8, 8), [placement], dtype=dtype)
    decision = shardprop.propagate(op, x, *args)
    assert (decision.operands[0], decision.outputs[0]) == ((placement,), (placement,))


@pytest.mark.parametrize(
    ("split_factor", "output"), [(1, S(1)), (2, SS(1, 2)), (4, SS(1, 4))], ids=str
)
def test_strided_complex_numbers_stay_where_they_are(
    mesh_of: MeshOf, split_factor: int, output: Placement
) -> None:
    x = spec_of(
        mesh_of(2), (6, 8), [SS(1, split_factor)], dtype=torch.complex64, strided_is_order=False
    )
    assert shardprop.propagate(aten.view_as_real.default, x).outputs == ((output,),)


def test_the_plain_mean_of_a_loss_is_torchs(mesh_of: MeshOf) -> None:
    scores = spec_of(mesh_of(2), (8, 5), [S(0)])
    target = spec_of(mesh_of(2), (8,), [S(0)], dtype=torch.int64)
    weight = spec_of(mesh_of(2), (5,), [R])
    op = aten.nll_loss_forward.default
    assert shardprop.propagate(op, scores, target, None, 1, -100).outputs == ((AVG,), (SUM,))
    assert shardprop.propagate(op, scores, target, weight, 2, -100).outputs == ((SUM,), (SUM,))
    assert shardprop.propagate(op, scores, target, weight, 1, -100).outputs == ((R,), (R,))


@pytest.mark.parametrize("placement", [S(0), SUM], ids=str)
def test_an_identity_is_written_to_replicas_only(mesh_of: MeshOf, placement: Placement) -> None:
    out = spec_of(mesh_of(2), (8, 8), [placement])
    with pytest.raises(
        ShardpropError, match=r"eye\.m_out: Expected an operand 'out' .* mesh dim 0"
    ):
        propagate_sharding(torch_registry.op_schema(aten.eye.m_out, (8, 8), {"out": out}))
