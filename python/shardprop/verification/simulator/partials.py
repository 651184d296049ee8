"""Partial placements on simulated ranks: random parts of a tensor, and what parts reduce to.

The parts differ between ranks and from element to element, so that an op which does not commute
with the reduction shows it. They are of the tensor's own scale: larger ones would lose the tensor
in their rounding, smaller ones would be lost themselves.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

import torch

from ..._torch import NormPartial, Partial

__all__ = ["Tensors", "Untestable", "folded_by_name", "is_reducible", "parts", "reduced"]

Tensors = list[torch.Tensor]

# Of bools torch reduces with the logical op that the arithmetic one amounts to.
_OR = frozenset(("sum", "max", "bor"))
_AND = frozenset(("product", "min", "band"))
_BITWISE = frozenset(("band", "bor", "bxor"))
_ORDERED = frozenset(("max", "min"))
# Steps of random parts of a sum, in units of their scale.
_GRID = 1024.0
# How much larger than the tensor's elements its parts may be.
_ROOM = 1024.0
_KNOWN = frozenset(("sum", "avg", "product")) | _ORDERED | _BITWISE


class Untestable(Exception):
    """A placement or a call that simulated ranks cannot put to the test; its text says why."""


def is_reducible(dtype: torch.dtype, partial: Partial) -> bool:
    """May a tensor of this dtype be partial in this way?"""
    op = partial.reduce_op
    if type(partial) is NormPartial:
        return dtype.is_floating_point
    if type(partial) is not Partial or op not in _KNOWN:
        return False
    if dtype.is_floating_point:
        return op not in _BITWISE
    if dtype.is_complex:
        return op not in _BITWISE and op not in _ORDERED
    return op != "avg"


def _check(dtype: torch.dtype, partial: Partial) -> None:
    if is_reducible(dtype, partial):
        return
    if type(partial) not in (Partial, NormPartial):
        raise Untestable(f"placement {type(partial).__name__}")
    raise Untestable(f"Partial({partial.reduce_op}) of {dtype}")


# --- from parts to the whole ------------------------------------------------------------------

_FOLD: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "sum": torch.add,
    "avg": torch.add,
    "product": torch.mul,
    "max": torch.maximum,
    "min": torch.minimum,
    "band": torch.bitwise_and,
    "bor": torch.bitwise_or,
    "bxor": torch.bitwise_xor,
}


def _fold(dtype: torch.dtype, op: str) -> Callable[[torch.Tensor, torch.Tensor], torch.Tensor]:
    if dtype is torch.bool and op != "bxor":
        return torch.logical_or if op in _OR else torch.logical_and
    return _FOLD[op]


_SIGNS = {"sum": "+", "avg": "+", "product": "*", "band": "&", "bor": "|", "bxor": "^"}


def folded_by_name(dtype: torch.dtype, op: str) -> str:
    """The operator that folds parts in Python, or the name of torch's function that does."""
    if dtype is torch.bool:
        return "|" if op in _OR else "&" if op in _AND else "^"
    return _SIGNS.get(op) or f"{op}imum"


def reduced(local: Tensors, partial: Partial) -> torch.Tensor:
    """What the parts stand for.

    Raises:
        Untestable: parts that are not reduced in this way.
    """
    dtype = local[0].dtype
    _check(dtype, partial)
    if type(partial) is NormPartial:
        powers = functools.reduce(torch.add, [part**partial.norm_type for part in local])
        return powers ** (1.0 / partial.norm_type)
    wide = [part.float() for part in local] if _is_short(dtype) else local
    whole = functools.reduce(_fold(dtype, partial.reduce_op), wide)
    if partial.reduce_op == "avg":
        whole = whole / len(local)
    return whole.to(dtype)


def _is_short(dtype: torch.dtype) -> bool:
    """A float whose sums lose digits that the test needs."""
    return dtype.is_floating_point and dtype.itemsize < 4


# --- from the whole to parts ------------------------------------------------------------------


