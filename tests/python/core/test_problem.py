"""A problem is decoded once and asked any number of questions: none changes the next answer."""

from __future__ import annotations

import gc
import itertools
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor._dtensor_spec import DTensorSpec
from torch.fx.experimental.symbolic_shapes import ShapeEnv

from shardprop import _core
from shardprop.cost.topology import load_topology
from shardprop.metadata import output_meta
from shardprop.model.question import Question
from shardprop.propagation.core_call import Prepared, prepare
from shardprop.redistribution.mesh_cost_models import MeshModels
from shardprop.rules import torch_registry

from ..narrow import rows_rule
from ..specs import SS, P, R, S, spec_of

MeshOf = Callable[..., DeviceMesh]
aten = torch.ops.aten


def prepared(*operands: DTensorSpec) -> Prepared:
    """The problem of adding two tensors, or of multiplying two matrices if they do not fit."""
    x, y = operands
    op = aten.add.Tensor if x.shape == y.shape else aten.mm.default
    rule = rows_rule(op)
    schema = torch_registry.op_schema(op, operands, {})
    return prepare(rule.question(schema, output_meta(schema)), rule)


def problem_of(case: str, mesh: DeviceMesh) -> _core.Problem:
    cases: dict[str, tuple[Any, ...]] = {
        "mm": ((64, 512), [S(0), R], (512, 256), [S(1), S(0)]),
        "partials": ((64, 64), [P, S(0)], (64, 64), [S(1), P]),
        "history": ((64, 512), [SS(0, 2), S(0)], (512, 256), [S(1), S(1)]),
    }
    shape, placements, other_shape, other = cases[case]
    is_order = case != "history"
    x = spec_of(mesh, shape, placements, strided_is_order=is_order)
    return prepared(x, spec_of(mesh, other_shape, other)).problem


def questions(mesh: DeviceMesh, odd: DTensorSpec) -> dict[str, Callable[[_core.Problem], Any]]:
    """All that can be asked; answers as texts, for an array and a region have no equality."""
    model = MeshModels(load_topology("h100-nvlink"), create_groups=False).of(mesh)
    inside = spec_of(mesh, (64, 512), [R, R]), spec_of(mesh, (512, 256), [R, R])
    layouts = [[(R, R), (S(0), R), odd.placements]] * 2

    def region(problem: _core.Problem) -> str:
        found = _core.region(problem)
        return "none" if found is None else f"{found.contains(inside)} {found.nbytes}"

    def exactly(problem: _core.Problem) -> str:
        weighed = [((64, 256), 4, odd)]
        return str(_core.decide_exactly(model, 0.0, 1.0, weighed, problem))

    return {
        "decide": lambda problem: str(_core.decide(problem)),
        "rank": lambda problem: str(_core.rank(5, problem)),
        "region": region,
        "exactly": exactly,
        "strategies": lambda problem: str(_core.strategy_table([], layouts, problem)),
    }


@pytest.mark.parametrize("case", ["mm", "partials", "history"])
def test_no_question_changes_the_answer_to_another(case: str, mesh_of: MeshOf) -> None:
    mesh = mesh_of(2, 4)
    # With a reduce op that the problem has none of, which is decoded with the question.
    odd = spec_of(mesh, (64, 256), [torch.distributed.tensor.Partial("odd"), R])
    asked = questions(mesh, odd)

    def answer(name: str, problem: _core.Problem) -> str:
        try:
            return asked[name](problem)
        except _core.Unsupported as reason:
            return f"declined: {reason}"

    fresh = {name: answer(name, problem_of(case, mesh)) for name in asked}
    assert sum(text.startswith("declined") for text in fresh.values()) < len(fresh) - 2
    one = problem_of(case, mesh)
    for first, second in itertools.product(asked, repeat=2):
        assert answer(first, one) == fresh[first]
        assert answer(second, one) == fresh[second], f"{second} after {first}"


def test_a_symbolic_problem_is_decided_twice_alike(mesh_of: MeshOf) -> None:
    size = ShapeEnv().create_unbacked_symint()
    torch._check(size >= 8)
    x = spec_of(mesh_of(2, 2), (8, 8), [S(0), R])
    meta = x.tensor_meta
    assert meta is not None
    symbolic = spec_of(mesh_of(2, 2), (8, 8), [R, R])
    shape: Any = (size, 8)
    symbolic.tensor_meta = meta._replace(shape=torch.Size(shape))
    op = aten.neg.default
    rule = rows_rule(op)
    question = Question(op, op, (symbolic,), {}, [symbolic], 1, symbolic.tensor_meta, symbolic.mesh)
    problem = prepare(question, rule).problem
    assert _core.decide(problem) == _core.decide(problem)
    assert _core.region(problem) is None
    with pytest.raises(_core.Unsupported, match="symbolic shape"):
        _core.rank(1, problem)
    assert _core.decide(problem)[0] == 0


@pytest.mark.slow
def test_a_problem_outlives_what_it_was_made_of(mesh_of: MeshOf) -> None:
    mesh = mesh_of(2, 4)
    x, w = spec_of(mesh, (64, 512), [S(0), R]), spec_of(mesh, (512, 256), [S(1), S(0)])
    rule = rows_rule(aten.mm.default)
    schema = torch_registry.op_schema(aten.mm.default, (x, w), {})
    question = rule.question(schema, output_meta(schema))
    expected = _core.decide(prepare(question, rule).problem)
    problem = prepare(question, rule).problem
    specs = [weakref.ref(spec) for spec in (x, w)]
    del x, w, schema, question
    gc.collect()
    assert [ref() for ref in specs] == [None, None], "a problem holds no spec of plain sizes"
    assert _core.decide(problem) == expected
