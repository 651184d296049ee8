"""What is wrong with a registration, or with what a rule returns, in words that say what to do."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import Partial, Shard, distribute_tensor

import shardprop
from shardprop import ShardingPlaceholder as H
from shardprop import ShardpropError, _torch
from shardprop.model.operands import Operand
from shardprop.rules.row_check import check_rows

from ..custom_ops import elementwise, no_fake, ops, scale_into, step
from ..specs import R, S, meta_of, spec_of

MeshOf = Callable[..., DeviceMesh]
aten = torch.ops.aten


@pytest.fixture(autouse=True)
def rules() -> Iterator[None]:
    with shardprop.temporary_rules():
        yield


def refused(message: str) -> Any:
    return pytest.raises(ShardpropError, match=f"^{re.escape(message)}")


# --- what to register for ---------------------------------------------------------------------


def test_all_overloads_at_once_are_refused_with_their_names() -> None:
    message = (
        "Expected an op overload, got all overloads of shardprop_ops.mix. Name the ones that are "
        "meant, of these in torch.ops: "
    )
    with refused(message) as caught:
        shardprop.register_single_dim_rule(ops.mix)
    for name in ("mix.default", "mix.out", "mix.three"):
        assert f"shardprop_ops.{name}" in str(caught.value)


@pytest.mark.parametrize("item", [torch.add, "aten::add", None], ids=["function", "str", "None"])
def test_what_is_no_op_is_refused(item: Any) -> None:
    message = (
        "Expected an op overload such as torch.ops.aten.mm.default, what torch.library.custom_op "
        f"returned, or a list of these, got {item!r}."
    )
    with refused(message):
        shardprop.register_single_dim_rule(item)
    with refused(message):
        shardprop.unregister([step, item])


def test_an_empty_list_is_refused() -> None:
    with refused("Expected an op overload or a list of them, got an empty list."):
        shardprop.register_single_dim_rule([])


def test_what_is_no_function_is_refused() -> None:
    message = (
        "shardprop_ops.step.default: Expected a function (op, args, kwargs) that returns rows, got "
        "[[1]]. Write @shardprop.register_single_dim_rule(op) above the function."
    )
    with refused(message):
        shardprop.register_single_dim_rule(step)([[1]])  # type: ignore[arg-type]
    with refused(message):
        shardprop.register_single_dim_rule([step, ops.mix.default])([[1]])  # type: ignore[arg-type]


@pytest.mark.parametrize("op", [ops.unknown.default, no_fake], ids=["library", "custom_op"])
def test_an_op_without_a_fake_kernel_is_refused(op: Any) -> None:
    overload = getattr(op, "_opoverload", op)
    message = (
        f"{overload}: Expected an op with a fake kernel, got one without: shapes and dtypes of its "
        "outputs must be known before it runs. Register one with torch.library.register_fake("
        f"'{overload._schema.name}')."
    )
    with refused(message):
        shardprop.register_single_dim_rule(op)(elementwise())


@pytest.mark.parametrize("op", [aten.add.Tensor, aten.sgn.default, aten.dropout.default], ids=str)
def test_ops_of_torch_have_metadata(op: Any) -> None:
    shardprop.register_single_dim_rule(op, override=True)(elementwise())


def test_an_op_without_tensors_is_refused() -> None:
    with refused(
        "shardprop_ops.nothing.default: Expected an op that takes tensors, got "
        "shardprop_ops::nothing(int n) -> int."
    ):
        shardprop.register_single_dim_rule(ops.nothing.default)(elementwise())


@pytest.mark.parametrize(
    ("op", "why"),
    [
        (aten._local_scalar_dense.default, "it reads a number out"),
        (aten.is_same_size.default, "it hands it to torch.distributed.tensor"),
    ],
    ids=str,
)
def test_an_op_that_no_rule_is_asked_for_is_refused(op: Any, why: str) -> None:
    message = (
        f"{op}: Expected an op whose sharding torch asks for, got one for which its dispatcher "
        f"asks no rule ({why}"
    )
    with refused(message):
        shardprop.register_single_dim_rule(op, override=True)(elementwise())


@pytest.mark.skipif(_torch.IS_215_OR_LATER, reason="torch 2.15 places lists of outputs")
def test_an_op_that_returns_a_list_is_refused() -> None:
    message = (
        "shardprop_ops.chunks.default: Expected an op that returns tensors, got one that returns a "
        "list of them, which torch before 2.15 cannot place by rows. Return a tuple, or use torch "
        "2.15."
    )
    with refused(message):
        shardprop.register_single_dim_rule(ops.chunks.default)(elementwise())


@pytest.mark.parametrize("text", ["m k, k n", "m k -> m", "m k, k n, n -> m n"])
def test_a_notation_that_does_not_fit_is_refused_at_once(text: str) -> None:
    with pytest.raises(ShardpropError):
        shardprop.register_rule([ops.mix.default, step], text)
    shardprop.register_single_dim_rule([ops.mix.default, step])(elementwise())


# --- twice, or not at all ---------------------------------------------------------------------


def test_a_second_registration_names_the_place_of_the_first() -> None:
    shardprop.register_single_dim_rule(step)(elementwise())
    line = test_a_second_registration_names_the_place_of_the_first.__code__.co_firstlineno + 1
    message = (
        "shardprop_ops.step.default: Expected an op without a registered rule, got one that was "
        f"registered at {__file__}:{line}. Pass override=True to put the new rule in its place, or "
        "call shardprop.unregister first."
    )
    with refused(message):
        shardprop.register_single_dim_rule(step)(elementwise())


@pytest.mark.parametrize(
    ("op", "function"),
    [
        (aten.mm.default, "torch.distributed.tensor._ops._matrix_ops.mm_single_dim_strategy"),
        (aten.view.default, "torch.distributed.tensor._ops._view_ops."),
    ],
    ids=str,
)
def test_a_rule_of_torch_is_named(op: Any, function: str) -> None:
    message = f"{op}: Expected an op without a rule, got one that torch decides by {function}"
    with refused(message) as caught:
        shardprop.register_single_dim_rule(op)(elementwise())
    assert re.search(
        r"\(.*\.py:\d+\)\. Pass override=True to put the new rule in its place\.$",
        str(caught.value),
    )


def test_nothing_is_registered_where_one_op_of_a_list_cannot_be() -> None:
    with pytest.raises(ShardpropError, match=r"aten.mm.default"):
        shardprop.register_single_dim_rule([step, aten.mm.default])(elementwise())
    shardprop.register_single_dim_rule(step)(elementwise())


def test_what_is_not_registered_cannot_be_unregistered() -> None:
    text = "Expected an op with a rule registered by shardprop, got one without"
    with refused(f"shardprop_ops.step.default: {text}."):
        shardprop.unregister(step)
    with refused(f"aten.mm.default: {text} (torch decides it by torch.distributed.tensor."):
        shardprop.unregister(aten.mm.default)


def test_a_variant_is_unregistered_with_its_op() -> None:
    shardprop.register_single_dim_rule(ops.mix.default)(elementwise())
    with refused(
        "shardprop_ops.mix_.default: Expected an op with a rule of its own, got a variant of "
        f"shardprop_ops.mix.default, whose rule was registered at {__file__}"
    ) as caught:
        shardprop.unregister(ops.mix_.default)
    assert str(caught.value).endswith("Unregister that, or register it with variants=False.")


# --- what a rule returns ----------------------------------------------------------------------


class _Odd(_torch.ShardingPlaceholder):
    """A placeholder of torch's kind with a dim that torch does not check."""


