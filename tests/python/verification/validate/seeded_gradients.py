"""Ops whose backward has a fault: each an autograd formula that is right, and what spoils it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard

import shardprop
from shardprop import ShardingPlaceholder

Spoil = Callable[[DTensor, DTensor], DTensor]

_library = torch.library.Library("shardprop_seeded", "DEF")
ops: Any = torch.ops.shardprop_seeded
# What spoils the gradients now, and whether it has changed one.
_spoiling: list[Spoil] = []
_changed: list[bool] = [False]


def _spoilt(gradient: torch.Tensor, operand: torch.Tensor) -> torch.Tensor:
    if not _spoiling or not isinstance(gradient, DTensor) or not isinstance(operand, DTensor):
        return gradient
    with torch.no_grad():
        made = _spoiling[0](gradient, operand)
    _changed[0] |= made is not gradient
    return made


def _define(
    signature: str,
    function: Callable[..., torch.Tensor],
    backward: Callable[..., Any],
) -> None:
    """An op, and the gradients of its operands from that of its result."""
    name = signature.partition("(")[0]
    _library.define(signature)
    _library.impl(name, function, "CompositeExplicitAutograd")

    def formula(context: Any, gradient: torch.Tensor) -> Any:
        operands = context.saved_tensors
        found = zip(backward(gradient, *operands), operands, strict=True)
        return tuple(_spoilt(made, operand) for made, operand in found)

    torch.library.register_autograd(
        f"shardprop_seeded::{name}",
        formula,
        setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs),
        lib=_library,
    )


_define("square(Tensor x) -> Tensor", lambda x: x * x, lambda g, x: [2 * x * g])
_define("times(Tensor x, Tensor y) -> Tensor", lambda x, y: x * y, lambda g, x, y: [g * y, g * x])
_define(
    "linear(Tensor x, Tensor w) -> Tensor",
    lambda x, w: x @ w,
    lambda g, x, w: [g @ w.t(), x.t() @ g],
)
_define("rows(Tensor x) -> Tensor", lambda x: x.sum(1), lambda g, x: [g[:, None].expand(x.shape)])
_define("total(Tensor x) -> Tensor", lambda x: x.sum(), lambda g, x: [g.expand(x.shape)])
_define(
    "mean(Tensor x) -> Tensor", lambda x: x.mean(), lambda g, x: [(g / x.numel()).expand(x.shape)]
)
_define(
    "scaled(Tensor x, Tensor s) -> Tensor",
    lambda x, s: x * s,
    lambda g, x, s: [g * s, (g * x).sum(0)],
)


def register_rules() -> None:
    """Right rules for all of them."""
    x = ShardingPlaceholder
    shardprop.register_rule(ops.square.default, "... -> ...")
    shardprop.register_rule(ops.times.default, "..., ... -> ...")
    shardprop.register_rule(ops.linear.default, "m k, k n -> m n")
    for op, row in ((ops.rows, [x(0), x(0)]), (ops.total, [Partial("sum"), x(0)])):
        shardprop.register_single_dim_rule(op.default)(lambda *_, row=row: [row])
    shardprop.register_single_dim_rule(ops.mean.default)(lambda *_: [])
    shardprop.register_single_dim_rule(ops.scaled.default)(
        lambda *_: [[x(0), x(0), Replicate()], [x(1), x(1), x(0)]]
    )


CALLS: dict[str, Callable[[int], tuple[torch.Tensor, ...]]] = {
    "square": lambda n: (torch.randn(n, 4),),
    "times": lambda n: (torch.randn(n, 4), torch.randn(n, 4)),
    "linear": lambda n: (torch.randn(n, 4), torch.randn(4, 5)),
    "rows": lambda n: (torch.randn(n, 4),),
    "total": lambda n: (torch.randn(n, 4),),
    "mean": lambda n: (torch.randn(n, 4),),
    "scaled": lambda n: (torch.randn(n, 4), torch.randn(4)),
}


def _local(gradient: DTensor) -> torch.Tensor:
    return gradient.to_local()


def _with_local(gradient: DTensor, local: torch.Tensor, placements: Any = None) -> DTensor:
    return DTensor.from_local(
        local,
        gradient.device_mesh,
        placements or gradient.placements,
        run_check=False,
        shape=gradient.shape,
        stride=gradient.stride(),
    )


def _cut(tensor: DTensor) -> int | None:
    """The dim that is cut, if one is."""
    return next((p.dim for p in tensor.placements if isinstance(p, Shard)), None)


def _ranks_too_large(gradient: DTensor, operand: DTensor) -> DTensor:
    """A factor of the number of ranks."""
    if _cut(operand) is None:
        return gradient
    return _with_local(gradient, _local(gradient) * operand.device_mesh.size())


def _ranks_too_small(gradient: DTensor, operand: DTensor) -> DTensor:
    if _cut(operand) is None:
        return gradient
    return _with_local(gradient, _local(gradient) / operand.device_mesh.size())


def _not_reduced(gradient: DTensor, operand: DTensor) -> DTensor:
    """A pending sum passes for the sum."""
    if not any(isinstance(p, Partial) for p in gradient.placements):
        return gradient
    whole = [Replicate() if isinstance(p, Partial) else p for p in gradient.placements]
    return _with_local(gradient, _local(gradient), whole)


def _reduced_again(gradient: DTensor, operand: DTensor) -> DTensor:
    """What is whole passes for a pending sum."""
    if not any(isinstance(p, Replicate) for p in gradient.placements):
        return gradient
    pending = [Partial() if isinstance(p, Replicate) else p for p in gradient.placements]
    return _with_local(gradient, _local(gradient), pending)


def _average_of_averages(gradient: DTensor, operand: DTensor) -> DTensor:
    """A pending sum passes for a pending average."""
    if not any(isinstance(p, Partial) for p in gradient.placements):
        return gradient
    pending = [Partial("avg") if isinstance(p, Partial) else p for p in gradient.placements]
    return _with_local(gradient, _local(gradient), pending)


def _by_local_size(gradient: DTensor, operand: DTensor) -> DTensor:
    """The size of a shard in the place of that of the whole."""
    dim = _cut(operand)
    if dim is None:
        return gradient
    held = torch.ones_like(_local(operand)).sum() * operand.shape[dim] / operand.numel()
    return _with_local(gradient, _local(gradient) * (operand.shape[dim] / held.clamp(min=1)))


def _ranks_weighed_alike(gradient: DTensor, operand: DTensor) -> DTensor:
    """An average in which each shard counts as much as any other, however many elements it has."""
    dim = _cut(operand)
    if dim is None or operand.shape[dim] % operand.device_mesh.size() == 0:
        return gradient
    held = torch.ones_like(_local(operand)).sum().clamp(min=1)
    return _with_local(
        gradient, _local(gradient) * (operand.numel() / operand.device_mesh.size() / held)
    )


def _of_another_rank(gradient: DTensor, operand: DTensor) -> DTensor:
    """What is cut is held in another order."""
    dim = _cut(gradient)
    if dim is None:
        return gradient
    return _with_local(gradient, _local(gradient).flip(0) + 1)


FAULTS: dict[str, Spoil] = {
    "a factor of the number of ranks": _ranks_too_large,
    "a fraction by the number of ranks": _ranks_too_small,
    "a missing reduction": _not_reduced,
    "a reduction too many": _reduced_again,
    "an average for a sum": _average_of_averages,
    "a local size as a constant": _by_local_size,
    "uneven shards weighed alike": _ranks_weighed_alike,
    "another order": _of_another_rank,
}


class spoilt:
    """Within it the gradients have a fault; `changed` tells whether one was another for it."""

    def __init__(self, fault: str) -> None:
        self._fault = FAULTS[fault]

    def __enter__(self) -> spoilt:
        _spoiling[:], _changed[:] = [self._fault], [False]
        return self

    def __exit__(self, *_: object) -> None:
        _spoiling.clear()

    @property
    def changed(self) -> bool:
        """Has a gradient been another for it?"""
        return _changed[0]
