"""Ops of many families with rules that are right, and calls of each: what mutations start from.

The rules are torch's and ours where they list their rows, else written in the compact notation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch.distributed.tensor import Partial as P
from torch.distributed.tensor import Replicate, Shard

from shardprop import _torch
from shardprop.propagation.route import route_of
from shardprop.rules import torch_registry
from shardprop.rules.notation.rule_text import Notation
from shardprop.rules.placeholder import ShardingPlaceholder as X
from shardprop.verification.calls.call import Call
from shardprop.verification.validate.claimed_rows import as_meta

__all__ = ["SOUND", "Sound"]

aten = torch.ops.aten
R = Replicate()
Rows = list[list[Any]]


class Draw:
    """Random operands. No size leaves one of two or three ranks without elements."""

    def __init__(self, seed: int) -> None:
        self._generator = torch.Generator().manual_seed(seed)

    def __call__(self, *shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=self._generator)

    def indices(self, most: int, *shape: int) -> torch.Tensor:
        return torch.randint(most, shape, generator=self._generator)


@dataclass(frozen=True)
class Sound:
    """An op with a rule that is right.

    Attributes:
        op: The op overload.
        draw: Gives the arguments of its calls; those by keyword are a dict at the end.
        rule: A function that lists the rows, as `register_single_dim_rule` takes it.
        allow_uneven_sharding: As of the rule in use.
        tied: For each output the operand that it is, if the outputs are operands.
        length: Of an op that writes into a list and that torch takes element by element: the length
            of its lists. The rule is that of one element, which the op for single tensors returns.
    """

    op: Any
    draw: Callable[[Draw], Sequence[tuple[Any, ...]]]
    rule: Callable[..., Any]
    allow_uneven_sharding: bool = False
    tied: tuple[tuple[int, int], ...] = ()
    length: int = 0

    def calls(self, seed: int) -> list[Call]:
        """Calls of the op: a seed changes their data."""
        return [Call(self.op, *_by_keyword(args)) for args in self.draw(Draw(seed))]

    def rows(self, call: Call) -> Rows:
        """The rows of a call, or of an element."""
        args = tuple(as_meta(self._element(arg)) for arg in call.args)
        kwargs = {name: as_meta(value) for name, value in call.kwargs.items()}
        op = _torch.elementwise_overload(self.op) if self.length else self.op
        return [[*row] for row in self.rule(op, args, kwargs)]

    def _element(self, value: Any) -> Any:
        return value[0] if self.length and isinstance(value, list) else value

    def cells(self, call: Call) -> list[torch.Tensor]:
        """What the cells of a row stand for: the outputs, then the operands, of one element."""
        tensors = [x for arg in call.args for x in _tensors(self._element(arg))]
        tensors += [x for value in call.kwargs.values() for x in _tensors(value)]
        return [*self._made(call), *tensors]

    def outputs(self, call: Call) -> int:
        """How many cells of a row are outputs."""
        return len(self._made(call))

    def _made(self, call: Call) -> list[torch.Tensor]:
        if self.length:
            return [call.args[0][0]]
        copies = [x.clone() if isinstance(x, torch.Tensor) else x for x in call.args]
        return [*_tensors(self.op(*copies, **call.kwargs))]

    def reduce_ops(self, call: Call, cell: int) -> tuple[str, ...]:
        """Reduce ops that a tensor may be partial by: of flags and indices those that keep them
        what they are."""
        dtype = self.cells(call)[cell].dtype
        if dtype is torch.bool:
            return ("sum",)
        return ("sum", "avg", "max", "min", "product") if dtype.is_floating_point else ("sum",)

    def placements(self, row: Sequence[Any], outputs: int) -> tuple[list[Any], list[Any]]:
        """Of the outputs and of the operands of a whole call, placeholders filled."""
        filled = [Shard(c.dim) if isinstance(c, _torch.ShardingPlaceholder) else c for c in row]
        made, given = filled[:outputs], filled[outputs:]
        if self.length:
            return [], [c for c in given for _ in range(self.length)]
        return made, given


def _tensors(value: Any) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, (list, tuple)):
        return [tensor for item in value for tensor in _tensors(item)]
    return []


def _by_keyword(args: tuple[Any, ...]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    return (args[:-1], args[-1]) if isinstance(args[-1], dict) else (args, {})


# --- an op with three outputs, each placed in its own way

_library = torch.library.Library("shardprop_mutations", "DEF")
_library.define("stats(Tensor x, Tensor w) -> (Tensor, Tensor, Tensor)")
_library.impl("stats", lambda x, w: (x * w, x.sum(0), x.amax(1)), "CompositeExplicitAutograd")
stats = torch.ops.shardprop_mutations.stats.default


def _rows_of_stats(op: Any, args: Any, kwargs: Any) -> Rows:
    return [[X(0), P("sum"), X(0), X(0), R], [X(1), X(0), P("max"), X(1), X(0)]]


def _rows_of_convolution_backward(op: Any, args: Any, kwargs: Any) -> Rows:
    return [
        [X(0), P("sum"), P("sum"), X(0), X(0), R],
        [P("sum"), X(0), X(0), X(1), R, X(0)],
        [X(1), X(1), R, R, X(1), X(1)],
    ]


def _rows_of_aminmax(op: Any, args: Any, kwargs: Any) -> Rows:
    return [[P("min"), P("max"), X(dim)] for dim in range(len(args[0].shape))]


# --- the set

Args = Sequence[tuple[Any, ...]]


def _layer_norm_backward(draw: Draw) -> Args:
    x, w, b = draw(6, 5, 8), draw(8), draw(8)
    _, mean, rstd = aten.native_layer_norm(x, [8], w, b, 1e-5)
    return [(draw(6, 5, 8), x, [8], mean, rstd, w, b, [True, True, True])]


def _two_lists(draw: Draw) -> Args:
    return [([draw(6, 7), draw(6, 7)], [draw(6, 7), draw(6, 7)])]


def _convolution_backward(draw: Draw) -> Args:
    x, w = draw(6, 3, 7, 7), draw(5, 3, 3, 3)
    rest = ([5], [1, 1], [1, 1], [1, 1], False, [0, 0], 1, [True, True, True])
    return [(draw(6, 5, 7, 7), x, w, *rest)]


_LISTED: dict[Any, Callable[[Draw], Args]] = {
    aten.mm.default: lambda x: [(x(6, 7), x(7, 8))],
    aten.addmm.default: lambda x: [(x(8), x(6, 7), x(7, 8))],
    aten.bmm.default: lambda x: [(x(5, 6, 7), x(5, 7, 8))],
    aten.baddbmm.default: lambda x: [(x(5, 6, 8), x(5, 6, 7), x(5, 7, 8))],
    aten.dot.default: lambda x: [(x(8), x(8))],
    aten.add.Tensor: lambda x: [(x(6, 7), x(7)), (x(6, 7), x(6, 7))],
    aten.mul.Tensor: lambda x: [(x(6, 7), x(6, 7))],
    aten.div.Tensor: lambda x: [(x(6, 7), x(6, 7).exp())],
    aten.relu.default: lambda x: [(x(6, 7),)],
    aten.maximum.default: lambda x: [(x(6, 7), x(6, 7))],
    aten.where.self: lambda x: [(x(6, 7) > 0, x(6, 7), x(6, 7))],
    aten.addcmul.default: lambda x: [(x(6, 7), x(6, 7), x(6, 7))],
    aten.native_layer_norm.default: lambda x: [(x(6, 5, 8), [8], x(8), x(8), 1e-5)],
    aten.native_layer_norm_backward.default: _layer_norm_backward,
    aten.max.dim: lambda x: [(x(6, 7), 1)],
    aten.gather.default: lambda x: [(x(6, 7), 0, x.indices(6, 5, 7))],
    aten.scatter_add.default: lambda x: [(x(6, 7), 0, x.indices(6, 5, 7), x(5, 7))],
    aten.index_select.default: lambda x: [(x(6, 7), 1, x.indices(7, 5))],
    aten.embedding.default: lambda x: [(x(9, 6), x.indices(9, 5, 6))],
    aten.sort.default: lambda x: [(x(6, 7), 1)],
    aten.topk.default: lambda x: [(x(6, 7), 3, 1)],
    aten.flip.default: lambda x: [(x(6, 7), [0])],
    aten.add_.Tensor: lambda x: [(x(6, 7), x(6, 7))],
    aten.add.out: lambda x: [(x(6, 7), x(6, 7), {"out": x(6, 7)})],
}
_TIED = {aten.add_.Tensor: ((0, 0),), aten.add.out: ((0, 2),)}

_WRITTEN: dict[Any, tuple[str, Callable[[Draw], Args]]] = {
    aten._softmax.default: ("... n@dim! -> ... n@dim", lambda x: [(x(6, 5, 7), 1, False)]),
    aten.sum.dim_IntList: ("+... k@dim -> ...", lambda x: [(x(6, 7), [1]), (x(6, 5, 7), [0, 2])]),
    aten.mean.dim: ("+... k@dim:avg -> ...", lambda x: [(x(6, 12), [1])]),
    aten.amax.default: ("... k@dim:max -> ...", lambda x: [(x(6, 7), [1])]),
    aten.cumsum.default: ("+... n@dim! -> ... n@dim", lambda x: [(x(6, 7), 1)]),
    aten.cat.default: ("[+... k@dim!] -> ... k@dim", lambda x: [([x(6, 7), x(5, 7)], 0)]),
    aten.stack.default: ("[+...] -> ... k@dim", lambda x: [([x(6, 7), x(6, 7)], 1)]),
    aten.permute.default: ("+a@dims -> a", lambda x: [(x(6, 5, 7), [2, 0, 1])]),
    aten.transpose.int: (
        "+... a@dim0 b@dim1 -> ... b@dim0 a@dim1",
        lambda x: [(x(6, 5, 7), 0, 2)],
    ),
}


def _sound() -> Iterator[Sound]:
    for op, draw in _LISTED.items():
        rule = route_of(op).rule
        assert rule is not None and rule.as_rows is not None
        listed = partial(rule.as_rows.rows_of, meta=None)
        yield Sound(op, draw, listed, rule.as_rows.allow_uneven_sharding, _TIED.get(op, ()))
    for op, (text, draw) in _WRITTEN.items():
        yield Sound(op, draw, Notation(text).rows)
    foreach = aten._foreach_add_.List
    rule = torch_registry.single_dim_entry(foreach)
    assert rule is not None
    yield Sound(foreach, _two_lists, rule.func, rule.allow_uneven_sharding, ((0, 0),), 2)
    yield Sound(stats, lambda x: [(x(6, 7), x(7))], _rows_of_stats)
    yield Sound(
        aten.convolution_backward.default, _convolution_backward, _rows_of_convolution_backward
    )
    yield Sound(aten.aminmax.default, lambda x: [(x(6, 7),), (x(6, 5, 7),)], _rows_of_aminmax)


SOUND = [*_sound()]