def parts(whole: torch.Tensor, partial: Partial, ranks: int, rng: torch.Generator) -> Tensors:
    """Random parts that reduce to `whole`.

    Raises:
        Untestable: a tensor that has no such parts.
    """
    dtype, op = whole.dtype, partial.reduce_op
    _check(dtype, partial)
    if type(partial) is NormPartial:
        return _norms(whole, partial.norm_type, ranks, rng)
    if dtype is torch.bool:
        return _of_bools(whole, op, ranks, rng)
    if op in _BITWISE:
        return _bits(whole, op, ranks, rng)
    exact = not (dtype.is_floating_point or dtype.is_complex)
    if op in _ORDERED:
        return (_ordered_integers if exact else _ordered)(whole, op, ranks, rng)
    if op == "product":
        return (_factors_of_integers if exact else _factors)(whole, ranks, rng)
    if exact:
        return _summands_of_integers(whole, ranks, rng)
    return _summands(whole, ranks if op == "avg" else 1, ranks, rng)


def _uniform(like: torch.Tensor, rng: torch.Generator) -> torch.Tensor:
    dtype = torch.float64 if like.dtype.itemsize > 4 else torch.float32
    return torch.rand(like.shape, generator=rng, dtype=dtype)


def _signs(like: torch.Tensor, rng: torch.Generator) -> torch.Tensor:
    return torch.randint(0, 2, like.shape, generator=rng).mul_(2).sub_(1).to(like.dtype)


def _owner(like: torch.Tensor, ranks: int, rng: torch.Generator) -> torch.Tensor:
    """A rank for each element."""
    return torch.randint(0, ranks, like.shape, generator=rng)


def _scale(whole: torch.Tensor) -> float:
    """The size of a typical element that is finite; 1 if they are all zero.

    Raises:
        Untestable: an element near the largest of its dtype, which parts would go beyond.
    """
    size = whole.abs().double()
    finite = size[size.isfinite() & (size != 0)]
    if not finite.numel():
        return 1.0
    if not _is_short(whole.dtype) and float(finite.max()) > torch.finfo(whole.dtype).max / _ROOM:
        raise Untestable("parts of a number near the largest of its dtype")
    return float(finite.mean())


def _summands(whole: torch.Tensor, times: int, ranks: int, rng: torch.Generator) -> Tensors:
    """Parts whose sum is `times` the tensor; what is not finite is in one part of its own."""
    dtype = whole.dtype
    wide = whole.float() if _is_short(dtype) else whole
    finite = wide.isfinite()
    rest = torch.where(finite, wide, 0) * times
    scale = 2.0 ** math.floor(math.log2(_scale(whole)))
    made: Tensors = []
    for _ in range(ranks - 1):
        noise = torch.randn(rest.shape, generator=rng, dtype=rest.dtype)
        part = (_coarse(noise) * scale).to(dtype)
        made.append(part)
        rest = rest - part
    made.insert(int(torch.randint(0, ranks, (), generator=rng)), rest.to(dtype))
    if bool(finite.all()):
        return made
    owner = _owner(whole, ranks, rng)
    return [torch.where(~finite & (owner == rank), whole, part) for rank, part in enumerate(made)]


def _coarse(noise: torch.Tensor) -> torch.Tensor:
    """With few digits: the sum of the parts is exact where those of the whole leave room."""
    if noise.is_complex():
        whole: torch.Tensor = torch.view_as_complex(_coarse(torch.view_as_real(noise)))
        return whole
    return (noise * _GRID).round() / _GRID


def _summands_of_integers(whole: torch.Tensor, ranks: int, rng: torch.Generator) -> Tensors:
    """Exact parts; those of an index stay within its range, lest an op read beyond a tensor."""
    rest = whole.long()
    made: Tensors = []
    if whole.numel() and int(rest.min()) >= 0:
        for _ in range(ranks - 1):
            part = (_uniform(rest, rng) * (rest + 1)).long().minimum(rest)
            made.append(part)
            rest = rest - part
    else:
        most = int(rest.abs().max()) if whole.numel() else 1
        room = (torch.iinfo(whole.dtype).max - most) // ranks
        bound = max(1, min(most, room))
        for _ in range(ranks - 1):
            part = torch.randint(-bound, bound + 1, rest.shape, generator=rng)
            made.append(part)
            rest = rest - part
    made.insert(int(torch.randint(0, ranks, (), generator=rng)), rest)
    return [part.to(whole.dtype) for part in made]


def _factors_of_integers(whole: torch.Tensor, ranks: int, rng: torch.Generator) -> Tensors:
    """The element itself on a random rank, and signs; an index keeps its sign."""
    one = torch.ones_like(whole)
    signed = whole.numel() > 0 and int(whole.min()) < 0
    signs = [_signs(whole, rng) if signed else one for _ in range(ranks - 1)]
    signs.append(functools.reduce(torch.mul, signs, one))
    owner = _owner(whole, ranks, rng)
    return [torch.where(owner == rank, sign * whole, sign) for rank, sign in enumerate(signs)]


