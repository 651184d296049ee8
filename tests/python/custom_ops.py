"""Ops that tests register rules for: one of each form that an op can have."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from shardprop import ShardingPlaceholder

_library = torch.library.Library("shardprop_ops", "DEF")
ops: Any = torch.ops.shardprop_ops


def define(signature: str, function: Callable[..., Any], key: str | None = None) -> None:
    """An op with a schema; its one kernel serves for metadata too unless `key` says otherwise."""
    _library.define(signature)
    _library.impl(signature.split("(")[0], function, key or "CompositeExplicitAutograd")


def _mixed(
    x: torch.Tensor, y: torch.Tensor, w: torch.Tensor | None = None, s: float = 1.0
) -> torch.Tensor:
    return (x + y) * s if w is None else (x + y) * s * w


define("mix(Tensor x, Tensor y, *, Tensor? w=None, float s=1.0) -> Tensor", _mixed)
define(
    "mix_(Tensor(a!) x, Tensor y, *, Tensor? w=None, float s=1.0) -> Tensor(a!)",
    lambda x, y, w=None, s=1.0: x.copy_(_mixed(x, y, w, s)),
)
define(
    "mix.out(Tensor x, Tensor y, *, Tensor? w=None, float s=1.0, Tensor(a!) out) -> Tensor(a!)",
    lambda x, y, w=None, s=1.0, out=None: out.copy_(_mixed(x, y, w, s)),
)
# A variant of another op, as its arguments say.
define("mix.three(Tensor x, Tensor y, Tensor z) -> Tensor", lambda x, y, z: x + y + z)
define("pair(Tensor x, bool both) -> (Tensor, Tensor)", lambda x, b: (x + 1, x * 2 if b else None))
define(
    "pair.out(Tensor x, bool both, *, Tensor(a!) first, Tensor(b!) second) "
    "-> (Tensor(a!), Tensor(b!))",
    lambda x, b, first, second: (first.copy_(x + 1), second.copy_(x * 2)),
)
define(
    "join(Tensor[] xs, Tensor? last, int dim) -> Tensor",
    lambda xs, last, dim: torch.cat([*xs, *([] if last is None else [last])], dim),
)
define("keyed(Tensor x, *, Tensor b, Tensor a) -> Tensor", lambda x, b, a: x + 2 * b + 3 * a)
define(
    "statics(Tensor x, int i, float f, str s, bool b, int[] l, *, int k=0, str t='') -> Tensor",
    lambda x, *_, **__: x + 1,
)
define(
    "between(Tensor x, Tensor? y, Tensor? z) -> Tensor", lambda x, y, z: x - (y if z is None else z)
)
define("chunks(Tensor x, int n) -> Tensor[]", lambda x, n: [x.clone() for _ in range(n)])
define("unknown(Tensor x) -> Tensor", lambda x: x + 1, "CPU")
define("nothing(int n) -> int", lambda n: n)


@torch.library.custom_op("shardprop_ops::step", mutates_args=())
def step(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return x + y


step.register_fake(lambda x, y: torch.empty_like(x))


@torch.library.custom_op("shardprop_ops::step_", mutates_args={"x"})
def step_(x: torch.Tensor, y: torch.Tensor) -> None:
    x.add_(y)


@torch.library.custom_op("shardprop_ops::step_out", mutates_args={"out"})
def step_out(x: torch.Tensor, y: torch.Tensor, out: torch.Tensor) -> None:
    out.copy_(x + y)


@torch.library.custom_op("shardprop_ops::scale_into", mutates_args={"y"})
def scale_into(x: torch.Tensor, y: torch.Tensor) -> None:
    y.mul_(x)


@torch.library.custom_op("shardprop_ops::no_fake", mutates_args=())
def no_fake(x: torch.Tensor) -> torch.Tensor:
    return x + 1


def elementwise(outputs: int = 1) -> Callable[..., list[list[Any]]]:
    """The rule of an op that may be cut along any dim of its first operand."""

    def rows(op: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> list[list[Any]]:
        given = [*args, *kwargs.values()]
        tensors = sum(isinstance(x, tuple) and hasattr(x, "shape") for x in given)
        dims = range(len(args[0].shape))
        return [[ShardingPlaceholder(d)] * (outputs + tensors) for d in dims]

    return rows


def joining(op: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> list[list[Any]]:
    """The rule of `join`."""
    xs, last, dim = args
    width = 1 + len(xs) + (last is not None)
    return [[ShardingPlaceholder(d)] * width for d in range(len(xs[0].shape)) if d != dim]
