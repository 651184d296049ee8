"""Bad input gets an error that names the operator and the operand, and never a crash."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard
from torch.distributed.tensor._dtensor_spec import DTensorSpec
from torch.distributed.tensor._ops.single_dim_strategy import (
    _ShardingPlaceholder,
    register_single_dim_strategy,
)
from torch.distributed.tensor.placement_types import _MaskPartial

import shardprop
from shardprop import ShardpropError, _core
from shardprop.metadata.closed_forms import closed_form

from ..specs import SS, P, R, S, spec_of

aten = torch.ops.aten
MeshOf = Callable[..., DeviceMesh]


@contextmanager
def op_with_rows(rows: list[list[Any]]) -> Iterator[Any]:
    """An op of two tensors whose rule gives these rows."""
    with torch.library._scoped_library("shardprop_bad", "FRAGMENT") as library:
        library.define("join(Tensor x, Tensor y) -> Tensor")
        library.impl("join", lambda x, y: x + y, "CompositeExplicitAutograd")
        op = torch.ops.shardprop_bad.join.default
        register_single_dim_strategy(op)(lambda *_: [list(row) for row in rows])
        yield op
        DTensor._op_dispatcher.sharding_propagator.op_single_dim_strategy_funcs.pop(op)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        pytest.param(
            [[S(0), S(0)]], "row 0: Expected 1 outputs and 2 operands, got 2 placements", id="width"
        ),
        pytest.param(
            [[R, R, R], [S(0), S(0), _ShardingPlaceholder(2)]],
            "row 1, operand 1: Expected a sharding of one of the operand's 2 tensor dims, got "
            "tensor dim 2",
            id="tensor dim",
        ),
        pytest.param(
            [[R, Partial("median"), R]],
            "row 0, operand 0: Expected a reduce op that torch's Partial knows",
            id="reduce op",
        ),
        pytest.param([[R, None, R]], "row 0, operand 0: Expected a placement, got None", id="none"),
        pytest.param([[R, "R", R]], "object that is no placement", id="no placement"),
        pytest.param([[R, S(-1), R]], "shard dim that is negative", id="negative dim"),
    ],
)
def test_malformed_rows_name_operator_and_operand(
    mesh_of: MeshOf, rows: list[list[Any]], message: str
) -> None:
    x = spec_of(mesh_of(2), (4, 4), [S(0)])
    with op_with_rows(rows) as op, pytest.raises(ShardpropError) as caught:
        shardprop.propagate(op, x, x)
    assert "shardprop_bad.join.default" in str(caught.value)
    assert message in str(caught.value)


def test_an_operand_without_metadata_is_named(mesh_of: MeshOf) -> None:
    mesh = mesh_of(2)
    with pytest.raises(ShardpropError, match=r"aten.mm.default, operand 1: .* tensor metadata"):
        shardprop.propagate(
            aten.mm.default, spec_of(mesh, (4, 4), [R]), DTensorSpec(mesh, (Replicate(),))
        )


def test_too_few_placements_are_named(mesh_of: MeshOf) -> None:
    x = spec_of(mesh_of(2, 2), (4, 4), [R])
    with pytest.raises(
        ShardpropError, match=r"aten.relu.default, operand 0: Expected 2 placements"
    ):
        shardprop.propagate(aten.relu.default, x)


def test_mixed_meshes_are_refused(mesh_of: MeshOf) -> None:
    x, y = spec_of(mesh_of(2), (4, 4), [R]), spec_of(mesh_of(4), (4, 4), [R])
    with pytest.raises(ShardpropError, match=r"aten.mm.default: operands on different meshes"):
        shardprop.propagate(aten.mm.default, x, y)


def test_an_op_without_a_rule_says_who_decides_it(mesh_of: MeshOf) -> None:
    with pytest.raises(ShardpropError, match=r"aten.nonzero.default: .* decomposition and refuses"):
        shardprop.propagate(aten.nonzero.default, spec_of(mesh_of(2), (4, 4), [R]))


@pytest.mark.parametrize(
    ("op", "arguments", "text"),
    [
        (aten.index.Tensor, lambda x: (x, x), "indices: Expected a list of tensors, got one DTe"),
        (aten.mm.default, lambda x: (x, [x]), "mat2: Expected a tensor, got a list"),
        (aten.stack.default, lambda x: ([x, None],), "tensors: Expected tensors, got None among"),
        (aten.relu.default, lambda x: (x, x), "Expected at most 1 positional arguments, got 2"),
        (aten.mm.default, lambda x: (x,), "Expected the argument 'mat2', got none"),
    ],
    ids=["one for a list", "a list for one", "one left out", "too many", "too few"],
)
def test_arguments_that_are_none_for_the_op_are_named(
    op: Any, arguments: Callable[[Any], Any], text: str, mesh_of: MeshOf
) -> None:
    x = spec_of(mesh_of(2, 2), (4, 4), [S(0), R])
    for ask in (shardprop.propagate, shardprop.explain):
        with pytest.raises(ShardpropError, match=f"{op}.*{text}"):
            ask(op, *arguments(x))
    with pytest.raises(ShardpropError, match=f"{op}.*{text}"):
        shardprop.strategies(op, arguments(x), mesh=x.mesh)


def test_none_for_a_tensor_that_the_op_reads(mesh_of: MeshOf) -> None:
    x = spec_of(mesh_of(2, 2), (4, 4), [S(0), R])
    with pytest.raises(ShardpropError, match=r"aten.mm.default: Expected operands that fit toget"):
        shardprop.propagate(aten.mm.default, x, None)
    with pytest.raises(ShardpropError, match=r"aten.mm.default: Expected operands that fit toget"):
        shardprop.strategies(aten.mm.default, (x, None), mesh=x.mesh)


def test_no_spec_at_all_is_refused() -> None:
    with pytest.raises(ShardpropError, match=r"aten.relu.default: Expected a DTensorSpec"):
        shardprop.propagate(aten.relu.default)


def test_an_unreachable_layout_is_refused(mesh_of: MeshOf) -> None:
    mesh = mesh_of(2, 2)
    src = spec_of(mesh, (8, 8), [SS(0, 2), S(0)], strided_is_order=False)
    dst = spec_of(mesh, (8, 8), [_MaskPartial(offset_shape=(8,), offset_dim=0), R])
    with pytest.raises(ShardpropError, match="No plan from"):
        shardprop.plan(src, dst)


@pytest.mark.parametrize(
    ("sizes", "bandwidth", "latency", "coordinate"),
    [
        ([], [], [], []),
        ([0], [1.0], [1.0], [0]),
        ([2], [float("nan")], [1.0], [0]),
        ([2], [-1.0], [1.0], [0]),
        ([2], [1.0], [float("nan")], [0]),
        ([2] * 9, [1.0] * 9, [1.0] * 9, [0] * 9),
        ([2, 2], [1.0], [1.0], [0, 0]),
        ([2], [1.0], [1.0], [0, 0]),
        (["two"], [1.0], [1.0], [0]),
    ],
)
def test_impossible_meshes_are_refused(
    sizes: list[Any], bandwidth: list[float], latency: list[float], coordinate: list[int]
) -> None:
    with pytest.raises((ValueError, TypeError, IndexError, RuntimeError, _core.Unsupported)):
        _core.Mesh(sizes, bandwidth, latency, coordinate)


# --- fuzz -------------------------------------------------------------------------------------


class Hostile:
    """Answers every attribute with something else that is wrong."""

    def __init__(self, draw: Callable[[int], Any], depth: int) -> None:
        self._draw, self._left = draw, depth

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self._draw(self._left - 1)


class Fuzzer:
    """Random objects, near enough to the real ones to get past the first checks."""

    def __init__(self, seed: int, mesh: DeviceMesh) -> None:
        self._random = random.Random(seed)
        self._mesh = mesh

    def value(self, depth: int = 3) -> Any:
        pick = self._random.choice
        leaves: list[Callable[[], Any]] = [
            lambda: None,
            lambda: pick([-1, 0, 1, 2**31, 2**63, 2**80, -(2**63)]),
            lambda: pick([0.0, float("nan"), float("inf"), -1.5]),
            lambda: self._random.randbytes(self._random.randrange(12)),
            lambda: pick(["", "sum", "\x00\uffff"]),
            lambda: pick([Replicate(), Shard(0), Shard(3), Shard(-1), Partial(), Partial("odd")]),
            lambda: SS(pick([0, 1, 90]), pick([0, 1, 2, 2**40])),
            lambda: _ShardingPlaceholder(pick([0, 1, -4, 10**9])),
            lambda: self.spec(depth),
            lambda: self._mesh,
            lambda: object,
        ]
        if depth > 0:
            leaves += [
                lambda: [self.value(depth - 1) for _ in range(self._random.randrange(4))],
                lambda: tuple(self.value(depth - 1) for _ in range(self._random.randrange(4))),
                lambda: {self.value(0).__repr__(): self.value(depth - 1)},
                lambda: Hostile(self.value, depth),
            ]
        return pick(leaves)()

    def spec(self, depth: int) -> Any:
        orders = [(), ((0, (0,)),), ((0, (0, 1)),), ((0, (1, 0)),), ((0, (0, 1)), (1, (7,)))]
        wrong = self._random.random() < 0.3
        fields = {
            "mesh": self._mesh,
            "placements": tuple(self._random.choices([R, S(0), S(1), P, SS(0, 2)], k=2)),
            "shard_order": None,
            "use_strided_shard_as_shard_order": True,
            "tensor_meta": (torch.Size((8, 8)), (8, 1), torch.float32),
        }
        if self._random.random() < 0.5:
            fields["shard_order"] = self._random.choice(orders)
            fields["use_strided_shard_as_shard_order"] = False
        if wrong and depth > 0:
            fields[self._random.choice(list(fields))] = self.value(depth - 1)
        return SimpleNamespace(**fields)

    def rows(self, width: int) -> Any:
        cells = [R, R, S(0), S(1), P, _ShardingPlaceholder(0), _ShardingPlaceholder(1), SS(1, 2)]
        if self._random.random() < 0.2:
            cells += [None, self.value(1)]
        return [self._random.choices(cells, k=width) for _ in range(self._random.randrange(5))]

    def coordinates(self) -> Any:
        """Of ranks on a mesh of two dims; mostly."""
        one = [self._random.randrange(2), self._random.randrange(2)]
        return self._random.choice([[one], [one, [1, 1]], [], self.value(2)])

    def arguments(self, core_mesh: Any) -> tuple[Any, ...]:
        """For `_core.Problem`; each argument is wrong one time in thirty."""
        outputs, operands = self._random.randrange(3), self._random.randrange(1, 4)
        right = (
            core_mesh,
            self._mesh,
            self.rows(outputs + operands),
            outputs,
            [self.spec(2) for _ in range(operands)],
            operands,
            self._random.randrange(2 * max(_core.Option)),
            lambda: [0, 2],
            lambda: False,
            self._random.choice([None, None, None, [(0, self.spec(1))]]),
            self._random.choice([None, None, [True, False]]),
            self._random.choice([(), (), (0,), (7,)]),
            self._random.choice([None, lambda placements: self._random.random() < 0.5]),
            lambda: None,
            self._random.choice([None, lambda: [(8, 8)], lambda: self.value(2)]),
        )
        return tuple(self.value() if self._random.random() < 1 / 30 else a for a in right)


@pytest.mark.slow
def test_no_input_crashes_the_interpreter(mesh_of: MeshOf) -> None:
    mesh = mesh_of(2, 2)
    core_mesh = _core.Mesh([2, 2], [87.7, 87.7], [0.6, 0.6], [0, 0])
    fuzzer = Fuzzer(20261121, mesh)
    answered = refused = 0
    history = _core.History()
    for turn in range(20_000):
        calls: list[Callable[[], Any]] = [
            lambda: _core.decide(_core.Problem(*fuzzer.arguments(core_mesh))),
            lambda: _core.plan(core_mesh, fuzzer.spec(2), fuzzer.spec(2), fuzzer.value(0)),
            lambda: history.cost(core_mesh, fuzzer.spec(2), fuzzer.spec(2), False),
            lambda: _core.spec_key(fuzzer.value()),
            lambda: _core.set_order(fuzzer.value()),
            lambda: _core.rank(3, _core.Problem(*fuzzer.arguments(core_mesh))),
            lambda: _core.region(_core.Problem(*fuzzer.arguments(core_mesh))),
            lambda: _core.signature((fuzzer.value(), fuzzer.spec(2)), {"a": fuzzer.value()}),
            lambda: _core.signature(fuzzer.value(), fuzzer.value()),
            lambda: _core.group_alike([[fuzzer.value()], fuzzer.value()], fuzzer.value()),
            lambda: closed_form(aten.mm.default)(  # type: ignore[misc]
                (fuzzer.spec(2), fuzzer.value()), {"out_dtype": fuzzer.value()}
            ),
            lambda: _core.Mesh(*(fuzzer.value() for _ in range(4))),
            lambda: _core.plan_for_ranks(
                core_mesh, fuzzer.coordinates(), fuzzer.spec(2), fuzzer.spec(2), False
            ),
            lambda: _core.strategy_table(
                [], fuzzer.value(), _core.Problem(*fuzzer.arguments(core_mesh))
            ),
        ]
        try:
            calls[turn % len(calls)]()
            answered += 1
        except Exception:
            refused += 1
    assert answered > 1000, "the fuzzer must get past the first checks"
    assert refused > 1000