def _factors(whole: torch.Tensor, ranks: int, rng: torch.Generator) -> Tensors:
    wide = whole.float() if _is_short(whole.dtype) else whole
    made = []
    for _ in range(ranks - 1):
        factor = (_uniform(whole, rng) * 1.5 + 0.5).to(wide.dtype) * _signs(wide, rng)
        part = factor.to(whole.dtype)
        made.append(part)
        wide = wide / part
    made.insert(int(torch.randint(0, ranks, (), generator=rng)), wide.to(whole.dtype))
    return made


def _ordered(whole: torch.Tensor, op: str, ranks: int, rng: torch.Generator) -> Tensors:
    """On a random rank the element itself, on the others something beyond it."""
    sign = -1 if op == "max" else 1
    extreme = sign * float("inf")
    base = torch.where(whole.isfinite(), whole, 0)
    scale = _scale(whole)
    owner = _owner(whole, ranks, rng)
    made = []
    for rank in range(ranks):
        away = (sign * scale * (_uniform(whole, rng) * 2 + 0.1)).to(whole.dtype)
        beyond = torch.where(whole == extreme, whole, base + away)
        made.append(torch.where(owner == rank, whole, beyond))
    return made


def _ordered_integers(whole: torch.Tensor, op: str, ranks: int, rng: torch.Generator) -> Tensors:
    if not whole.numel():
        return [whole.clone() for _ in range(ranks)]
    wide = whole.long()
    least, most = int(wide.min()), int(wide.max())
    info = torch.iinfo(whole.dtype)
    if least >= 0:  # an index, maybe
        floor, ceiling = torch.zeros_like(wide), torch.full_like(wide, most)
    else:
        spread = most - least + 1
        floor = torch.full_like(wide, max(info.min, least - spread))
        ceiling = torch.full_like(wide, min(info.max, most + spread))
    low, high = (floor, wide) if op == "max" else (wide, ceiling)
    owner = _owner(whole, ranks, rng)
    made = []
    for rank in range(ranks):
        beyond = low + (_uniform(wide, rng) * (high - low + 1)).long().minimum(high - low)
        made.append(torch.where(owner == rank, wide, beyond).to(whole.dtype))
    return made


def _bits(whole: torch.Tensor, op: str, ranks: int, rng: torch.Generator) -> Tensors:
    negative = whole.numel() > 0 and int(whole.min()) < 0
    ends = [int(whole.min()), int(whole.max())] if whole.numel() else [1]
    most = min(max(map(abs, ends)), torch.iinfo(torch.int64).max - 1)
    noise = [
        torch.randint(-most if negative else 0, most + 1, whole.shape, generator=rng)
        for _ in range(ranks)
    ]
    random = [part.to(whole.dtype) for part in noise]
    if op == "bxor":
        return [*random[1:], functools.reduce(torch.bitwise_xor, random[1:], whole)]
    fold = torch.bitwise_or if op == "band" else torch.bitwise_and
    owner = _owner(whole, ranks, rng)
    return [
        torch.where(owner == rank, whole, fold(whole, part)) for rank, part in enumerate(random)
    ]


def _of_bools(whole: torch.Tensor, op: str, ranks: int, rng: torch.Generator) -> Tensors:
    random = [_uniform(whole, rng) < 0.5 for _ in range(ranks)]
    if op == "bxor":
        return [*random[1:], functools.reduce(torch.bitwise_xor, random[1:], whole)]
    owner = _owner(whole, ranks, rng)
    mine = [owner == rank for rank in range(ranks)]
    if op in _OR:
        return [whole & (r | m) for r, m in zip(random, mine, strict=True)]
    return [whole | (r & ~m) for r, m in zip(random, mine, strict=True)]


def _norms(whole: torch.Tensor, order: float, ranks: int, rng: torch.Generator) -> Tensors:
    if bool((whole < 0).any()):
        raise Untestable("norm parts of a tensor with negative elements")
    weights = torch.stack([_uniform(whole, rng) + 0.05 for _ in range(ranks)])
    shares = (weights / weights.sum(0)) ** (1.0 / order)
    return [(whole * share).to(whole.dtype) for share in shares]
