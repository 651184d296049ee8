"""Ops without a rule: our rows are those torch finds by tracing, and so are the decisions."""

from __future__ import annotations

import contextlib
import itertools
import random
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Placement, distribute_tensor
from torch.distributed.tensor._decompositions import DecompShardingStrategy
from torch.distributed.tensor._dtensor_spec import DTensorSpec
from torch.distributed.tensor._op_schema import OpSchema
from torch.distributed.tensor._ops import utils
from torch.distributed.tensor.placement_types import _StridedShard

import shardprop
from shardprop import _torch
from shardprop.propagation.decomposition import Declined, decomposer
from shardprop.propagation.decomposition.options import operand_options
from shardprop.propagation.decomposition.trace import trace
from shardprop.propagation.propagator import counters, current_policy
from shardprop.propagation.route import decomposer as our_decomposer
from shardprop.propagation.timing import watch_propagation
from shardprop.rules import torch_registry

from ..decomposed_calls import CALLS, Call, T
from ..narrow import known
from ..parity.outcome import Normalizer, Outcome, error_outcome
from ..specs import SS, P, R, S, spec_of

MeshOf = Callable[..., DeviceMesh]
Row = list[Placement]

_PROPAGATOR = DTensor._op_dispatcher.sharding_propagator
_TORCH_PROPAGATE = type(_PROPAGATOR).propagate_op_sharding_non_cached


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    """Caches are fresh."""
    _forget()
    yield
    shardprop.disable()
    shardprop.clear_caches()


def _forget() -> None:
    shardprop.reset_stats()
    shardprop.clear_caches()
    _PROPAGATOR.propagate_op_sharding.cache_clear()


def has_no_rule(op: Any) -> bool:
    tables = (
        _PROPAGATOR.op_single_dim_strategy_funcs,
        _PROPAGATOR.op_strategy_funcs,
        _PROPAGATOR.op_to_rules,
    )
    return not any(op in table for table in tables)


WITHOUT_RULE = [call for call in CALLS if has_no_rule(call.op)]


def schema_of(call: Call, mesh: DeviceMesh, place: Callable[[T], Sequence[Placement]]) -> OpSchema:
    def spec(item: Any) -> Any:
        if isinstance(item, T):
            return spec_of(mesh, item.shape, place(item), dtype=item.dtype)
        if isinstance(item, list):
            return [spec(x) for x in item]
        return item

    args = tuple(spec(arg) for arg in call.args)
    kwargs = {name: spec(value) for name, value in call.kwargs.items()}
    return OpSchema(call.op, args, kwargs, schema_info=_PROPAGATOR.op_to_schema_info.get(call.op))


def _everywhere(placements: Sequence[Placement], _: T) -> Sequence[Placement]:
    return placements


def placer(rng: random.Random, mesh: DeviceMesh, kinds: str) -> Callable[[T], list[Placement]]:
    """Random placements of the given kinds: S shard, P partial, X strided shard; R besides."""

    def one(ndim: int) -> Placement:
        kind = rng.choice(kinds + "R")
        if kind == "P":
            return rng.choice([P, P, type(P)("avg"), type(P)("max")])
        if ndim == 0 or kind == "R":
            return R
        return (
            S(rng.randrange(ndim)) if kind == "S" else SS(rng.randrange(ndim), rng.choice([2, 4]))
        )

    return lambda tensor: [one(len(tensor.shape)) for _ in range(mesh.ndim)]


def torch_rows(schema: OpSchema, monkeypatch: pytest.MonkeyPatch) -> tuple[list[Row], int] | None:
    """The rows that torch expands to the full mesh, without the places of other arguments; None if
    it refuses."""
    expand = utils.expand_to_full_mesh_op_strategy
    seen: list[tuple[DeviceMesh, Any, int]] = []

    def spy(mesh: DeviceMesh, wrapped: OpSchema, rows: Any, **kwargs: Any) -> Any:
        try:
            return expand(mesh, wrapped, rows, **kwargs)
        except AssertionError:
            rows = None  # they do not fit the operands
            raise
        finally:
            if rows is not None:
                seen.append((mesh, rows, kwargs["input_index"]))

    with monkeypatch.context() as patch:
        patch.setattr(utils, "expand_to_full_mesh_op_strategy", spy)
        _PROPAGATOR.propagate_op_sharding.cache_clear()
        with contextlib.suppress(Exception):
            _PROPAGATOR.decomp_strategy.propagate_strategy(schema)
    mesh = _mesh(schema)
    found = [(rows, outputs) for on, rows, outputs in seen if on is mesh]
    if not found:
        return None
    rows, outputs = found[-1]
    return [row[:outputs] + [p for p in row[outputs:] if p is not None] for row in rows], outputs


def _mesh(schema: OpSchema) -> DeviceMesh:
    return next(spec.mesh for spec in schema.args_schema if isinstance(spec, DTensorSpec))


