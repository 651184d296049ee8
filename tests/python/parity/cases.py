"""Draws random decision problems over every op of torch's registry.

`draw(rng)` is the whole interface; `coverage()` says which ops it cannot reach. What is drawn how
often is in `Mix`. The same rng state gives the same case on the same torch version.
"""

from __future__ import annotations

import random
from dataclasses import replace

from torch._ops import OpOverload

from .budget import estimate_ms
from .builders import builder_for
from .case import Case
from .dice import Dice
from .guide import groups_of
from .layouts import Kind, Layout, Operand
from .meshes import MeshKey, draw_mesh
from .mix import DEFAULT, Mix, weighted
from .op_choice import family_of, largest_size, pick_op
from .placing import Placer, tied_operands
from .registry import single_dim_entries
from .sketch import Problem, Sketch, map_leaves


def draw(rng: random.Random, mix: Mix = DEFAULT) -> Case:
    """A random case."""
    return draw_op(rng, pick_op(rng, mix), mix)


def case_at(seed: int, index: int, mix: Mix = DEFAULT, op: OpOverload | None = None) -> Case:
    """Case `index` of a seed, drawn from its own random source so that it can be replayed alone."""
    rng = random.Random(f"shardprop:{seed}:{index}")
    case = draw(rng, mix) if op is None else draw_op(rng, op, mix)
    return replace(case, name=f"{seed}:{index}")


def draw_op(rng: random.Random, op: OpOverload, mix: Mix = DEFAULT) -> Case:
    """A random case of the given op."""
    builder = builder_for(op)
    if builder is None:
        raise NotImplementedError(f"no generator for {op}")
    budget = weighted(rng, mix.budget_ms)
    kind = weighted(rng, mix.kind)
    if kind in (Kind.ORDERED, Kind.STRIDED_VIEW):
        budget *= 3  # these go through torch's graph planner
    ndim = weighted(rng, mix.mesh_ndim)
    least = 2 if kind is Kind.ORDERED else 1  # an order takes two mesh dims
    ndim = max(ndim, least)
    source = weighted(rng, mix.source)
    while True:
        # Too dear for its budget: try again, then with one mesh dim less, at last as plain.
        for _ in range(4):
            mesh = draw_mesh(rng, ndim)
            problem = builder(op, Dice(rng, mesh, largest_size(op)))
            groups = groups_of(problem)
            tied = tied_operands(problem, groups)
            layouts = Placer(rng, mesh, problem, groups, tied, kind, source).draw()
            if estimate_ms(problem, groups, layouts, tied) <= budget:
                return _assemble(problem, layouts, mesh, kind)
        if ndim > least:
            ndim -= 1
        elif kind is not Kind.PLAIN:
            kind = Kind.PLAIN
            least = 1
        else:
            budget *= 2


def coverage() -> dict[str, str]:
    """Ops of the single-dim registry that cannot be drawn, each with the reason."""
    missing: dict[str, str] = {}
    for entry in single_dim_entries():
        try:
            draw_op(random.Random(0), entry.op)
        except Exception as error:
            missing[str(entry.op)] = f"{type(error).__name__}: {error}"
    return missing


def _assemble(problem: Problem, layouts: list[Layout], mesh: MeshKey, kind: Kind) -> Case:
    remaining = iter(layouts)

    def place(sketch: Sketch) -> Operand:
        return Operand(sketch, next(remaining))

    args = tuple(map_leaves(Sketch, place, arg) for arg in problem.args)
    kwargs = {name: map_leaves(Sketch, place, value) for name, value in problem.kwargs.items()}
    present = {layout.kind for layout in layouts}
    return Case(
        problem.op,
        args,
        kwargs,
        mesh,
        family_of(problem.op),
        kind if kind in present else Kind.PLAIN,
    )
