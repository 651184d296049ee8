"""The generator of cases: what it reaches, that it repeats itself, that torch agrees with torch."""

from __future__ import annotations

import pytest
from torch.distributed.tensor import Partial

from .cases import Draw, case_at
from .coverage import ops_without_calls
from .layouts import Kind
from .op_choice import UNREACHABLE
from .oracle import torch_decide
from .registry import Form, single_dim_entries

pytestmark = pytest.mark.slow

# Of the cases of a parity run.
_SHARE = 0.15


def test_every_op_can_be_drawn_or_has_a_reason_why_not() -> None:
    assert set(ops_without_calls()) - set(UNREACHABLE) == set()


def test_the_registry_is_the_whole_of_torchs() -> None:
    assert len(single_dim_entries()) > 1_000


def test_a_case_is_drawn_the_same_way_again() -> None:
    assert [str(case_at(Draw(3), i)) for i in range(50)] == [
        str(case_at(Draw(3), i)) for i in range(50)
    ]


def test_torch_agrees_with_itself(parity_cases: int) -> None:
    """Fresh planner caches make torch's answer independent of what it decided before."""
    cases = [case_at(Draw(7), i) for i in range(int(_SHARE * parity_cases))]
    first = [torch_decide(case) for case in cases]
    again = [torch_decide(case) for case in reversed(cases)][::-1]
    differing = [case.name for case, a, b in zip(cases, first, again, strict=True) if a != b]
    assert differing == []


@pytest.fixture(scope="module")
def drawn() -> list[tuple[str, object]]:
    """Aspects of many cases, as (name, value) pairs."""
    aspects: list[tuple[str, object]] = []
    for i in range(1_500):
        case = case_at(Draw(11), i)
        aspects += [("kind", case.kind), ("form", case.form), ("ndim", case.mesh.ndim)]
        aspects += [("member", case.mesh.first_rank == 0), ("rolled", case.mesh.roll > 0)]
        for operand in case.operands():
            aspects.append(("empty", 0 in operand.sketch.shape))
            aspects += [("size", size) for size in operand.layout.mesh.sizes]
            aspects += [("placement", type(p).__name__) for p in operand.layout.placements]
            partials = [p for p in operand.layout.placements if isinstance(p, Partial)]
            aspects += [("reduce", p.reduce_op) for p in partials]
        meshes = {operand.layout.mesh for operand in case.operands()}
        aspects.append(("several meshes", len(meshes) > 1))
    return aspects


@pytest.mark.parametrize(
    ("aspect", "values"),
    [
        ("kind", set(Kind)),
        ("form", set(Form)),
        ("ndim", {1, 2, 3, 4}),
        ("size", {1, 2, 3, 4, 8}),
        ("member", {True, False}),
        ("rolled", {True, False}),
        ("empty", {True, False}),
        ("several meshes", {True, False}),
        ("placement", {"Replicate", "Shard", "Partial", "_StridedShard", "_MaskPartial"}),
        ("reduce", {"sum", "avg", "product", "min", "max", "band", "bor", "bxor"}),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_cases_cover(drawn: list[tuple[str, object]], aspect: str, values: set[object]) -> None:
    assert values - {value for name, value in drawn if name == aspect} == set()