WIDTH = "A row has a cell for each tensor that is given; an optional one that is not has none."
WHOLE = "A tensor that is whole on every rank is Replicate()."
DIMS = "Dims are counted from 0; take one given as -1 modulo len(meta.shape)."
CASES: list[tuple[str, Any, str]] = [
    (
        "no list",
        "rows",
        ": Expected a list of rows from its rule, got 'rows'. Return one list of placements per "
        "row: of the outputs, then of the operands.",
    ),
    ("none", None, ": Expected a list of rows from its rule, got None."),
    ("a long value", "r" * 200, f": Expected a list of rows from its rule, got '{'r' * 76}...."),
    ("no row", [[R, R, R], S(0)], ", row 1: Expected a list of placements, got Shard(dim=0)."),
    (
        "narrow",
        [[R, R]],
        f", row 0: Expected 1 outputs and 2 operands ('x', 'y'), got 2 placements. {WIDTH}",
    ),
    (
        "wide",
        [[R, R, R, R]],
        f", row 0: Expected 1 outputs and 2 operands ('x', 'y'), got 4 placements. {WIDTH}",
    ),
    (
        "wrong type",
        [[R, R, R], [R, S(0), "R"]],
        ", row 1, operand 1 ('y'): Expected a Placement or a ShardingPlaceholder, got 'R'. "
        + WHOLE,
    ),
    (
        "nan",
        [[float("nan"), R, R]],
        f", row 0, output 0: Expected a Placement or a ShardingPlaceholder, got nan. {WHOLE}",
    ),
    (
        "absent operand",
        [[R, None, R]],
        ", row 0, operand 0 ('x'): Expected a Placement or a ShardingPlaceholder, got None. "
        + WHOLE,
    ),
    (
        "absent output",
        [[None, R, R]],
        ", row 0, output 0: Expected a placement, got None, though the op returns this output. "
        "None is for an output that is absent.",
    ),
    (
        "placeholder",
        [[R, H(2), R]],
        ", row 0, operand 0 ('x'): Expected a sharding of a tensor dim of 0 to 1, the operand "
        f"having 2 tensor dims, got tensor dim 2. {DIMS}",
    ),
    (
        "negative",
        [[S(-1), R, R]],
        ", row 0, output 0: Expected a sharding of a tensor dim of 0 to 1, the output having 2 "
        f"tensor dims, got tensor dim -1. {DIMS}",
    ),
    (
        "odd dim",
        [[R, _Odd(0.5), R]],  # type: ignore[arg-type]
        ", row 0, operand 0 ('x'): Expected a tensor dim that is an int, got 0.5.",
    ),
    (
        "reduce op",
        [[Partial("median"), R, R]],
        ", row 0, output 0: Expected a Partial of one of sum, avg, product, min, max, band, bor, "
        "bxor, got ",
    ),
]


