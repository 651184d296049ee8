"""What a rule reads of sizes is written down: all that torch's symbolic sizes would guard."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import pytest
import torch
from torch.distributed.tensor._dtensor_spec import DTensorSpec, TensorMeta

from shardprop.metadata import output_meta
from shardprop.propagation.core_call import Arguments
from shardprop.propagation.size_probe import Reads, watched
from shardprop.rules import torch_registry
from shardprop.rules.rule import rule_of_entry

from ..narrow import known, rows_rule
from ..parity.cases import draw_op
from ..parity.mix import DEFAULT
from ..parity.op_choice import pick_op
from ..parity.registry import Rule
from ..specs import meta_of
from ..symbolic import Symbols

aten = torch.ops.aten
CASES = 300
OTHER_SIZES = (0, 1, 1, 2, 3, 4, 5, 8, 16, 64, 100)


def metas(values: Any) -> Iterator[TensorMeta]:
    if isinstance(values, TensorMeta):
        yield values
    elif isinstance(values, (tuple, list)):
        for value in values:
            yield from metas(value)


def with_shapes(item: Any, shapes: Iterator[Sequence[Any]]) -> Any:
    """Arguments as a rule sees them, with other sizes (and contiguous strides)."""
    if isinstance(item, TensorMeta):
        shape = next(shapes)
        stride: list[Any] = []
        step: Any = 1
        for size in reversed(shape):
            stride.insert(0, step)
            step = step * size
        return TensorMeta(torch.Size(shape), tuple(stride), item.dtype)
    if isinstance(item, (tuple, list)):
        return type(item)(with_shapes(x, shapes) for x in item)
    return item


def as_text(rows: Any) -> list[list[str]]:
    """Placements and placeholders; the latter compare by identity."""
    return [[f"{type(cell).__name__}{vars_of(cell)}" for cell in row] for row in rows]


def vars_of(cell: Any) -> str:
    # A mask is made anew each time.
    if type(cell).__name__ == "_MaskPartial":
        return f"{cell.offset_shape}{cell.offset_dim}"
    return str(cell.dim) if type(cell).__name__ == "_ShardingPlaceholder" else repr(cell)


def questions(
    part: int, parts: int, seed: int = 0
) -> Iterator[tuple[random.Random, Arguments, Any]]:
    for index in range(part, CASES, parts):
        rng = random.Random(f"seen:{seed}:{index}")
        case = draw_op(rng, pick_op(rng, DEFAULT, Rule.SINGLE_DIM), DEFAULT)
        schema = case.schema()
        # Of ops too that torch's dispatcher hands to a function of its own, and then asks nobody.
        entry = torch_registry.single_dim_entry(schema.op)
        if entry is None or schema.op.name().startswith(("aten::_foreach", "aten::_fused")):
            continue
        rule = rule_of_entry(schema.op, entry)
        assert rule.has_fixed_code
        try:
            arguments = Arguments(rule.question(schema, output_meta(schema)), rule)
            arguments.rows()
        except Exception:  # torch refuses the op
            continue
        yield rng, arguments, rule


@pytest.mark.slow
@pytest.mark.parametrize("part", range(2))
def test_rows_are_the_same_wherever_what_was_read_is(part: int) -> None:
    others = same = 0
    for rng, arguments, rule in questions(part, 2):
        seen = arguments.args_meta, arguments.kwargs_meta
        rows = as_text(arguments.rows())
        reads = Reads()
        watched_rows = arguments.rows(partial(watched, reads=reads))
        assert as_text(watched_rows) == rows, arguments.question.op
        shapes = [tuple(meta.shape) for meta in metas([*seen[0], *seen[1].values()])]
        assert reads.hold(shapes) or reads.strides
        for _ in range(20):
            change = {size: rng.choice(OTHER_SIZES) for shape in shapes for size in shape}
            if rng.random() < 0.3:  # equal sizes part ways
                other = [tuple(rng.choice(OTHER_SIZES) for _ in shape) for shape in shapes]
            else:
                other = [tuple(change[size] for size in shape) for shape in shapes]
            others += 1
            if not reads.hold(other):
                continue
            same += 1
            given = iter(other)
            args = with_shapes(seen[0], given)
            kwargs = {name: with_shapes(value, given) for name, value in seen[1].items()}
            assert (
                as_text(
                    rule.rows_of(arguments.question.rule_op, args, kwargs, arguments.question.meta)
                )
                == rows
            ), (
                arguments.question.op,
                other,
            )
    assert same > 0.3 * others, "hardly any rule is read to be the same"


@pytest.mark.slow
@pytest.mark.parametrize("part", range(2))
def test_all_that_symbolic_sizes_guard_is_noted(part: int) -> None:
    guarded = 0
    for _, arguments, rule in questions(part, 2, seed=1):
        seen = arguments.args_meta, arguments.kwargs_meta
        shapes = [tuple(meta.shape) for meta in metas([*seen[0], *seen[1].values()])]
        symbols = Symbols()
        symbolic = [
            tuple(
                size if size < 2 else symbols.backed(f"s{i}_{d}", size)
                for d, size in enumerate(shape)
            )
            for i, shape in enumerate(shapes)
        ]
        # Taken now: once two sizes are guarded to be equal, one stands for both.
        where_of = {
            size.node.expr: (i, d)
            for i, shape in enumerate(symbolic)
            for d, size in enumerate(shape)
            if isinstance(size, torch.SymInt)
        }
        given = iter(symbolic)
        args = with_shapes(seen[0], given)
        kwargs = {name: with_shapes(value, given) for name, value in seen[1].items()}
        before = len(symbols.env.guards)  # the strides above may have left some
        try:
            rule.rows_of(arguments.question.rule_op, args, kwargs, arguments.question.meta)
        except Exception:  # a rule that takes no symbolic sizes
            continue
        reads = Reads()
        arguments.rows(partial(watched, reads=reads))
        noted = {where for where in (*reads.least, *reads.most)}
        noted |= {where for pair in reads.signs for where in pair}
        for guard in symbols.env.guards[before:]:
            guarded += 1
            for symbol in guard.expr.free_symbols:
                assert where_of[symbol] in noted or reads.strides, (
                    arguments.question.op,
                    guard.expr,
                )
    assert guarded > 10, "no rule reads a size"


def test_a_rule_that_masks_gives_each_decision_its_own_mask(mesh_of: Any) -> None:
    from torch.distributed.tensor import Replicate, Shard

    from shardprop.propagation.decision_cache import DecisionCache

    mesh = mesh_of(2)
    held = DecisionCache()
    rule = rows_rule(aten.embedding.default)

    def outputs(length: int) -> Any:
        def spec(shape: tuple[int, ...], placement: Any, dtype: torch.dtype) -> DTensorSpec:
            tensor = torch.empty(shape, dtype=dtype, device="meta")
            meta = TensorMeta(tensor.shape, tensor.stride(), tensor.dtype)
            return DTensorSpec(mesh, (placement,), tensor_meta=meta)

        table = spec((64, 8), Shard(0), torch.float32)
        schema = torch_registry.op_schema(
            aten.embedding.default, (table, spec((length,), Replicate(), torch.int64)), {}
        )
        choice = held.choose(rule.question(schema, output_meta(schema)), rule)
        return known(choice.outputs[0])[0]

    masks = [outputs(length).mask_buffer for length in (8, 8, 16, 24)]
    assert len({id(mask) for mask in masks}) == 4


def test_floats_are_noted() -> None:
    reads = Reads()
    args, kwargs = watched((2.5, [1.0, 3]), {"scale": 0.5}, reads)
    assert not reads.floats
    assert args[1][0] + 1 == 2.0
    assert reads.floats
    assert isinstance(kwargs["scale"], float)


def test_parts_of_a_number_are_no_functions() -> None:
    (meta, scale), _ = watched((meta_of((5, 7)), 2.5), {}, Reads())
    assert meta.shape[0].numerator == 5
    assert scale.real == 2.5


@pytest.mark.parametrize("sizes", [(2, 5), (5, 2), (3, 3)], ids=str)
def test_sizes_that_were_compared_keep_their_order(sizes: tuple[int, int]) -> None:
    def order(pair: tuple[int, int]) -> int:
        return (pair[0] > pair[1]) - (pair[0] < pair[1])

    reads = Reads()
    (first, second), _ = watched(tuple(meta_of((size, 7)) for size in sizes), {}, reads)
    assert (first.shape[0] < second.shape[0]) == (order(sizes) < 0)
    for other in ((1, 9), (9, 1), (4, 4)):
        held = reads.hold([(size, 7) for size in other])
        assert held == (order(other) == order(sizes)), other


def test_a_size_that_was_compared_with_a_number_stays_on_its_side() -> None:
    reads = Reads()
    (first,), _ = watched((meta_of((5, 7)),), {}, reads)
    assert first.shape[0] > 4
    assert [reads.hold([(size, 1)]) for size in (4, 5, 100)] == [False, True, True]
    assert first.shape[0] < 10
    assert [reads.hold([(size, 1)]) for size in (4, 5, 9, 10)] == [False, True, True, False]


def test_a_size_that_was_taken_for_a_truth_stays_as_true() -> None:
    def seen(size: int) -> tuple[bool, list[bool]]:
        reads = Reads()
        (meta,), _ = watched((meta_of((size, 7)),), {}, reads)
        return bool(meta.shape[0]), [reads.hold([(other, 1)]) for other in (0, 1, 5, 100)]

    assert seen(5) == seen(1) == (True, [False, True, True, True])
    assert seen(0) == (False, [True, False, False, False])


@pytest.mark.parametrize(
    "read",
    [
        lambda meta: meta.stride[0] > meta.stride[1],
        lambda meta: meta.stride[0] == 7,
        lambda meta: meta.shape[0] < meta.stride[0],
        lambda meta: meta.stride[0] > meta.shape[0],
        lambda meta: meta.stride[0] / meta.shape[1] == 1,
        lambda meta: {7: True}[meta.stride[0]],
        lambda meta: bool(meta.stride[1]),
    ],
    ids=["strides", "number", "size", "of size", "quotient", "key", "truth"],
)
def test_strides_are_noted_as_such(read: Callable[[TensorMeta], bool]) -> None:
    reads = Reads()
    (meta,), _ = watched((meta_of((5, 7)),), {}, reads)
    assert meta.shape[0] == 5
    assert not reads.strides
    assert read(meta)
    assert reads.strides
    assert reads.hold([(5, 7)])
