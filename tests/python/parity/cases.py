"""Draws random decision problems over every op of torch's registry and of its sample inputs.

`case_at` is the whole interface. What is drawn how often is in `Mix`. The same seed and index give
the same case on the same torch version.
"""

from __future__ import annotations

import functools
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace

from torch._ops import OpOverload

from .budget import estimate_ms
from .builders import Builder, builder_for
from .case import Case
from .dice import Dice
from .guide import Group, groups_of
from .layouts import Kind, Layout, Operand
from .meshes import MeshKey, draw_mesh
from .mix import DEFAULT, Mix, weighted
from .op_choice import family_of, largest_size, pick_op
from .placing import Placer, tied_operands
from .recorded import library
from .registry import Rule, find_op, rule_of
from .sketch import Problem, Sketch, map_leaves

# Where calls come from: our builders, torch's sample inputs, or both.
SAMPLES = ("mixed", "built", "opinfo")


@dataclass(frozen=True)
class Draw:
    """What to draw cases from; with `index`, it names one case."""

    seed: int
    samples: str = "mixed"
    layouts: int = 1  # cases per call: the same op, arguments and mesh, laid out anew
    rule: Rule | None = None  # ops that torch decides in this way only
    op: str | None = None  # one op only, as torch prints it


@dataclass(frozen=True)
class Call:
    """A call on a mesh, which may be laid out in many ways."""

    problem: Problem
    mesh: MeshKey
    groups: Sequence[Group]
    tied: set[int]
    samples: str
    budget: float  # milliseconds that torch may take


def case_at(draw: Draw, index: int) -> Case:
    """Case `index`, drawn from its own random source so that it can be replayed alone."""
    number, layout = divmod(index, draw.layouts)
    call, first = _call_at(draw, number)
    if layout:
        rng = random.Random(f"shardprop:{draw.seed}:{number}:{layout}")
        first = _lay_out_again(rng, call, DEFAULT)
    return replace(first, name=f"{draw.seed}:{index}")


def draw_op(rng: random.Random, op: OpOverload, mix: Mix = DEFAULT) -> Case:
    """A random case of the given op, made by its builder."""
    return _draw_call(rng, op, _builder(op), "built", mix)[1]


# Details ------------------------------------------------------------------------------------------


@functools.lru_cache(maxsize=4)  # all cases of a call are drawn one after the other
def _call_at(draw: Draw, number: int) -> tuple[Call, Case]:
    rng = random.Random(f"shardprop:{draw.seed}:{number}")
    samples = draw.samples
    if samples == "mixed":
        samples = "opinfo" if rng.random() < DEFAULT.opinfo else "built"
    if samples == "opinfo":
        op = find_op(draw.op) if draw.op else library().pick_op(rng, draw.rule)
        return _draw_call(rng, op, library().problem, samples, DEFAULT)
    op = find_op(draw.op) if draw.op else pick_op(rng, DEFAULT, draw.rule)
    return _draw_call(rng, op, _builder(op), samples, DEFAULT)


def _builder(op: OpOverload) -> Builder:
    builder = builder_for(op)
    if builder is None:
        raise NotImplementedError(f"no generator for {op}")
    return builder


def _draw_call(
    rng: random.Random, op: OpOverload, build: Builder, samples: str, mix: Mix
) -> tuple[Call, Case]:
    """A random call of the op, and a first case of it."""
    budget = weighted(rng, mix.budget_ms)
    if rule_of(op) is Rule.DECOMPOSITION:
        budget *= mix.decomposed_budget
    kind = weighted(rng, mix.kind)
    source = weighted(rng, mix.source)
    ndim = weighted(rng, mix.mesh_ndim)
    least = 2 if kind is Kind.ORDERED else 1  # an order takes two mesh dims
    ndim = max(ndim, least)
    while True:
        # Too dear for its budget: try again, then with one mesh dim less, at last as plain.
        for _ in range(4):
            mesh = draw_mesh(rng, ndim)
            problem = build(op, Dice(rng, mesh, largest_size(op)))
            groups = groups_of(problem)
            call = Call(problem, mesh, groups, tied_operands(problem, groups), samples, budget)
            layouts = _affordable(rng, call, kind, source)
            if layouts is not None:
                return call, _assemble(call, layouts, kind)
        if ndim > least:
            ndim -= 1
        elif kind is not Kind.PLAIN:
            kind = Kind.PLAIN
            least = 1
        else:
            budget *= 2


def _lay_out_again(rng: random.Random, call: Call, mix: Mix) -> Case:
    """Another case of a call."""
    kind = weighted(rng, mix.kind)
    source = weighted(rng, mix.source)
    tries = 0
    while True:
        layouts = _affordable(rng, call, kind, source)
        if layouts is not None:
            return _assemble(call, layouts, kind)
        tries += 1
        if tries == 4:
            kind = Kind.PLAIN
        elif tries > 8:
            call = replace(call, budget=2 * call.budget)


def _affordable(rng: random.Random, call: Call, kind: Kind, source: str) -> list[Layout] | None:
    """Layouts for the operands, None if torch would take too long to decide about them."""
    layouts = Placer(rng, call.mesh, call.problem, call.groups, call.tied, kind, source).draw()
    # What goes through torch's graph planner may take longer.
    budget = call.budget * (3 if kind in (Kind.ORDERED, Kind.STRIDED_VIEW) else 1)
    cost = estimate_ms(call.problem, call.groups, layouts, call.tied)
    return layouts if cost <= budget else None


def _assemble(call: Call, layouts: Sequence[Layout], kind: Kind) -> Case:
    remaining = iter(layouts)

    def place(sketch: Sketch) -> Operand:
        return Operand(sketch, next(remaining))

    problem = call.problem
    args = tuple(map_leaves(Sketch, place, arg) for arg in problem.args)
    kwargs = {name: map_leaves(Sketch, place, value) for name, value in problem.kwargs.items()}
    present = {layout.kind for layout in layouts}
    return Case(
        problem.op,
        args,
        kwargs,
        call.mesh,
        family_of(problem.op),
        kind if kind in present else Kind.PLAIN,
        call.samples,
    )
