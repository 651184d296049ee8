"""What runs nothing on the device costs nothing; all else costs a launch."""

from __future__ import annotations

import operator
from typing import Any

import pytest
import torch

from shardprop.cost.compute import ComputeCost, work_of
from shardprop.cost.compute.free import is_free

from .calls import aten, called, meta, work_in

COST = ComputeCost("h100-nvlink")
X = torch.randn(4, 1, 6)

VIEWS: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "view": (aten.view.default, (X, [2, 12])),
    "_unsafe_view": (aten._unsafe_view.default, (X, [2, 12])),
    "_reshape_alias": (aten._reshape_alias.default, (X, [4, 6], [6, 1])),
    "t": (aten.t.default, (X[:, 0],)),
    "transpose": (aten.transpose.int, (X, 0, 1)),
    "permute": (aten.permute.default, (X, [2, 0, 1])),
    "expand": (aten.expand.default, (X, [4, 5, 6])),
    "unsqueeze": (aten.unsqueeze.default, (X, 0)),
    "squeeze": (aten.squeeze.dim, (X, 1)),
    "select": (aten.select.int, (X, 0, 1)),
    "slice": (aten.slice.Tensor, (X, 2, 1, 3)),
    "split": (aten.split.Tensor, (X, 2, 2)),
    "split_with_sizes": (aten.split_with_sizes.default, (X, [2, 4], 2)),
    "unbind": (aten.unbind.int, (X, 2)),
    "detach": (aten.detach.default, (X,)),
    "alias": (aten.alias.default, (X,)),
    "as_strided": (aten.as_strided.default, (X, [3, 2], [2, 1])),
    "diagonal": (aten.diagonal.default, (X, 0, 0, 2)),
    "unfold": (aten.unfold.default, (X, 2, 2, 2)),
}


@pytest.mark.parametrize(("op", "args"), VIEWS.values(), ids=VIEWS)
def test_views_are_free_as_their_outputs_are_the_operands_memory(
    op: Any, args: tuple[Any, ...]
) -> None:
    outputs = op(*args)
    for output in outputs if isinstance(outputs, (list, tuple)) else [outputs]:
        assert output.untyped_storage().data_ptr() == X.untyped_storage().data_ptr()
    call = called(op, *args)
    assert work_in(call) == (0, 0, 0, None)
    assert COST.us(call.op, call.args, call.kwargs, call.outputs) == 0.0


@pytest.mark.parametrize(("op", "args"), VIEWS.values(), ids=VIEWS)
def test_views_say_so_in_their_schemas(op: Any, args: tuple[Any, ...]) -> None:
    infos = [argument.alias_info for argument in op._schema.arguments]
    aliased = [info for info in infos if info is not None]
    if op is aten._unsafe_view.default:  # which tells autograd that it is none
        assert not aliased
    else:
        assert aliased
        assert not any(info.is_write for info in aliased)


def test_picking_an_output_is_free() -> None:
    assert COST.us(operator.getitem, ([meta(4), meta(5)], 1), {}, meta(5)) == 0.0


@pytest.mark.parametrize(
    ("op", "args", "outputs"),
    [
        (aten.empty.memory_format, ([3, 4],), meta(3, 4)),
        (aten.empty_like.default, (meta(3, 4),), meta(3, 4)),
        (aten.new_empty.default, (meta(3, 4), [5]), meta(5)),
        (aten.sym_size.int, (meta(3, 4), 0), None),
    ],
    ids=["empty", "empty_like", "new_empty", "sym_size"],
)
def test_what_sets_memory_aside_or_reads_sizes_is_free(op: Any, args: Any, outputs: Any) -> None:
    assert COST.us(op, args, {}, outputs) == 0.0


@pytest.mark.parametrize(
    "op",
    [
        aten.add_.Tensor,  # its output is its operand, which it writes
        aten.clone.default,
        aten.zeros.default,
        aten.reshape.default,
        aten.contiguous.default,
        aten.slice_scatter.default,
        aten.detach_copy.default,
    ],
    ids=str,
)
def test_what_may_write_is_not_free_whatever_it_is_called_with(op: Any) -> None:
    assert not is_free(op)


def test_an_op_of_a_program_is_a_view_if_its_schema_says_so() -> None:
    with torch.library._scoped_library("shardprop_compute", "DEF") as library:
        library.define("peek(Tensor(a) x) -> Tensor(a)")
        library.define("double(Tensor x) -> Tensor")
        ops = torch.ops.shardprop_compute
        assert work_of(ops.peek.default, (meta(4),), {}, meta(4)) == (0, 0, 0, None)
        assert work_of(ops.double.default, (meta(4),), {}, meta(4)) == (1, 0, 32, None)
