"""The sizes for which a decision holds, through the binding, with the rules of real ops."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest
import torch
from torch._ops import OpOverload
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import Placement
from torch.distributed.tensor._dtensor_spec import DTensorSpec

from shardprop import _core
from shardprop.metadata import output_meta
from shardprop.model.question import Question
from shardprop.propagation.core_call import choose, prepare
from shardprop.propagation.route import route_of
from shardprop.rules import torch_registry
from shardprop.rules.rule import TorchRule

from ..narrow import known, rows_rule
from ..specs import SS, P, R, S, spec_of

aten = torch.ops.aten
MeshOf = Callable[..., DeviceMesh]
Arguments = tuple[Any, ...]


class Case(NamedTuple):
    """An op whose arguments have `now` tokens, or any other number of them."""

    op: OpOverload
    now: int
    arguments: Callable[[DeviceMesh, int], Arguments]


def mm(now: int, left: Sequence[Placement], right: Sequence[Placement]) -> Case:
    def arguments(mesh: DeviceMesh, tokens: int) -> Arguments:
        n = mesh.ndim
        return (spec_of(mesh, (tokens, 512), left[:n]), spec_of(mesh, (512, 256), right[:n]))

    return Case(aten.mm.default, now, arguments)


def bmm(now: int, left: Sequence[Placement], right: Sequence[Placement]) -> Case:
    def arguments(mesh: DeviceMesh, tokens: int) -> Arguments:
        n = mesh.ndim
        shapes = (16, tokens, 64), (16, 64, tokens)
        return tuple(
            spec_of(mesh, shape, p[:n]) for shape, p in zip(shapes, (left, right), strict=True)
        )

    return Case(aten.bmm.default, now, arguments)


def add(now: int, left: Sequence[Placement], right: Sequence[Placement]) -> Case:
    def arguments(mesh: DeviceMesh, tokens: int) -> Arguments:
        n, shape = mesh.ndim, (8, tokens, 64)
        return (spec_of(mesh, shape, left[:n]), spec_of(mesh, shape, right[:n]))

    return Case(aten.add.Tensor, now, arguments)


def add_bias(now: int, left: Sequence[Placement], right: Sequence[Placement]) -> Case:
    def arguments(mesh: DeviceMesh, tokens: int) -> Arguments:
        n = mesh.ndim
        return (spec_of(mesh, (tokens, 4096), left[:n]), spec_of(mesh, (4096,), right[:n]))

    return Case(aten.add.Tensor, now, arguments)


def layer_norm(now: int, held: Sequence[Placement], weight: Sequence[Placement]) -> Case:
    def arguments(mesh: DeviceMesh, tokens: int) -> Arguments:
        n = mesh.ndim
        scale = spec_of(mesh, (64,), weight[:n])
        return (spec_of(mesh, (8, tokens, 64), held[:n]), [64], scale, scale, 1e-5)

    return Case(aten.native_layer_norm.default, now, arguments)


def embedding(now: int, table: Sequence[Placement], tokens: Sequence[Placement]) -> Case:
    def arguments(mesh: DeviceMesh, count: int) -> Arguments:
        n = mesh.ndim
        ids = spec_of(mesh, (8, count), tokens[:n], dtype=torch.int64)
        return (spec_of(mesh, (1024, 64), table[:n]), ids)

    return Case(aten.embedding.default, now, arguments)


CASES = {
    "mm, nothing moves": mm(64, [S(0)] * 3, [R] * 3),
    "mm, few tokens": mm(64, [S(0)] * 3, [S(1)] * 3),
    "mm, many tokens": mm(4096, [S(0)] * 3, [S(0)] * 3),
    "mm, one token": mm(1, [R] * 3, [S(1)] * 3),
    "mm, one token to gather": mm(1, [S(0)] * 3, [S(0), P, S(1)]),
    "mm, partial": mm(1000, [P, S(1), P], [S(0), S(1), S(0)]),
    "bmm, batch": bmm(64, [S(0), R, R], [S(1), S(2), S(0)]),
    "bmm, level": bmm(100, [S(1), S(1), S(2)], [S(2), S(2), S(1)]),
    "add, level": add(96, [S(0), S(1), R], [S(1), S(0), P]),
    "add, partials": add(96, [P, P, S(1)], [S(0), P, S(1)]),
    "add, bias": add_bias(64, [S(0), S(1), S(0)], [S(0), P, R]),
    "layer_norm, tokens": layer_norm(128, [S(1), S(0), R], [R] * 3),
    "layer_norm, features": layer_norm(128, [S(2), S(2), S(1)], [R, S(0), R]),
    "embedding, vocabulary": embedding(128, [S(0), R, R], [R, S(0), S(1)]),
    "embedding, features": embedding(128, [S(1), S(1), R], [S(1), R, S(0)]),
}
MESHES = [(8,), (4, 8), (2, 3, 4)]


class Decisions:
    """What the core decides for any number of tokens, asked once for each."""

    def __init__(self, case: Case, mesh: DeviceMesh) -> None:
        self._case, self._mesh = case, mesh
        self._rule = rows_rule(case.op)
        self._known: dict[int, str] = {}
        self._schema = torch_registry.op_schema(case.op, case.arguments(mesh, case.now), {})
        self._meta = output_meta(self._schema)

    def question(self, tokens: int) -> Question:
        arguments = self._case.arguments(self._mesh, tokens)
        schema = torch_registry.op_schema(self._case.op, arguments, {})
        return self._rule.question(schema, self._meta)

    def operands(self, tokens: int) -> list[DTensorSpec]:
        return self.question(tokens).operands

    def of(self, tokens: int) -> str:
        """As text: the placements of a rule may be objects that equal only themselves."""
        if tokens not in self._known:
            choice = choose(self.question(tokens), self._rule)
            self._known[tokens] = f"{choice.operands} {choice.outputs}"
        return self._known[tokens]

    def region(self) -> _core.Region:
        region = _core.region(prepare(self.question(self._case.now), self._rule).problem)
        assert region is not None
        return region

    def turns(self, low: int, high: int) -> Iterator[int]:
        """Sizes whose decision is not that of one token less, as far as bisection finds them."""
        if self.of(low) == self.of(high) and high - low > 64:
            return
        if high - low == 1:
            yield high
        elif high - low > 1:
            middle = (low + high) // 2
            yield from self.turns(low, middle)
            yield from self.turns(middle, high)


def log_uniform(count: int) -> list[int]:
    draw = random.Random(20261122)
    return [int(2 ** draw.uniform(0, 20)) for _ in range(count)]


@pytest.mark.slow
@pytest.mark.parametrize("shape", MESHES, ids=lambda s: f"{len(s)}D")
@pytest.mark.parametrize("name", CASES)
def test_within_the_region_the_decision_is_the_same(
    name: str, shape: tuple[int, ...], mesh_of: MeshOf
) -> None:
    case = CASES[name]
    decisions = Decisions(case, mesh_of(*shape))
    region = decisions.region()
    assert region.contains(decisions.operands(case.now))
    powers = [1, *(2**i for i in range(1, 21))]
    ends = [t for low, high in pairwise(powers) for t in decisions.turns(low, high)]
    close = [max(end + step, 0) for end in ends for step in (-2, -1, 0, 1)]
    drawn = log_uniform(2000 if len(shape) < 3 else 500)
    contained = same = 0
    for tokens in [0, 1, 2, case.now, *close, *drawn]:
        within = region.contains(decisions.operands(tokens))
        is_same = decisions.of(tokens) == decisions.of(case.now)
        assert is_same or not within, f"{tokens} tokens"
        contained += within
        same += is_same
    assert contained > 0.9 * same


def rule_of_mm() -> Any:
    return route_of(aten.mm.default).rule


def mm_region(mesh: DeviceMesh) -> _core.Region:
    return Decisions(CASES["mm, few tokens"], mesh).region()


def test_what_is_no_int_of_the_same_dims_is_outside(mesh_of: MeshOf) -> None:
    mesh = mesh_of(8)
    x, w = spec_of(mesh, (64, 512), [S(0)]), spec_of(mesh, (512, 256), [S(1)])
    region = mm_region(mesh)
    assert region.contains([x, w])
    assert region.contains((x, w))
    assert not region.contains([x])
    assert not region.contains([x, w, w])
    assert not region.contains([spec_of(mesh, (64,), [S(0)]), w])
    assert not region.contains([DTensorSpec(mesh, (S(0),)), w])
    for size in (True, 64.0, 2**70, None):
        shape: Any = (size, 512)
        odd = known(x.tensor_meta)._replace(shape=shape)
        assert not region.contains([DTensorSpec(mesh, (S(0),), tensor_meta=odd), w])
    lazy: Any = iter([x, w])
    with pytest.raises(TypeError, match="list or tuple of specs"):
        region.contains(lazy)
    with pytest.raises(AttributeError):
        region.contains([x, "w"])
    assert 0 < region.nbytes < 4096


def test_what_depends_on_history_or_a_filter_has_no_region(mesh_of: MeshOf) -> None:
    mesh = mesh_of(4, 8)
    plain, rule = Decisions(CASES["mm, few tokens"], mesh).question(64), rule_of_mm()
    assert _core.region(prepare(plain, rule).problem) is not None
    strided = spec_of(mesh, (64, 512), [SS(0, 2), S(0)], strided_is_order=False)
    operands = [strided, plain.operands[1]]
    with_history = plain._replace(args=tuple(operands), operands=operands)
    assert _core.region(prepare(with_history, rule).problem) is None
    entry = SimpleNamespace(
        func=rule.entry.func,
        different_mesh_args=None,
        allow_uneven_sharding=False,
        allow_unbacked_sharding=None,
        full_mesh_strategy_filter=lambda *_: True,
    )
    assert _core.region(prepare(plain, TorchRule(torch.ops.aten.mm.default, entry)).problem) is None
