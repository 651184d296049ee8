"""Each correction of calls concerns a call that torch decides wrongly, and not its neighbour."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import pytest
import torch
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Partial, Placement
from torch.distributed.tensor._dtensor_spec import DTensorSpec

import shardprop
from shardprop import _torch
from shardprop.corrections.by_op import CORRECTIONS, corrections_of
from shardprop.corrections.correction import CallCorrection
from shardprop.propagation.propagator import propagate_sharding
from shardprop.propagation.route import Who
from shardprop.rules import torch_registry

from ..specs import SS, R, S, spec_of

MeshOf = Callable[..., DeviceMesh]

aten = torch.ops.aten
SUM, PRODUCT, MAX = Partial("sum"), Partial("product"), Partial("max")
NORM = _torch.norm_partial(2)
INT, BOOL, COMPLEX = torch.int64, torch.bool, torch.complex64


class X(NamedTuple):
    """An operand."""

    placements: tuple[Placement, ...]
    shape: tuple[int, ...] = (8, 6)
    dtype: torch.dtype = torch.float32


class Pair(NamedTuple):
    """A call that is concerned, and one like it that is not."""

    name: str
    op: Any
    wrong: tuple[Any, ...]
    right: tuple[Any, ...]
    kwargs: Mapping[str, Any] = {}


def x(*placements: Placement, shape: tuple[int, ...] = (8, 6), dtype: Any = torch.float32) -> X:
    return X(placements, shape, dtype)


LINE, IMAGES, MATRICES = (8,), (4, 8, 3), (4, 5, 5)
SCALES = [x(R, shape=LINE)] * 2
# How the window of a convolution moves: stride, padding, dilation, transposed and so on.
WINDOW = ([1], [0], [1], False, [0], 1)
PAIRS = [
    Pair("scan along", aten.cumsum.default, (x(S(1)), -1), (x(S(1)), -2)),
    Pair("scan along", aten.cumprod.default, (x(SS(0, 2)), -2), (x(SS(0, 2)), 0)),
    Pair(
        "backward of a slice",
        aten.slice_backward.default,
        (x(S(1)), [8, 12], -1, 0, 6, 1),
        (x(S(0)), [8, 12], -1, 0, 6, 1),
    ),
    Pair(
        "backward of a slice",
        aten.select_backward.default,
        (x(S(1)), [8, 6, 4], -1, 2),
        (x(S(1)), [8, 4, 6], -2, 2),
    ),
    Pair("powers", aten.linalg__powsum.default, (x(SUM), 3), (x(S(0)), 3)),
    Pair("conversion", aten.sum.dim_IntList, (x(SUM, dtype=BOOL), [1]), (x(SUM, dtype=INT), [1])),
    Pair(
        "conversion",
        aten.sum.dim_IntList,
        (x(SUM), [1]),
        (x(SUM, dtype=INT), [1]),
        {"dtype": INT},
    ),
    Pair("conversion", aten.any.dim, (x(SUM), 1), (x(SUM, dtype=BOOL), 1)),
    Pair(
        "conversion",
        aten.prod.dim_int,
        (x(PRODUCT, dtype=COMPLEX), 1),
        (x(PRODUCT), 1),
        {"dtype": torch.float32},
    ),
    Pair("reduction over", aten.sum.dim_IntList, (x(S(0)), [], True), (x(S(0)), [0], True)),
    Pair("reduction over", aten.linalg_vector_norm.default, (x(SUM), 2, []), (x(R), 2, [])),
    Pair("nansum", aten.nansum.default, (x(SUM),), (x(S(0)),)),
    Pair("sum of a pending", aten.sum.dim_IntList, (x(NORM), [1]), (x(SUM), [1])),
    Pair(
        "new tensor",
        aten.new_full.default,
        (x(S(0), SUM), [8, 6], 3.0),
        (x(S(0), Partial("max")), [8, 6], 3.0),
    ),
    Pair("bits", aten.view.dtype, (x(SUM), torch.int32), (x(S(0)), torch.int32)),
    Pair("bits", aten.view.dtype, (x(S(1)), torch.int16), (x(S(0)), torch.int16)),
    Pair(
        "real parts",
        aten.view_as_real.default,
        (x(PRODUCT, dtype=COMPLEX),),
        (x(SUM, dtype=COMPLEX),),
    ),
    Pair(
        "average of",
        aten.avg_pool1d.default,
        (x(SUM, dtype=INT), [2]),
        (x(SUM), [2]),
    ),
    Pair(
        "weighted mean",
        aten.nll_loss_forward.default,
        (x(S(0)), x(S(0), shape=LINE, dtype=INT), x(R, shape=(6,)), 1, -100),
        (x(S(0)), x(S(0), shape=LINE, dtype=INT), x(R, shape=(6,)), 2, -100),
    ),
    Pair(
        "batches that are",
        aten.linalg_lu_solve.default,
        (x(S(0), shape=MATRICES), x(S(0), shape=(4, 5), dtype=INT), x(S(0), shape=(2, 4, 5, 5))),
        (x(S(0), shape=MATRICES), x(S(0), shape=(4, 5), dtype=INT), x(S(0), shape=MATRICES)),
    ),
    Pair(
        "extremes through",
        aten.threshold.default,
        (x(MAX), 0.5, 2.0),
        (x(S(0)), 0.5, 2.0),
    ),
    Pair(
        "extremes through",
        aten._fft_c2c.default,
        (x(Partial("min"), dtype=COMPLEX), [0], 0, True),
        (x(SUM, dtype=COMPLEX), [0], 0, True),
    ),
    Pair(
        "pooling of one",
        aten.max_unpool2d.default,
        (x(S(1), shape=(2, 4, 4)), x(S(1), shape=(2, 4, 4), dtype=INT), [8, 8]),
        (x(S(1), shape=(1, 2, 4, 4)), x(S(1), shape=(1, 2, 4, 4), dtype=INT), [8, 8]),
    ),
    Pair(
        "pooling of one",
        aten._adaptive_avg_pool2d_backward.default,
        (x(SUM, shape=(2, 3, 3)), x(R, shape=(2, 4, 4))),
        (x(R, shape=(2, 3, 3)), x(R, shape=(2, 4, 4))),
    ),
    Pair(
        "copy of what",
        aten.to.dtype,
        (x(SUM), INT),
        (x(SUM), torch.float64),
    ),
    Pair(
        "copy of what",
        aten.to.dtype,
        (x(MAX), torch.uint8),
        (x(MAX), INT),
    ),
    Pair("copy of what", aten.copy_.default, (x(SUM, dtype=INT), x(SUM)), (x(SUM), x(SUM))),
    Pair("copy of what", aten.copy_.default, (x(SUM, dtype=INT), x(R)), (x(SUM), x(R, dtype=INT))),
    Pair(
        "copy of what",
        aten._to_copy.default,
        (x(SUM, dtype=BOOL),),
        (x(SUM, dtype=INT),),
        {"dtype": torch.float32},
    ),
    Pair(
        "copy of what",
        aten._to_copy.default,
        (x(MAX),),
        (x(SUM, dtype=INT),),
        {"dtype": torch.uint8},
    ),
    Pair(
        "operand that is written",
        torch.ops.prims.copy_to.default,
        (x(R), x(S(0))),
        (x(R), x(R)),
    ),
    Pair(
        "operand that is written",
        aten.native_batch_norm.default,
        (x(S(1), shape=IMAGES), *SCALES, *SCALES, True, 0.1, 1e-5),
        (x(R, shape=IMAGES), *SCALES, *SCALES, True, 0.1, 1e-5),
    ),
    Pair(  # the cheapest way may be to cut the channels, by an all-to-all
        "operand that is written",
        aten.native_batch_norm.default,
        (x(S(0), shape=IMAGES), *SCALES, *SCALES, True, 0.1, 1e-5),
        (x(S(0), shape=IMAGES), *SCALES, *SCALES, False, 0.1, 1e-5),
    ),
    Pair(
        "operand that is written",
        aten.rrelu_with_noise.default,
        (x(SUM), x(SUM), 0.1, 0.3, True),
        (x(SUM), x(SUM), 0.1, 0.3, False),
    ),
    Pair(
        "operand that is written",
        aten.native_batch_norm.default,
        (
            x(S(0), shape=IMAGES),
            *[x(R, shape=LINE)] * 2,
            *[x(S(0), shape=LINE)] * 2,
            True,
            0.1,
            1e-5,
        ),
        (x(S(1), shape=IMAGES), *SCALES, *SCALES, False, 0.1, 1e-5),
    ),
    Pair(
        "operand that is written",
        aten._fused_adam_.default,
        ([x(R)], [x(S(0))], [x(S(0))], [x(R)], [], [x(R, shape=())]),
        ([x(R)], [x(S(0))], [x(R)], [x(R)], [], [x(R, shape=())]),
    ),
    Pair(
        "table cut",
        aten.embedding.default,
        (x(S(0), S(0)), x(R, R, shape=LINE, dtype=INT)),
        (x(S(0)), x(R, shape=LINE, dtype=INT)),
    ),
    Pair(
        "table cut",
        aten.gather.default,
        (x(S(1), S(1)), 1, x(R, R, dtype=INT)),
        (x(S(1)), 1, x(R, dtype=INT)),
    ),
    Pair(
        "batches that are",
        aten.linalg_solve_triangular.default,
        (x(R, shape=MATRICES), x(S(0), shape=MATRICES)),
        (x(S(0), shape=MATRICES), x(S(0), shape=MATRICES)),
        {"upper": True},
    ),
    Pair(
        "extremes through",
        aten.linalg_vector_norm.default,
        (x(MAX), float("inf")),
        (x(MAX), 2.0),
    ),
    Pair(
        "room",
        aten.empty_like.default,
        (x(SUM, S(0)),),
        (x(MAX, S(0)),),
        {"memory_format": torch.preserve_format},
    ),
    Pair(
        "view of strided",
        aten.view.default,
        (x(SS(0, 3), shape=(6, 2)), [2, 6]),
        (x(SS(0, 3), shape=(6, 2)), [3, 2, 2]),
    ),
    Pair(
        "view of strided",
        aten.reshape.default,
        (x(S(0), S(0), shape=(6, 6, 6)), [36, 6]),
        (x(S(0), S(0), shape=(8, 6, 6)), [48, 6]),
    ),
    Pair(
        "gradient of an embedding",
        aten.embedding_dense_backward.default,
        (x(S(0), shape=(4, 6)), x(S(0), shape=(4,), dtype=INT), 8, -1, True),
        (x(S(0), shape=(4, 6)), x(S(0), shape=(4,), dtype=INT), 8, -1, False),
    ),
    Pair(
        "gradient of an embedding",
        aten.embedding_dense_backward.default,
        (x(S(0), shape=(4, 6)), x(R, shape=(4,), dtype=INT), 8, -1, True),
        (x(S(1), shape=(4, 6)), x(R, shape=(4,), dtype=INT), 8, -1, True),
    ),
    Pair(
        "shards of an index",
        aten.gather.default,
        (x(S(0)), 1, x(S(0), shape=(4, 6), dtype=INT)),
        (x(S(0)), 1, x(S(0), shape=(8, 2), dtype=INT)),
    ),
    Pair(  # what is cut along the indexed dim may be moved to one that differs
        "shards of an index",
        aten.gather.default,
        (x(S(1)), 1, x(R, shape=(4, 6), dtype=INT)),
        (x(S(1)), 1, x(R, shape=(8, 2), dtype=INT)),
    ),
    Pair(
        "shards of an index",
        aten.gather.default,
        (x(SUM), 1, x(R, shape=(4, 6), dtype=INT)),
        (x(R), 1, x(R, shape=(4, 6), dtype=INT)),
    ),
    Pair(
        "convolution",
        aten.convolution.default,
        (x(S(2), shape=(4, 4, 8)), x(R, shape=(4, 4, 3)), None, *WINDOW),
        (x(S(0), shape=(4, 4, 8)), x(R, shape=(4, 4, 3)), None, *WINDOW),
    ),
    Pair(
        "convolution",
        aten.convolution_backward.default,
        (x(R, shape=(4, 4, 6)), x(R, shape=(4, 4, 8)), x(S(0), shape=(4, 4, 3)), None, *WINDOW),
        (x(S(2), shape=(4, 4, 6)), x(R, shape=(4, 4, 8)), x(R, shape=(4, 4, 3)), None, *WINDOW),
    ),
    Pair(
        "mean into",
        aten.mean.dtype_out,
        (x(S(0), shape=(3,)),),
        (x(S(0), shape=(4,)),),
        {"out": x(Partial("avg"), shape=())},
    ),
    Pair(
        "mean into",
        aten.mean.dtype_out,
        (x(SS(0, 3), shape=(4,)),),
        (x(R, shape=(4,)),),
        {"out": x(Partial("avg"), shape=())},
    ),
    Pair(
        "fill into",
        aten.fill.Scalar_out,
        (x(SUM), 3.0),
        (x(MAX), 3.0),
        {"out": x(R)},
    ),
    Pair("bools joined", aten.cat.default, ([x(SUM), x(SUM, dtype=BOOL)],), ([x(SUM), x(SUM)],)),
]


def _given(mesh_of: MeshOf, item: Any) -> Any:
    if isinstance(item, X):
        mesh = mesh_of(*(2,) * len(item.placements))
        return spec_of(mesh, item.shape, item.placements, dtype=item.dtype)
    if isinstance(item, list):
        return [_given(mesh_of, each) for each in item]
    return item


def _correction(name: str) -> CallCorrection:
    (found,) = (each for each in CORRECTIONS if each.name.startswith(name))
    assert isinstance(found, CallCorrection)
    return found


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: f"{pair.name}: {pair.op}")
def test_one_call_is_concerned_and_its_neighbour_is_not(mesh_of: MeshOf, pair: Pair) -> None:
    correction = _correction(pair.name)
    assert pair.op in correction.ops
    for args, expected in ((pair.wrong, True), (pair.right, False)):
        given = tuple(_given(mesh_of, arg) for arg in args)
        kwargs = {name: _given(mesh_of, each) for name, each in pair.kwargs.items()}
        schema = torch_registry.op_schema(pair.op, given, kwargs)
        assert correction.concerns(schema) is expected


def test_an_identity_is_concerned_where_it_is_sharded(mesh_of: MeshOf) -> None:
    correction = _correction("identity")
    for placement, expected in ((S(0), True), (SUM, True), (R, False)):
        out = spec_of(mesh_of(2), (8, 8), [placement])
        schema = torch_registry.op_schema(aten.eye.m_out, (8, 8), {"out": out})
        assert correction.concerns(schema) is expected


def test_a_keyword_is_concerned_where_it_is_not_replicated(mesh_of: MeshOf) -> None:
    correction = _correction("keyword")
    matrix = spec_of(mesh_of(2), (4, 4), [SUM])
    for placement, expected in ((SUM, True), (R, False)):
        tolerances = {"rtol": spec_of(mesh_of(2), (), [placement])}
        op = aten.linalg_pinv.atol_rtol_tensor
        schema = torch_registry.op_schema(op, (matrix,), tolerances)
        assert correction.concerns(schema) is expected
        with shardprop.enabled():
            if expected:
                match = r"(?s)P\(sum\).*by keyword.*before"
                with pytest.raises(shardprop.ShardpropError, match=match):
                    propagate_sharding(schema)
            else:
                assert shardprop.propagate(op, matrix, **tolerances).operands[0] == (R,)


def test_sizes_are_those_of_the_whole_where_something_is_cut(mesh_of: MeshOf) -> None:
    correction = _correction("sizes of the whole")
    op = aten.upsample_nearest1d_backward.grad_input
    for placement, expected in ((S(0), True), (R, False)):
        gradient = spec_of(mesh_of(2), (4, 2, 6), [placement])
        into = {"grad_input": spec_of(mesh_of(2), (4, 2, 3), [placement])}
        schema = torch_registry.op_schema(op, (gradient, [6], [4, 2, 3]), into)
        assert correction.concerns(schema) is expected
        with shardprop.enabled():
            if expected:
                with pytest.raises(shardprop.ShardpropError, match=r"S\(0\).*before"):
                    propagate_sharding(schema)
            else:
                assert shardprop.propagate(op, gradient, [6], [4, 2, 3], **into).outputs == ((R,),)


def test_every_correction_of_calls_is_tried() -> None:
    of_calls = {each.name for each in CORRECTIONS if isinstance(each, CallCorrection)}
    tried = {_correction(pair.name).name for pair in PAIRS}
    apart = {_correction(name).name for name in ("identity", "keyword", "sizes of the whole")}
    assert tried == of_calls - apart
    assert len({each.name for each in CORRECTIONS}) == len(CORRECTIONS)


def test_an_op_without_a_fault_has_none() -> None:
    assert corrections_of(aten.add.Tensor) == ()


# --- what the switch does -------------------------------------------------------------------------

needs_strategies = pytest.mark.skipif(
    _torch.IS_215_OR_LATER, reason="torch 2.15 lists rows for these ops itself"
)


def _scan(mesh_of: MeshOf, dim: int) -> shardprop.Decision:
    spec: DTensorSpec = spec_of(mesh_of(2), (8, 6), [S(1)])
    return shardprop.propagate(aten.cumsum.default, spec, dim)


@needs_strategies
def test_with_corrections_off_torch_decides_what_it_decides_wrongly(mesh_of: MeshOf) -> None:
    corrected = _scan(mesh_of, -1)
    assert corrected.outputs == ((R,),)
    assert corrected.route.correction is _correction("scan")
    assert "torch alone compares the dim" in corrected.route.why
    assert "shardprop gathers the dim first" in corrected.route.why
    with shardprop.enabled(corrections=False):
        exact = _scan(mesh_of, -1)
        assert exact.outputs == ((S(1),),)
        assert exact.route.who is Who.TORCH
        assert exact.route.why == (
            "torch decides: corrections are off (scan along a dim counted from the end)."
        )
        assert _scan(mesh_of, -2).route.who is Who.CORE
    assert _scan(mesh_of, -2).route.correction is None


def test_room_that_a_program_asks_for_keeps_its_layout(mesh_of: MeshOf) -> None:
    """A buffer of counts that are pending stays one on its way from the meta device."""

    class Counts(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            pending = DTensor.from_local(torch.zeros(6, device="meta"), mesh_of(2), [SUM])
            self.register_buffer("counts", pending)

    with shardprop.enabled():
        shardprop.reset_stats()
        counts = Counts().to_empty(device="cpu").counts
        assert isinstance(counts, DTensor) and counts.placements == (SUM,)
        # What torch's operators make is told apart by a cache that knows the call above.
        made = aten.empty_like.default(counts, memory_format=torch.preserve_format)
        assert made.placements == (R,)
        assert shardprop.stats().corrections == {"room that takes over what is pending": 1}
    with shardprop.enabled(corrections=False):
        made = aten.empty_like.default(counts, memory_format=torch.preserve_format)
        assert made.placements == (SUM,)


def _reduced(mesh_of: MeshOf, op: Any, *args: Any) -> shardprop.Decision:
    return shardprop.propagate(op, spec_of(mesh_of(2), (8, 6), [S(0)]), *args)


def test_an_empty_list_of_dims_names_all(mesh_of: MeshOf) -> None:
    """torch 2.15 has rows of its own, which are as wrong: a rule of ours is asked instead."""
    found = _reduced(mesh_of, aten.sum.dim_IntList, [], True)
    assert found.outputs == ((SUM,),)
    assert found.route.correction is _correction("reduction over")
    with shardprop.enabled(corrections=False):
        assert _reduced(mesh_of, aten.sum.dim_IntList, [], True).outputs == ((S(0),),)
    # It reduces no dim then.
    assert _reduced(mesh_of, aten.any.dims, []).outputs == ((S(0),),)


def test_a_fault_inside_of_a_decomposition_is_told(mesh_of: MeshOf) -> None:
    found = _reduced(mesh_of, aten.norm.ScalarOpt_dim, 2, [])
    assert found.outputs == ((NORM,),)
    assert found.route.correction is _correction("reduction over")
    with shardprop.enabled(corrections=False):
        assert _reduced(mesh_of, aten.norm.ScalarOpt_dim, 2, []).outputs == ((S(0),),)
    assert _reduced(mesh_of, aten.norm.ScalarOpt_dim, 2, [0]).route.correction is None


def test_an_op_that_writes_in_place_is_refused_where_no_right_strategy_is_left(
    mesh_of: MeshOf,
) -> None:
    """torch decides it, and wrongly: to leave it to torch is no way out."""
    schema = torch_registry.op_schema(
        aten.threshold_.default, (spec_of(mesh_of(2), (8, 6), [MAX]), 0.5, 2.0), {}
    )
    with shardprop.enabled():
        shardprop.reset_stats()
        for _ in range(2):  # again where it is known that it is refused
            with pytest.raises(shardprop.ShardpropError, match=r"(?s)threshold_.*P\(max\).*before"):
                propagate_sharding(schema)
        with pytest.raises(shardprop.ShardpropError, match=r"threshold_"):
            shardprop.propagate(schema.op, *schema.args_schema)
        assert shardprop.explain(schema.op, *schema.args_schema).decisions[0].error is not None
        assert shardprop.stats().fallbacks == {}
    with shardprop.enabled(corrections=False):
        assert shardprop.propagate(schema.op, *schema.args_schema).outputs == ((MAX,),)


@pytest.mark.parametrize("op", [aten._fused_adam_.default, aten._fused_adamw_.default], ids=str)
def test_an_optimizer_may_move_gradients_alone(mesh_of: MeshOf, op: Any) -> None:
    whole, cut, steps = (_given(mesh_of, each) for each in (x(R), x(S(0)), x(R, shape=())))
    settings = {"lr": 0.1, "beta1": 0.9, "beta2": 0.99, "weight_decay": 0.0, "eps": 1e-8}
    settings |= {"amsgrad": True, "maximize": False}

    def decided(cut_at: int) -> shardprop.Decision:
        """Where one of parameter, gradient, averages, those of squares, and the largest is cut."""
        lists = [[cut if at == cut_at else whole] for at in range(5)]
        return shardprop.propagate(op, *lists, [steps], **settings)

    with shardprop.enabled():
        for written in (0, 2, 3, 4):
            with pytest.raises(shardprop.ShardpropError, match="must keep"):
                decided(written)
        assert decided(1).operands == ((R,),) * 6


def test_a_view_of_other_elements_is_refused_and_its_neighbour_is_not(mesh_of: MeshOf) -> None:
    spec = spec_of(mesh_of(2), (6, 2), [SS(0, 3)])
    with shardprop.enabled():
        with pytest.raises(shardprop.ShardpropError, match=r"aten\.view.*_S\(0, 3\).*Replicate"):
            shardprop.propagate(aten.view.default, spec, [2, 6])
        explained = shardprop.explain(aten.view.default, spec, [2, 6]).decisions[0]
        assert explained.error is not None and "in other places" in explained.error
        assert shardprop.propagate(aten.view.default, spec, [3, 2, 2]).outputs == ((S(1),),)
    with shardprop.enabled(corrections=False):
        assert shardprop.propagate(aten.view.default, spec, [2, 6]).outputs == ((SS(1, 3),),)


def test_what_torch_refuses_as_well_has_torchs_words(mesh_of: MeshOf) -> None:
    spec = spec_of(mesh_of(2, 2), (8, 6), [MAX, SUM])
    schema = torch_registry.op_schema(aten.threshold_.default, (spec, 0.5, 2.0), {})
    with shardprop.enabled(), pytest.raises(RuntimeError, match="in-place operations that require"):
        propagate_sharding(schema)


def test_corrections_belong_to_policy_torch() -> None:
    with pytest.raises(shardprop.ShardpropError, match=r"corrections=False with policy 'torch'"):
        shardprop.enable(policy="optimal", topology="h100-nvlink", corrections=False)
    assert not shardprop.is_enabled()


TABLES = {
    aten.embedding.default: (x(S(0), S(0)), x(R, R, shape=(4, 6), dtype=INT)),
    aten.gather.default: (x(R, SUM, shape=(1, 4)), 1, x(R, R, shape=(1, 1), dtype=INT)),
}


@pytest.mark.parametrize("op", TABLES, ids=str)
def test_one_mesh_dim_masks_at_most(mesh_of: MeshOf, op: Any) -> None:
    args = tuple(_given(mesh_of, arg) for arg in TABLES[op])
    masks = {}
    for corrections in (True, False):
        with shardprop.enabled(corrections=corrections):
            (output,) = shardprop.propagate(op, *args).outputs
        masks[corrections] = sum(isinstance(p, _torch.MaskPartial) for p in output or ())
    assert masks == {True: 1, False: 2}


def test_a_fault_inside_a_decomposition_is_no_way_to_decide_it(mesh_of: MeshOf) -> None:
    """The tolerance is handed on by keyword, where torch does not move it: it is gathered before.
    torch itself refuses."""
    mesh = mesh_of(2)
    matrix, tolerance = spec_of(mesh, (4, 4), [R]), spec_of(mesh, (4, 4), [SUM])
    with shardprop.enabled():
        decision = shardprop.propagate(aten.linalg_pinv.rcond_tensor, matrix, tolerance, False)
    assert decision.operands == ((R,), (R,))
