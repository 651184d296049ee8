"""The scripts of findings: they fail for a wrong row, succeed for a right one, and are a page."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch.distributed.tensor import Partial, Placement, Replicate, Shard
from torch.distributed.tensor._ops._math_ops import _NormPartial
from torch.distributed.tensor.placement_types import _MaskPartial, _StridedShard

from shardprop.verification.calls.call import Call
from shardprop.verification.simulator.partials import Untestable
from shardprop.verification.simulator.ranks import split
from shardprop.verification.simulator.simulation import Row
from shardprop.verification.validate.repro import DEFINE_HERE, joined, script
from shardprop.verification.validate.shrink import Witness, ever_smaller, witness_of

from ...narrow import known

aten = torch.ops.aten
R, SUM, MAX, MIN = Replicate(), Partial("sum"), Partial("max"), Partial("min")
AVG, BXOR = Partial("avg"), Partial("bxor")
NORM = _NormPartial(2)
S = Shard


def strided(dim: int, factor: int) -> Placement:
    return _StridedShard(dim, split_factor=factor)


def numbers(*shape: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(7)
    return torch.randn(shape, dtype=torch.float64, generator=generator)


def shrunk(found: Witness, is_claimed: Callable[[Witness], bool] | None = None) -> Witness:
    *_, smallest = ever_smaller(found, is_claimed)
    return smallest


@dataclass
class Case:
    name: str
    call: Call
    rows: Sequence[Any]
    mesh: tuple[int, ...]
    holds: bool


def case(
    name: str, op: Any, args: tuple[Any, ...], rows: Any, mesh: Any, holds: bool, **kwargs: Any
) -> Case:
    return Case(name, Call(op, args, kwargs), rows, mesh, holds)


A, B = numbers(4, 6), numbers(4, 6)
INTS = torch.arange(24).reshape(4, 6) % 7
FLAGS = INTS > 3
BIG = numbers(40, 40)
CASES = [
    case("rows of mm", aten.mm.default, (A, B.t()), [([S(0)], [S(0), R])], (2,), True),
    case("inner dim of mm", aten.mm.default, (A, B.t()), [([SUM], [S(1), S(0)])], (3,), True),
    case("wrong dim of mm", aten.mm.default, (A, B.t()), [([S(1)], [S(0), R])], (2,), False),
    case("inner dim said whole", aten.mm.default, (A, B.t()), [([R], [S(1), S(0)])], (2,), False),
    case("product of sums", aten.mul.Tensor, (A, B), [([SUM], [SUM, SUM])], (2,), False),
    case("sum times whole", aten.mul.Tensor, (A, B), [([SUM], [SUM, R])], (2,), True),
    case("relu of a sum", aten.relu.default, (A,), [([SUM], [SUM])], (2,), False),
    case("relu of a max", aten.relu.default, (A,), [([MAX], [MAX])], (3,), True),
    case("minus a max", aten.neg.default, (A,), [([MIN], [MAX])], (2,), True),
    case("minus a max as max", aten.neg.default, (A,), [([MAX], [MAX])], (2,), False),
    case("average plus whole", aten.add.Tensor, (A, B), [([AVG], [AVG, R])], (2,), True),
    case("sum plus whole", aten.add.Tensor, (A, B), [([SUM], [SUM, R])], (2,), False),
    case(
        "strided shards", aten.relu.default, (A,), [([strided(0, 2)], [strided(0, 2)])], (2,), True
    ),
    case("strided as plain", aten.relu.default, (A,), [([S(0)], [strided(0, 2)])], (2,), False),
    case(
        "uneven strided", aten.abs.default, (A,), [([strided(1, 4)], [strided(1, 4)])], (3,), True
    ),
    case(
        *("two mesh dims", aten.mm.default, (A, B.t())),
        *([([S(0)], [S(0), R]), ([SUM], [S(1), S(0)])], (2, 2), True),
    ),
    case(
        *("two mesh dims, one wrong", aten.mm.default, (A, B.t())),
        *([([S(0)], [S(0), R]), ([R], [S(1), S(0)])], (2, 2), False),
    ),
    case("one dim twice", aten.abs.default, (A,), [([S(1)], [S(1)])] * 2, (2, 2), True),
    case("a list", aten.cat.default, ([A, B], 1), [([S(0)], [S(0), S(0)])], (2,), True),
    case(
        "a list along its dim", aten.cat.default, ([A, B], 0), [([S(0)], [S(0), S(0)])], (2,), False
    ),
    case("a list of outputs", aten.split.Tensor, (A, 2, 1), [([S(0)] * 3, [S(0)])], (2,), True),
    case("foreach", aten._foreach_mul_.Scalar, ([A, B], 2.0), [([], [SUM, SUM])], (2,), True),
    case("several outputs", aten.max.dim, (A, 1), [([S(0), S(0)], [S(0)])], (2,), True),
    case("several outputs of a max", aten.max.dim, (A, 1), [([MAX, R], [MAX])], (2,), False),
    case("an output left out", aten.max.dim, (A, 1), [([MAX, None], [MAX])], (2,), True),
    case("in place", aten.add_.Tensor, (A, B), [([S(1)], [S(1), S(1)])], (2,), True),
    case("in place, wrong", aten.mul_.Tensor, (A, B), [([SUM], [SUM, SUM])], (2,), False),
    case("size of a view", aten.view.default, (A, [4, 2, 3]), [([S(0)], [S(0)])], (2,), True),
    case("view to another dim", aten.view.default, (A, [6, 4]), [([S(1)], [S(1)])], (2,), False),
    case(
        *("nothing is returned", aten._foreach_add_.Scalar, ([A, B], 7.0)),
        *([([], [AVG, AVG])], (2,), True),
    ),
    case(
        *("nothing is returned, wrong", aten._foreach_add_.Scalar, ([A, B], 7.0)),
        *([([], [SUM, SUM])], (2,), False),
    ),
    case("size of a pending view", aten.view.default, (INTS, [24]), [([BXOR], [BXOR])], (2,), True),
    case("integers", aten.add.Tensor, (INTS, INTS), [([SUM], [SUM, SUM])], (3,), True),
    case(
        "products",
        aten.neg.default,
        (A,),
        [([Partial("product")], [Partial("product")])],
        (2,),
        False,
    ),
    case("and of flags", aten.logical_not.default, (FLAGS,), [([MIN], [MIN])], (2,), False),
    case("many elements", aten.mm.default, (BIG, BIG), [([SUM], [S(1), S(0)])], (2,), True),
    case(
        "a rank refuses",
        aten.index_select.default,
        (A, 0, torch.tensor([3])),
        [([R], [S(0), R])],
        (2,),
        False,
    ),
    case("out", aten.mul.out, (A, B), [([S(0)], [S(0), S(0), S(0)])], (2,), True, out=B.clone()),
]


def witness(case: Case) -> Witness:
    rows = [Row(tuple(outputs), tuple(inputs)) for outputs, inputs in case.rows]
    return witness_of(case.call, rows, case.mesh)


def elements(witness: Witness) -> int:
    return sum(tensor.numel() for tensor in witness.trial.operands)


def run(text: str) -> str:
    """What a script prints."""
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        exec(compile(text, "script", "exec"), {"__name__": "__main__"})
    return said.getvalue()


@pytest.mark.slow
@pytest.mark.parametrize("smallest", [False, True], ids=["as found", "smallest"])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_script_fails_exactly_for_wrong_rows(case: Case, smallest: bool) -> None:
    found = witness(case)
    assert (found.reason is None) is case.holds
    text = script(shrunk(found) if smallest else found)
    assert "import torch\n" in text and "shardprop." not in text
    if case.holds:
        run(text)
        return
    error = AssertionError if not known(found.reason).startswith("rank 0:") else IndexError
    with pytest.raises(error):
        run(text)


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_script_of_the_smallest_call_is_a_page(case: Case) -> None:
    found = witness(case)
    least = shrunk(found)
    assert elements(least) <= min(elements(found), 48)
    text = script(least)
    assert len(text.splitlines()) <= 48
    assert max(map(len, text.splitlines())) <= 140


def test_numbers_become_round_and_what_is_claimed_stays_so() -> None:
    found = witness(case("", aten.mul.Tensor, (A, B), [([SUM], [SUM, SUM])], (2,), False))
    least = shrunk(found)
    assert elements(least) == 2
    assert all(float(x).is_integer() for x in least.trial.operands)
    claimed = shrunk(found, lambda one: one.trial.operands[0].shape == (4, 6))
    assert elements(claimed) == elements(found)


def test_the_message_says_what_differs(capsys: pytest.CaptureFixture[str]) -> None:
    call = Call(aten.mul.Tensor, (torch.tensor([2.0]), torch.tensor([4.0])))
    halves = [torch.tensor([1.0]), torch.tensor([1.0])]
    twos = [torch.tensor([2.0]), torch.tensor([2.0])]
    rows = [Row((SUM,), (SUM, SUM))]
    with pytest.raises(AssertionError, match="difference: 4"):
        exec(script(witness_of(call, rows, (2,), local=[halves, twos])), {})
    assert capsys.readouterr().out == (
        "the ranks together: tensor([4.])\nthe whole: tensor([8.])\n"
    )


LAYOUTS = [
    *([one] for one in (R, SUM, AVG, MAX, MIN, Partial("product"), NORM, S(0), S(1))),
    *([one] for one in (strided(0, 2), strided(1, 3))),
    *([S(0), S(0)], [S(1), SUM], [SUM, S(0)], [R, S(1)], [S(0), R], [MAX, MAX], [S(0), S(1)]),
]


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
@pytest.mark.parametrize("values", [A.abs(), INTS, FLAGS], ids=["float64", "int64", "bool"])
def test_what_is_written_of_a_layout_is_the_whole(
    layout: list[Placement], values: torch.Tensor
) -> None:
    sizes = (2, 3)[: len(layout)]
    try:
        parts = split(values, layout, sizes, torch.Generator().manual_seed(0))
    except Untestable:
        assert not values.is_floating_point()
        return
    names = [f"parts[{rank}]" for rank in range(len(parts))]
    written = joined(names, layout, sizes, values.shape, values.dtype)
    replicas = [size for placement, size in zip(layout, sizes, strict=True) if placement == R]
    assert len(written) == (replicas[0] if replicas else 1)
    for text in written:
        torch.testing.assert_close(
            eval(text, {"torch": torch, "tensor": torch.tensor, "parts": parts}), values
        )


def test_a_rank_that_has_the_wrong_shape_is_told() -> None:
    """Together the ranks have the right elements here: 2 and 4 of 6."""
    found = witness(case("", aten.narrow.default, (A, 1, 0, 4), [([S(1)], [S(1)])], (2,), False))
    assert found.reason is not None
    with pytest.raises((AssertionError, RuntimeError)):
        run(script(found))


def test_what_torch_alone_does_not_tell_has_no_witness() -> None:
    masked = _MaskPartial(offset_shape=torch.Size((4, 6)), offset_dim=0)
    call = Call(aten.embedding.default, (A, torch.tensor([1, 0])))
    with pytest.raises(Untestable):
        witness_of(call, [Row((masked,), (S(0), R))], (2,))


def test_a_sum_of_flags_is_written_as_a_logical_or() -> None:
    found = witness_of(Call(aten.logical_not.default, (FLAGS,)), [Row((SUM,), (SUM,))], (2,))
    text = script(shrunk(found))
    assert "self_on[0] | self_on[1]" in text
    with pytest.raises(AssertionError):
        run(text)


@pytest.fixture
def library() -> Iterator[torch.library.Library]:
    with torch.library._scoped_library("shardprop_test", "FRAGMENT") as library:
        yield library


def test_what_has_no_literal_has_no_script(library: torch.library.Library) -> None:
    library.define("same(Tensor x, Generator? generator=None) -> Tensor")
    library.impl("same", lambda x, generator=None: x * 1, "CPU")
    op = torch.ops.shardprop_test.same.default
    rows = [Row((S(0),), (S(0),))]
    assert script(witness_of(Call(op, (A,)), rows, (2,))) != ""
    drawn = Call(op, (A,), {"generator": torch.Generator()})
    assert script(witness_of(drawn, rows, (2,))) == ""


def test_an_op_of_the_users_own_is_to_be_imported(library: torch.library.Library) -> None:
    library.define("twice(Tensor x) -> Tensor")
    library.impl("twice", lambda x: x * 2, "CPU")
    op = torch.ops.shardprop_test.twice.default
    text = script(witness_of(Call(op, (A,)), [Row((SUM,), (SUM,))], (2,)))
    assert DEFINE_HERE in text
    run(text)
