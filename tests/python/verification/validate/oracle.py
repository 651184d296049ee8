"""Does a row hold? Told without the validator: by an op on pieces of operands, in double precision.

It knows nothing of how the validator cuts, makes parts, compares or chooses data, shares no code
with it, and is plain enough to be checked by reading. It is slower and says nothing but yes or no.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch.distributed.tensor import Partial, Placement, Replicate, Shard

__all__ = ["holds"]

Tensors = list[torch.Tensor]
_FOLDS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "sum": lambda parts: parts.sum(0),
    "avg": lambda parts: parts.mean(0),
    "max": lambda parts: parts.amax(0),
    "min": lambda parts: parts.amin(0),
    "product": lambda parts: parts.prod(0),
}


def holds(
    op: Any,
    args: Sequence[Any],
    kwargs: dict[str, Any],
    inputs: Sequence[Placement],
    outputs: Sequence[Placement | None],
    ranks: int,
    seed: int,
) -> bool:
    """Does `op` on the pieces of each rank give the pieces of its result?

    `inputs` has a placement for each tensor among the arguments, `outputs` for each that it returns
    (an operand that was written into, if it returns nothing).
    """
    rng = torch.Generator().manual_seed(seed)
    whole = [_exact(x) for x in _tensors((args, kwargs))]
    expected = _run(op, args, kwargs, whole)
    pieces = [_pieces(x, p, ranks, rng) for x, p in zip(whole, inputs, strict=True)]
    try:
        made = [_run(op, args, kwargs, [x[rank] for x in pieces]) for rank in range(ranks)]
    except (RuntimeError, IndexError):
        return False
    return all(
        _stand_for([of_rank[index] for of_rank in made], placement, expected[index])
        for index, placement in enumerate(outputs)
        if placement is not None
    )


def _exact(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.double() if tensor.is_floating_point() else tensor.clone()


def _tensors(value: Any) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, dict):
        yield from _tensors(list(value.values()))
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _tensors(item)


def _run(op: Any, args: Sequence[Any], kwargs: dict[str, Any], tensors: Tensors) -> Tensors:
    given = [tensor.clone() for tensor in tensors]
    rest = iter(given)

    def filled(value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return next(rest)
        if isinstance(value, (list, tuple)):
            return [filled(item) for item in value]
        return value

    args = [filled(value) for value in args]
    result = op(*args, **{name: filled(value) for name, value in kwargs.items()})
    return [*_tensors(result)] if op._schema.returns else given


def _pieces(whole: torch.Tensor, placement: Placement, ranks: int, rng: torch.Generator) -> Tensors:
    if isinstance(placement, Replicate):
        return [whole] * ranks
    if isinstance(placement, Shard):
        return [*torch.chunk(whole, ranks, placement.dim)]
    assert isinstance(placement, Partial), placement
    owner = torch.randint(ranks, whole.shape, generator=rng)
    mine = [owner == rank for rank in range(ranks)]
    if whole.dtype is torch.bool:  # a sum of flags is true where one of them is
        assert placement.reduce_op == "sum"
        coins = [torch.rand(whole.shape, generator=rng) < 0.5 for _ in range(ranks)]
        return [whole & (m | coin) for m, coin in zip(mine, coins, strict=True)]
    if not whole.is_floating_point():  # an index: another one may be read beyond its tensor
        neutral = 1 if placement.reduce_op == "product" else 0
        assert placement.reduce_op in ("sum", "product", "max")
        return [torch.where(m, whole, neutral) for m in mine]
    noise = [torch.rand(whole.shape, generator=rng, dtype=whole.dtype) + 0.5 for _ in mine]
    match placement.reduce_op:
        case "max":
            return [torch.where(m, whole, whole - x) for m, x in zip(mine, noise, strict=True)]
        case "min":
            return [torch.where(m, whole, whole + x) for m, x in zip(mine, noise, strict=True)]
        case "product":
            rest = [*noise[1:]]
            return [whole / torch.stack(rest).prod(0), *rest]
    times = ranks if placement.reduce_op == "avg" else 1
    return [whole * times - sum(noise[1:]), *noise[1:]]


def _stand_for(local: Tensors, placement: Placement, expected: torch.Tensor) -> bool:
    if isinstance(placement, Replicate):
        return all(_equal(x, expected) for x in local)
    if isinstance(placement, Shard):
        wanted = torch.chunk(expected, len(local), placement.dim)
        return len(wanted) == len(local) and all(map(_equal, local, wanted))
    assert isinstance(placement, Partial), placement
    if any(x.shape != expected.shape for x in local):
        return False
    parts = torch.stack(local)
    parts = parts if parts.is_floating_point() else parts.double()
    return _equal(_FOLDS[placement.reduce_op](parts), expected)


def _equal(got: torch.Tensor, expected: torch.Tensor) -> bool:
    if got.shape != expected.shape:
        return False
    return torch.allclose(got.double(), expected.double(), rtol=1e-7, atol=1e-9, equal_nan=True)