@pytest.mark.parametrize("through", ["propagate", "core", "strict core", "torch alone"])
@pytest.mark.parametrize(
    ("rows", "message"), [case[1:] for case in CASES], ids=[case[0] for case in CASES]
)
def test_malformed_rows_are_an_error_whoever_decides(
    mesh_of: MeshOf, rows: Any, message: str, through: str
) -> None:
    of_outputs = "returns this output" in message or "the output having" in message
    if through == "torch alone" and of_outputs:
        pytest.skip("torch does not show a rule the op's outputs")
    shardprop.register_single_dim_rule(step)(lambda *_: rows)
    message = f"shardprop_ops.step.default{message}"
    mesh = mesh_of(2)
    if through == "propagate":
        x = spec_of(mesh, (4, 4), [S(0)])
        with refused(message):
            shardprop.propagate(ops.step.default, x, x)
        return
    tensor = distribute_tensor(torch.randn(4, 4), mesh, [Shard(0)])
    if through != "torch alone":
        shardprop.enable(strict=through == "strict core")
    try:
        with pytest.raises(RuntimeError, match=f"^{re.escape(message)}") as caught:
            step(tensor, tensor)
        assert isinstance(caught.value.__cause__, ShardpropError)
    finally:
        shardprop.disable()


def test_strategies_refuse_malformed_rows_in_the_words_of_a_decision(mesh_of: MeshOf) -> None:
    shardprop.register_single_dim_rule(step)(lambda *_: [[S(0)]])
    spec = spec_of(mesh_of(4), (8, 8), [R])
    with pytest.raises(ShardpropError) as decided:
        shardprop.propagate(ops.step.default, spec, spec)
    with pytest.raises(ShardpropError) as listed:
        shardprop.strategies(ops.step.default, (meta_of((8, 8)), meta_of((8, 8))), mesh=mesh_of(4))
    assert str(decided.value).startswith("shardprop_ops.step.default, row 0: Expected 1 outputs")
    assert str(listed.value) == str(decided.value)