def decision(propagate: Callable[[OpSchema], Any], schema: OpSchema) -> Outcome:
    names = Normalizer()
    try:
        return names.sharding(propagate(schema), schema)
    except Exception as error:
        return error_outcome(error)


# The same as torch ------------------------------------------------------------------------------


def test_many_of_the_calls_have_no_rule() -> None:
    assert len(WITHOUT_RULE) > 60


@pytest.mark.slow
@pytest.mark.parametrize("call", WITHOUT_RULE, ids=lambda call: call.name)
@pytest.mark.parametrize("kinds", ["S", "SP", "SPX"])
def test_rows_are_those_torch_finds_in_the_same_order(
    call: Call, kinds: str, mesh_of: MeshOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    mesh = mesh_of(2, 4) if kinds == "SP" else mesh_of(4)
    schema = schema_of(call, mesh, placer(random.Random(f"{call.name}{kinds}"), mesh, kinds))
    expected = torch_rows(schema, monkeypatch)
    shardprop.enable(corrections=False)
    if expected is None:
        with pytest.raises(Declined):
            our_decomposer.rows(schema, current_policy())
        return
    rows = our_decomposer.rows(schema, current_policy())
    assert rows.outputs == expected[1]
    if call.op is torch.ops.aten.isreal.default:
        # torch drops these: its view_as_real puts them on another dim (see test_rules_sound.py).
        last = schema.args_spec[0].ndim - 1
        found = [r for r in rows.rows if not (isinstance(r[1], _StridedShard) and r[1].dim == last)]
        assert found == expected[0]
        return
    assert rows.rows == expected[0]


@pytest.mark.slow
@pytest.mark.parametrize("call", WITHOUT_RULE, ids=lambda call: call.name)
@pytest.mark.parametrize("sizes", [(4,), (3, 2)], ids=str)
def test_decisions_are_torchs(call: Call, sizes: tuple[int, ...], mesh_of: MeshOf) -> None:
    mesh = mesh_of(*sizes)
    rng = random.Random(f"{call.name}{sizes}")
    schema = schema_of(call, mesh, placer(rng, mesh, "SSP"))
    expected = decision(lambda schema: _TORCH_PROPAGATE(_PROPAGATOR, schema), schema)
    shardprop.enable(corrections=False)
    assert decision(_PROPAGATOR.propagate_op_sharding_non_cached, schema) == expected
    if expected.error is None:
        assert counters().delegated.get("decomposition", 0) == 0


@pytest.mark.parametrize("seed", range(30))
def test_options_are_torchs_in_the_order_of_its_sets(seed: int, mesh_of: MeshOf) -> None:
    rng = random.Random(seed)
    mesh = mesh_of(2, 2, 2)
    place = placer(rng, mesh, "SPX")
    shapes = [(4,) * rng.randrange(4) for _ in range(rng.randrange(1, 4))]
    specs = [spec_of(mesh, shape, place(T(shape))) for shape in shapes]
    schema = OpSchema(torch.ops.aten.mv.default, tuple(specs), {})
    expected = DecompShardingStrategy._get_candidate_placements(schema)
    assert list(itertools.product(*operand_options(specs))) == expected


def test_strided_operands_pass_or_fail_as_in_torch(
    mesh_of: MeshOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    """torch traces contiguous tensors but propagates the operands' own strides."""
    viewed = OpSchema(
        torch.ops.aten.dist.default,
        (spec_of(mesh_of(2), (8, 4), [S(0)]), spec_of(mesh_of(2), (8, 4), [S(0)])),
        {},
    )
    flat = OpSchema(torch.ops.aten.take.default, (viewed.args_schema[0], _indices(mesh_of(2))), {})
    for schema in (viewed, flat):
        spec = schema.args_schema[0]
        assert isinstance(spec, DTensorSpec)
        spec.tensor_meta = known(spec.tensor_meta)._replace(stride=(1, 8))
        expected = torch_rows(schema, monkeypatch)
        shardprop.enable(corrections=False)
        if expected is None:
            with pytest.raises(Declined, match="strided operands"):
                our_decomposer.rows(schema, current_policy())
        else:
            assert our_decomposer.rows(schema, current_policy()).rows == expected[0]


def _indices(mesh: DeviceMesh) -> DTensorSpec:
    return spec_of(mesh, (3,), [R], dtype=torch.int64)


@pytest.mark.parametrize("out", [[S(0)], [R], [P]], ids=str)
def test_out_arguments_are_left_out_of_the_key_as_in_torch(
    out: list[Placement], mesh_of: MeshOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    """torch's cache answers for every placement of `out` what it answered for the first."""
    mesh = mesh_of(4)
    specs = (spec_of(mesh, (8, 3), [S(0)]), spec_of(mesh, (8, 3), [S(1)]), 1)
    schema = OpSchema(torch.ops.aten.cross.out, specs, {"out": spec_of(mesh, (8, 3), out)})
    expected = torch_rows(schema, monkeypatch)
    shardprop.enable(corrections=False)
    assert expected is not None
    outs = {(tuple(row[1:3]), row[3]) for row in expected[0]}
    assert len({inputs for inputs, _ in outs}) < len(outs)
    try:
        assert our_decomposer.rows(schema, current_policy()).rows == expected[0]
    except Declined as declined:
        assert "all operands replicated" in str(declined)


# In a program -----------------------------------------------------------------------------------

PROGRAMS: dict[str, Callable[[torch.Tensor, torch.Tensor], object]] = {
    "smooth_l1": lambda x, y: F.smooth_l1_loss(x, y).backward(),
    "huber": lambda x, y: F.huber_loss(x, y, reduction="sum").backward(),
    "mse": lambda x, y: F.mse_loss(x, y).backward(),
    "glu": lambda x, y: F.glu(x, -1).sum().backward(),
    "elu": lambda x, y: F.elu(x).sum().backward(),
    "softplus": lambda x, y: F.softplus(x).sum().backward(),
    "addmv_": lambda x, y: x.detach()[:, 0].clone().addmv_(x.detach(), y[0]),
    "aminmax": lambda x, y: torch.aminmax(x.detach()),
    "det": lambda x, y: torch.linalg.det(x.detach()),
    "refused": lambda x, y: F.hardswish(x).sum().backward(),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("placements", [[S(0), S(1)], [R, P]], ids=str)
@pytest.mark.parametrize("mode", [contextlib.nullcontext, torch.inference_mode])
def test_a_program_is_decided_as_by_torch(
    name: str, placements: list[Placement], mode: Callable[[], Any], mesh_of: MeshOf
) -> None:
    """Inside a DTensor call decompositions run other ops: composite ones come whole."""

    def decisions() -> list[tuple[str, Outcome]]:
        seen: list[tuple[str, Outcome]] = []

        def record(schema: OpSchema, answer: Any, seconds: float) -> None:
            error = isinstance(answer, Exception)
            outcome = error_outcome(answer) if error else Normalizer().sharding(answer, schema)
            seen.append((str(schema.op), outcome))

        _forget()
        with mode():
            mesh = mesh_of(2, 2)
            x, y = (
                distribute_tensor(torch.rand(8, 8), mesh, places, src_data_rank=None)
                for places in (placements, placements[::-1])
            )
            if not torch.is_inference_mode_enabled():
                x.requires_grad_()
            with watch_propagation(record), contextlib.suppress(NotImplementedError, RuntimeError):
                PROGRAMS[name](x, y)
        return seen

    expected = decisions()
    with shardprop.enabled(corrections=False):
        assert decisions() == expected
    assert len(expected) > 0


def test_what_torch_refuses_is_answered_alike_in_every_process(
    mesh_of: MeshOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    """torch tries placements in the order of a set, which each process has its own of."""
    mesh = mesh_of(2, 2)
    matrix = spec_of(mesh, (1, 1), [R, P], dtype=torch.float64)
    outs = {name: spec_of(mesh, (), [R, R], dtype=torch.float64) for name in ("sign", "logabsdet")}
    schema = torch_registry.op_schema(torch.ops.aten.linalg_slogdet.out, (matrix,), outs)

    def answer(backwards: bool) -> object:
        def ordered(specs: Sequence[DTensorSpec]) -> list[list[Placement]]:
            return [sorted(each, key=str, reverse=backwards) for each in operand_options(specs)]

        monkeypatch.setattr(decomposer, "operand_options", ordered)
        shardprop.clear_caches()
        with shardprop.enabled(), _torch.as_dispatched():
            try:
                return _PROPAGATOR.propagate_op_sharding_non_cached(schema).output_spec
            except NotImplementedError as refusal:
                return str(refusal)

    assert answer(backwards=False) == answer(backwards=True)


# Asked once -------------------------------------------------------------------------------------


def test_a_decomposition_is_traced_once_for_all_placements(
    mesh_of: MeshOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    traced: list[object] = []

    def counted(*args: Any) -> Any:
        traced.append(args[0])
        return trace(*args)

    monkeypatch.setattr(decomposer, "trace", counted)
    shardprop.enable(corrections=False)
    call = next(call for call in CALLS if call.name == "smooth_l1_loss.default")
    for mesh, placements in ((mesh_of(4), [S(0)]), (mesh_of(2, 2), [S(1), P]), (mesh_of(4), [R])):
        schema = schema_of(call, mesh, partial(_everywhere, placements))
        _PROPAGATOR.propagate_op_sharding_non_cached(schema)
    assert len(traced) == 1


def test_arguments_that_are_equal_in_python_only_are_another_program(mesh_of: MeshOf) -> None:
    shardprop.enable(corrections=False)
    x = spec_of(mesh_of(4), (8, 4), [S(0)])
    found = []
    for beta in (1, 1.0, -0.0, 0.0):
        our_decomposer.rows(
            OpSchema(torch.ops.aten.smooth_l1_loss.default, (x, x, 1, beta), {}), current_policy()
        )
        found.append(len(our_decomposer._programs))
    assert found == [1, 2, 3, 4]
