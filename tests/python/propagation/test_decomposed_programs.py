"""What a decomposition may do: write in place, hand an operand back, call another decomposition."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
import torch
from torch.distributed._local_tensor import LocalTensorMode
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Placement, Shard, distribute_tensor
from torch.distributed.tensor._ops.single_dim_strategy import register_single_dim_strategy
from torch.library import Library
from torch.nn.functional import hardswish

import shardprop
from shardprop.propagation.decomposition import Declined
from shardprop.propagation.decomposition import decomposer as decomposer_module
from shardprop.propagation.decomposition.lookup import RowTable
from shardprop.propagation.propagator import current_policy
from shardprop.propagation.route import decomposer
from shardprop.support.cache import BoundedMap

from ..decomposed_calls import ONLY_REPLICATED, WITH_FACTORIES, Call, T
from ..narrow import per_rank, sharded
from ..ranks import holds
from ..specs import P, R, S, spec_of
from .test_decomposition import schema_of, torch_rows

MeshOf = Callable[..., DeviceMesh]
aten = torch.ops.aten


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    shardprop.clear_caches()
    DTensor._op_dispatcher.sharding_propagator.propagate_op_sharding.cache_clear()
    yield
    shardprop.disable()
    shardprop.clear_caches()


_numbers = itertools.count()


@pytest.fixture
def composite() -> Iterator[Callable[..., Any]]:
    """Makes an op of a Python function, which is its decomposition."""
    library = Library("shardprop_decomposed", "FRAGMENT")

    def make(function: Callable[..., Any], signature: str = "(Tensor x) -> Tensor") -> Any:
        name = f"op{next(_numbers)}"
        library.define(f"{name}{signature}")
        library.impl(name, function, "CompositeImplicitAutograd")
        return getattr(torch.ops.shardprop_decomposed, name).default

    yield make
    library._destroy()


def _schema(
    op: Any, mesh: DeviceMesh, *operands: tuple[tuple[int, ...], Sequence[Placement]]
) -> Any:
    from torch.distributed.tensor._op_schema import OpSchema

    return OpSchema(op, tuple(spec_of(mesh, shape, places) for shape, places in operands), {})


X = ((8, 4), [S(0)])
Y = ((8, 4), [S(1)])


def _in_place(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    z = x.exp()
    z.add_(y)
    return z.neg()


def _writes_operand(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return x.mul_(y).sum(0)


def _through_view(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    z = x.clone()
    z.t().mul_(y.t())
    return z


def _gives_back(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    y.exp()
    return x


def _leaves_unused(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return x.exp()


def _calls_decomposed(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    with torch.inference_mode(False):
        return aten.smooth_l1_loss.default(x.relu(), y, 2)


def _reduces(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return (x * 2).sum(0) + y.sum(0)


@pytest.mark.slow
@pytest.mark.parametrize(
    "function",
    [
        _in_place,
        _writes_operand,
        _through_view,
        _gives_back,
        _leaves_unused,
        _calls_decomposed,
        _reduces,
    ],
    ids=lambda function: function.__name__.lstrip("_"),
)
@pytest.mark.parametrize("second", [S(1), P, R], ids=str)
def test_rows_are_torchs(
    function: Callable[..., Any],
    second: Placement,
    composite: Callable[..., Any],
    mesh_of: MeshOf,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    op = composite(function, "(Tensor(a!) x, Tensor y) -> Tensor")
    schema = _schema(op, mesh_of(4), X, ((8, 4), [second]))
    expected = torch_rows(schema, monkeypatch)
    shardprop.enable(corrections=False)
    assert expected is not None
    assert decomposer.rows(schema, current_policy()).rows == expected[0]


def test_several_outputs_some_of_them_absent(
    composite: Callable[..., Any], mesh_of: MeshOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    op = composite(lambda x: (x.exp(), x.sum(0)), "(Tensor x) -> (Tensor, Tensor)")
    schema = _schema(op, mesh_of(2, 2), ((8, 4), [S(0), S(1)]))
    expected = torch_rows(schema, monkeypatch)
    shardprop.enable(corrections=False)
    rows = decomposer.rows(schema, current_policy())
    assert (rows.rows, rows.outputs) == expected
    assert rows.outputs == 2


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (lambda x: x + 1 if x.sum() > 0 else x - 1, "cannot be traced"),
        (lambda x: x[x > 0], "cannot be traced"),
        (lambda x: x + torch.rand(4), "rand.default without a tensor"),
        (lambda x: x + torch.arange(4), "arange.default without a tensor"),
        (lambda x: x + torch.tensor(1.0), "without a tensor|no op gave"),
    ],
    ids=["branches_on_data", "shape_from_data", "random_factory", "factory", "constant"],
)
def test_what_torch_refuses_is_left_to_torch(
    function: Callable[..., Any],
    reason: str,
    composite: Callable[..., Any],
    mesh_of: MeshOf,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    schema = _schema(composite(function), mesh_of(4), X)
    assert torch_rows(schema, monkeypatch) is None
    shardprop.enable(corrections=False)
    with pytest.raises(Declined, match=reason):
        decomposer.rows(schema, current_policy())


def test_a_rule_registered_later_counts(composite: Callable[..., Any], mesh_of: MeshOf) -> None:
    library = Library("shardprop_decomposed", "FRAGMENT")
    library.define("inside(Tensor x) -> Tensor")
    library.impl("inside", lambda x: x.clone(), "CompositeExplicitAutograd")
    inside = torch.ops.shardprop_decomposed.inside.default
    schema = _schema(composite(lambda x: inside(x)), mesh_of(4), X)
    shardprop.enable(corrections=False)
    propagator = DTensor._op_dispatcher.sharding_propagator
    try:
        register_single_dim_strategy(inside)(lambda op, args, kwargs: [])
        assert decomposer.rows(schema, current_policy()).rows == [[R, R]]
        propagator.op_single_dim_strategy_funcs.pop(inside)
        register_single_dim_strategy(inside)(lambda op, args, kwargs: [[S(0), S(0)]])
        assert sorted(map(str, decomposer.rows(schema, current_policy()).rows)) == sorted(
            map(str, [[S(0), S(0)], [R, R]])
        )
    finally:
        propagator.op_single_dim_strategy_funcs.pop(inside, None)
        library._destroy()


def test_the_look_into_the_rows_leaves_nothing_to_the_engine(
    mesh_of: MeshOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the table switched off, the engine answers the same."""
    shardprop.enable(corrections=False)
    schema = _schema(aten.smooth_l1_loss.default, mesh_of(2, 2), ((8, 4), [S(0), P]), X2)
    by_table = decomposer.rows(schema, current_policy()).rows
    shardprop.clear_caches()
    monkeypatch.setattr(RowTable, "knows", lambda self, inputs: False)
    assert decomposer.rows(schema, current_policy()).rows == by_table
    assert len(by_table) > 1