def test_operands_in_lists_and_keyword_operands_are_named(mesh_of: MeshOf) -> None:
    x = spec_of(mesh_of(2), (4, 4), [S(0)])
    shardprop.register_single_dim_rule(ops.join.default)(lambda *_: [[R, R, H(3), R]])
    with refused("shardprop_ops.join.default, row 0, operand 1 ('xs[1]'): "):
        shardprop.propagate(ops.join.default, [x, x], x, 0)
    shardprop.register_single_dim_rule(ops.keyed.default)(lambda *_: [[R, R, R, 1]])
    with refused("shardprop_ops.keyed.default, row 0, operand 2 ('a'): "):
        shardprop.propagate(ops.keyed.default, x, b=x, a=x)


def test_a_tensor_without_dims_cannot_be_cut(mesh_of: MeshOf) -> None:
    x = spec_of(mesh_of(2), (), [R])
    shardprop.register_single_dim_rule(step)(lambda *_: [[R, H(0), R]])
    message = (
        "shardprop_ops.step.default, row 0, operand 0 ('x'): Expected a sharding of a tensor dim "
        "of none, the operand having 0 tensor dims, got tensor dim 0."
    )
    with refused(message):
        shardprop.propagate(ops.step.default, x, x)


def test_rows_of_unknown_outputs_are_checked_as_far_as_known() -> None:
    check_rows(aten.mm.default, [[]], [], None)
    check_rows(aten.mm.default, [[S(7)]], [], None)
    with refused("aten.mm.default, row 0, output 0: Expected a sharding of a tensor dim of 0 or "):
        check_rows(aten.mm.default, [[S(-7)]], [], None)
    operand = Operand("x", "x", meta_of((4,)))
    with refused(
        "aten.mm.default, row 0: Expected its outputs and 1 operands ('x'), got 0 placements."
    ):
        check_rows(aten.mm.default, [[]], [operand], None)


def test_the_rows_that_variants_follow_from_are_checked(mesh_of: MeshOf) -> None:
    x = spec_of(mesh_of(2), (4, 4), [S(0)])
    shardprop.register_single_dim_rule(ops.mix.default)(lambda *_: [[R, R]])
    for op, kwargs in ((ops.mix_.default, {}), (ops.mix.out, {"out": x})):
        with refused("shardprop_ops.mix.default, row 0: Expected 1 outputs and 2 operands"):
            shardprop.propagate(op, x, x, **kwargs)


def test_what_a_rule_raises_says_which_rule(mesh_of: MeshOf) -> None:
    def rule(*_: Any) -> Any:
        raise KeyError("gone")

    shardprop.register_single_dim_rule(step)(rule)
    x = spec_of(mesh_of(2), (4, 4), [S(0)])
    note = f"In the sharding rule of shardprop_ops.step.default, registered at {__file__}:"
    if sys.version_info < (3, 11):
        with refused(f"shardprop_ops.step.default: KeyError('gone'). {note}"):
            shardprop.propagate(ops.step.default, x, x)
        return
    with pytest.raises(KeyError) as caught:
        shardprop.propagate(ops.step.default, x, x)
    assert caught.value.__notes__[0].startswith(note)


@pytest.mark.parametrize("strict", [True, False])
def test_operands_that_cannot_stay_are_named(mesh_of: MeshOf, strict: bool) -> None:
    shardprop.register_single_dim_rule(ops.mix.default)(lambda *_: [])
    shardprop.register_single_dim_rule(scale_into)(lambda *_: [])
    x = distribute_tensor(torch.randn(4, 4), mesh_of(2), [Shard(0)])
    message = (
        "shardprop_ops.{}.default: Expected operands that the op can work on where they are, got "
        "no row of its rule that leaves '{}' there. torch moves no keyword arguments, and no "
        "operand that is written into: redistribute before the call."
    )
    with shardprop.enabled(strict=strict):
        with pytest.raises(RuntimeError, match=re.escape(message.format("mix", "w"))):
            ops.mix(x, x, w=x)
        with pytest.raises(RuntimeError, match=re.escape(message.format("scale_into", "y"))):
            scale_into(x, x)
        with pytest.raises(RuntimeError, match=re.escape(message.format("mix_", "x"))):
            ops.mix_(x, x)
