"""The scripts of findings: they fail for a wrong row and succeed for a right one."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch.distributed.tensor import Partial, Placement, Replicate, Shard
from torch.distributed.tensor.placement_types import _MaskPartial, _StridedShard

from shardprop.verification.validate.calls import Call
from shardprop.verification.validate.repro import DEFINE_HERE, script

aten = torch.ops.aten
R, SUM, MAX, MIN = Replicate(), Partial("sum"), Partial("max"), Partial("min")
AVG, BXOR = Partial("avg"), Partial("bxor")
S = Shard


def strided(dim: int, factor: int) -> Placement:
    return _StridedShard(dim, split_factor=factor)


def numbers(*shape: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(7)
    return torch.randn(shape, dtype=torch.float64, generator=generator)


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
    case("a list of outputs", aten.split.Tensor, (A, 2, 1), [([S(0)], [S(0)])], (2,), True),
    case(
        "foreach", aten._foreach_mul_.Scalar, ([A, B], 2.0), [([SUM, SUM], [SUM, SUM])], (2,), True
    ),
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


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_script_fails_exactly_for_wrong_rows(case: Case) -> None:
    text = script(case.call, case.rows, case.mesh)
    assert "import shardprop" not in text
    said = io.StringIO()
    with contextlib.redirect_stdout(said), pytest.raises(SystemExit) as ended:
        exec(compile(text, case.name, "exec"), {"__name__": "__main__"})
    assert ended.value.code == (0 if case.holds else 1), said.getvalue()


def test_the_message_says_what_differs() -> None:
    text = script(Call(aten.mul.Tensor, (A, B)), [([SUM], [SUM, SUM])], (2,))
    said = io.StringIO()
    with contextlib.redirect_stdout(said), pytest.raises(SystemExit):
        exec(text, {"__name__": "__main__"})
    assert said.getvalue().startswith("output 0: the values differ: ")


def test_the_layouts_are_torchs() -> None:
    from shardprop.verification.validate import standalone_check

    for size in range(8):
        whole = torch.arange(size * 2).reshape(2, size)
        for ranks in (2, 3):
            for factor in (1, 2, 3):
                want, _ = _StridedShard(1, split_factor=factor)._split_tensor(
                    whole, ranks, with_padding=False
                )
                got = standalone_check.pieces(whole, ("SS", 1, factor), ranks, torch.Generator())
                assert all(map(torch.equal, got, want))
            want, _ = Shard(1)._split_tensor(whole, ranks, with_padding=False)
            got = standalone_check.pieces(whole, ("S", 1), ranks, torch.Generator())
            assert all(map(torch.equal, got, want))


@pytest.mark.parametrize("reduce_op", ["sum", "avg", "product", "min", "max"])
@pytest.mark.parametrize("values", [A, INTS, A.float()], ids=["float64", "int64", "float32"])
def test_random_parts_make_the_whole(reduce_op: str, values: torch.Tensor) -> None:
    from shardprop.verification.validate import standalone_check

    generator = torch.Generator().manual_seed(0)
    parts = standalone_check.cut(values, [("P", reduce_op)], (3,), generator)
    assert (
        standalone_check.differs(
            values, standalone_check.put_together(parts, [("P", reduce_op)], (3,))
        )
        == ""
    )
    assert not any(torch.equal(part, values) for part in parts)


def test_what_has_no_literal_has_no_script() -> None:
    masked = _MaskPartial(offset_shape=torch.Size((4, 6)), offset_dim=0)
    call = Call(aten.embedding.default, (A, torch.tensor([1, 2])))
    assert script(call, [([masked], [S(0), R])], (2,)) == ""
    assert script(Call(aten.logical_not.default, (FLAGS,)), [([SUM], [SUM])], (2,)) == ""
    drawn = Call(aten.bernoulli.default, (A.abs(),), {"generator": torch.Generator()})
    assert script(drawn, [([S(0)], [S(0)])], (2,)) == ""


def test_an_op_of_the_users_own_is_to_be_imported() -> None:
    with torch.library._scoped_library("shardprop_test", "FRAGMENT") as library:
        library.define("twice(Tensor x) -> Tensor")
        library.impl("twice", lambda x: x * 2, "CPU")
        op = torch.ops.shardprop_test.twice.default
        text = script(Call(op, (A,)), [([SUM], [SUM])], (2,))
        assert DEFINE_HERE in text
        with pytest.raises(SystemExit) as ended:
            exec(text, {"__name__": "__main__"})
        assert ended.value.code == 0