X2 = ((8, 4), [S(1), R])


def test_a_bounded_map_forgets_what_was_not_used_for_longest() -> None:
    held: BoundedMap[int] = BoundedMap("two numbers", 2)
    held.put("a", 1)
    held.put("b", 2)
    assert held.get("a") == 1
    held.put("c", 3)
    assert [held.get(key) for key in "abc"] == [1, None, 3]
    assert len(held) == 2


# What is planned beyond torch ------------------------------------------------------------------


def _pick(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Takes as many rows of y as x has."""
    return y.index_select(0, torch.arange(x.size(0), device=x.device))


def _scaled(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """A sum scaled by a tensor that holds a size."""
    return x.sum(0) * torch.full((), float(x.size(0)), device=x.device) + y.sum(0)


def _average(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return (x * y * torch.scalar_tensor(2.0, device=x.device)).mean()


def _clamped_size(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Depends on x's size only where that is small."""
    size = min(x.size(0), 2)
    return x.sum(0) * torch.full((), float(size), device=x.device) + y.sum(0)


@pytest.mark.parametrize(
    ("function", "wrong", "ranks"),
    [
        (_pick, (S(0), R), 4),
        (_scaled, (S(0), S(0)), 4),
        (_average, (S(0), S(0)), 3),  # 8 rows on 3 ranks
        (_clamped_size, (S(0), S(0)), 8),
    ],
    ids=["pick", "scaled", "average", "clamped_size"],
)
def test_rows_that_a_factory_makes_wrong_are_dropped(
    function: Callable[..., Any],
    wrong: tuple[Placement, ...],
    ranks: int,
    composite: Callable[..., Any],
    mesh_of: MeshOf,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    op = composite(function, "(Tensor x, Tensor y) -> Tensor")
    schema = _schema(op, mesh_of(ranks), X, ((8, 4), [S(0)]))
    shardprop.enable()
    with monkeypatch.context() as patch:
        patch.setattr(decomposer_module, "runs_alike", lambda *args: True)
        assert wrong in {tuple(row[1:]) for row in decomposer.rows(schema, current_policy()).rows}
    shardprop.clear_caches()
    rows = decomposer.rows(schema, current_policy())
    assert rows.refused_by_torch
    assert [R, R, R] in rows.rows
    assert wrong not in {tuple(row[1:]) for row in rows.rows}
    for row in rows.rows:
        if any(isinstance(p, Shard) and (8, 4)[p.dim] % ranks for p in row[1:]):
            continue
        operands = [torch.rand(8, 4), torch.rand(8, 4)]
        assert holds(lambda local: [op(*local)], operands, row[1:], row[:1], ranks), row


@pytest.mark.parametrize("call", WITH_FACTORIES, ids=lambda call: call.name)
def test_rows_of_ops_that_torch_refuses_are_right(call: Call, mesh_of: MeshOf) -> None:
    """Every row, on 2 and 4 ranks, against the op on whole tensors."""
    shardprop.enable()
    schema = schema_of(call, mesh_of(4), lambda tensor: [S(0) if tensor.shape else P])
    rows = decomposer.rows(schema, current_policy())
    assert rows.refused_by_torch
    shapes = [arg for arg in call.args if isinstance(arg, T)]

    def run(local: list[torch.Tensor]) -> list[torch.Tensor]:
        rest = iter(local)
        made = call.op(*[next(rest) if isinstance(a, T) else a for a in call.args], **call.kwargs)
        return [made] if isinstance(made, torch.Tensor) else list(made)

    checked = 0
    for row, ranks in itertools.product(rows.rows, (2, 4)):
        inputs, outputs = row[rows.outputs :], row[: rows.outputs]
        if any(
            isinstance(p, Shard) and x.shape[p.dim] % ranks
            for p, x in zip(inputs, shapes, strict=True)
        ):
            continue
        operands = [
            torch.rand(x.shape) if x.dtype.is_floating_point else torch.randint(0, 2, x.shape)
            for x in shapes
        ]
        assert holds(run, operands, inputs, outputs, ranks), row
        checked += any(not p.is_replicate() for p in inputs)
    assert (checked > 0) == (call not in ONLY_REPLICATED)


def test_a_gradient_that_torch_refuses_is_right_when_planned(mesh_of: MeshOf) -> None:
    x = torch.linspace(-4, 4, 32).reshape(8, 4)
    expected = torch.autograd.functional.jacobian(lambda v: hardswish(v).sum(), x)

    def gradient() -> list[torch.Tensor]:
        with LocalTensorMode(4):
            placed = distribute_tensor(x.clone(), mesh_of(4), [S(0)]).requires_grad_()
            hardswish(placed).sum().backward()
            assert placed.grad is not None
            return list(per_rank(sharded(placed.grad).full_tensor())._local_tensors.values())

    with (
        shardprop.enabled(corrections=False),
        pytest.raises(NotImplementedError, match="hardswish_backward"),
    ):
        gradient()
    with shardprop.enabled():
        assert all(torch.allclose(local, expected) for local in gradient())


def test_a_random_op_beside_a_factory_is_refused(
    composite: Callable[..., Any], mesh_of: MeshOf
) -> None:
    op = composite(lambda x: x * torch.ones(4, device=x.device).bernoulli())
    shardprop.enable()
    with pytest.raises(Declined):
        decomposer.rows(_schema(op, mesh_of(4), X), current_policy())


def test_a_factory_in_a_decomposition_inside_counts(
    composite: Callable[..., Any], mesh_of: MeshOf
) -> None:
    """The outer rows are checked too: the outer op hands a size to the inner one."""
    inner = composite(
        lambda x, n: x * torch.full((), float(n), device=x.device), "(Tensor x, int n) -> Tensor"
    )
    outer = composite(lambda x: inner(x, x.size(0)).sum(0))
    shardprop.enable()
    with torch.inference_mode():
        rows = decomposer.rows(_schema(outer, mesh_of(4), X), current_policy())
    assert rows.refused_by_torch
    assert sorted(map(str, rows.rows)) == sorted(map(str, [[S(0), S(1)], [R, R]]))
