"""Layouts on ranks and an op run on each of them, with torch alone: the head of a repro script.

A placement is ``("R",)``, ``("S", dim)``, ``("SS", dim, split_factor)`` or ``("P", reduce_op)``. A
layout has one for each mesh dim. Local tensors are listed by rank, the last mesh dim fastest.
"""

import functools
import math
import operator
from collections.abc import Callable, Iterator
from typing import Any

import torch


def cut(
    tensor: torch.Tensor, layout: list[Any], mesh: tuple[int, ...], generator: torch.Generator
) -> list[torch.Tensor]:
    """The local tensors of a whole one, mesh dims applied from the first to the last."""
    parts = [tensor]
    for placement, ranks in zip(layout, mesh, strict=True):
        parts = [piece for part in parts for piece in pieces(part, placement, ranks, generator)]
    return [part.clone() for part in parts]


def put_together(
    parts: list[torch.Tensor], layout: list[Any], mesh: tuple[int, ...]
) -> torch.Tensor:
    """The whole tensor that local ones stand for.

    Raises:
        ValueError: they cannot be what the layout says.
    """
    for placement, ranks in reversed(list(zip(layout, mesh, strict=True))):
        groups = [parts[start : start + ranks] for start in range(0, len(parts), ranks)]
        parts = [join(group, placement) for group in groups]
    return parts[0]


def pieces(
    tensor: torch.Tensor, placement: Any, ranks: int, generator: torch.Generator
) -> list[torch.Tensor]:
    """One mesh dim: what each of its ranks holds."""
    kind, *details = placement
    if kind == "R":
        return [tensor] * ranks
    if kind == "S":
        return chunks(tensor, ranks, details[0])
    if kind == "SS":
        dim, split_factor = details
        split = [chunks(part, ranks, dim) for part in chunks(tensor, split_factor, dim)]
        return [torch.cat([part[rank] for part in split], dim) for rank in range(ranks)]
    return addends(tensor, details[0], ranks, generator)


def chunks(tensor: torch.Tensor, count: int, dim: int) -> list[torch.Tensor]:
    """As torch.chunk, with empty tensors where it gives too few."""
    size = tensor.size(dim)
    step = max(1, math.ceil(size / count))
    starts = [min(size, step * index) for index in range(count)]
    return [tensor.narrow(dim, start, min(step, size - start)) for start in starts]


def addends(
    tensor: torch.Tensor, reduce_op: str, ranks: int, generator: torch.Generator
) -> list[torch.Tensor]:
    """Random tensors that `reduce_op` makes `tensor` of."""
    if reduce_op == "avg":
        return addends(tensor * ranks, "sum", ranks, generator)
    if reduce_op in ("min", "max", "band", "bor"):
        owner = torch.randint(ranks, tensor.shape, generator=generator)
        other = [beyond(tensor, reduce_op, generator) for _ in range(ranks)]
        return [torch.where(owner == rank, tensor, other[rank]) for rank in range(ranks)]
    if reduce_op == "product":
        signs = [noise(tensor, generator).sgn() for _ in range(ranks - 1)]
        factors = [torch.where(sign == 0, torch.ones_like(sign), sign) for sign in signs]
        if tensor.is_floating_point():
            factors = [factor * (1 + noise(tensor, generator).abs()) for factor in factors]
        return [*factors, functools.reduce(torch.div, factors, tensor).to(tensor.dtype)]
    others = [noise(tensor, generator) for _ in range(ranks - 1)]
    if reduce_op == "bxor":
        return [*others, functools.reduce(operator.xor, others, tensor)]
    return [*others, functools.reduce(torch.sub, others, tensor)]


def beyond(tensor: torch.Tensor, reduce_op: str, generator: torch.Generator) -> torch.Tensor:
    """Values that do not count beside those of `tensor`."""
    if reduce_op == "band" or (tensor.dtype == torch.bool and reduce_op == "min"):
        return tensor | noise(tensor, generator)
    if reduce_op == "bor" or tensor.dtype == torch.bool:
        return tensor & noise(tensor, generator)
    distance = 1 + noise(tensor, generator).abs()
    return tensor + distance if reduce_op == "min" else tensor - distance


def noise(tensor: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Random values of a tensor's shape and dtype, about as large as its own."""
    if tensor.is_floating_point() or tensor.is_complex():
        random = torch.randn(tensor.shape, dtype=tensor.dtype, generator=generator)
        return random * (1 + tensor.abs().nan_to_num(0, 0, 0))
    low, high = (0, 2) if tensor.dtype == torch.bool else (-3, 4)
    return torch.randint(low, high, tensor.shape, generator=generator).to(tensor.dtype)


def join(parts: list[torch.Tensor], placement: Any) -> torch.Tensor:
    """One mesh dim: what its ranks' tensors make together."""
    kind, *details = placement
    if kind == "R":
        for rank, part in enumerate(parts):
            if difference := differs(parts[0], part):
                raise ValueError(f"said to be replicated, but on ranks 0 and {rank} {difference}")
        return parts[0]
    if kind == "S":
        return torch.cat(parts, details[0])
    if kind == "SS":
        dim, split_factor = details
        joined = torch.cat(parts, dim)
        places = torch.arange(joined.size(dim))
        order = pieces(places, ("SS", 0, split_factor), len(parts), torch.Generator())
        return joined.index_select(dim, torch.argsort(torch.cat(order)))
    return reduced(parts, details[0])


def reduced(parts: list[torch.Tensor], reduce_op: str) -> torch.Tensor:
    """What an all-reduce of the parts gives."""
    if reduce_op == "avg":
        total = reduced(parts, "sum")
        exact = total.is_floating_point() or total.is_complex()
        return total / len(parts) if exact else total // len(parts)
    by_name: dict[str, Callable[..., torch.Tensor]] = {
        "sum": torch.add,
        "product": torch.mul,
        "min": torch.minimum,
        "max": torch.maximum,
        "band": torch.bitwise_and,
        "bor": torch.bitwise_or,
        "bxor": torch.bitwise_xor,
    }
    return functools.reduce(by_name[reduce_op], parts)


def differs(expected: torch.Tensor, got: torch.Tensor) -> str:
    """How two tensors differ; "" where they do not."""
    if expected.shape != got.shape:
        return f"the shapes differ: {tuple(expected.shape)} and {tuple(got.shape)}"
    wide = expected.dtype in (torch.float64, torch.complex128)
    near = {"rtol": 1e-7, "atol": 1e-8} if wide else {"rtol": 1e-3, "atol": 1e-4}
    same = torch.isclose(expected, got.to(expected.dtype), equal_nan=True, **near)
    if bool(same.all()):
        return ""
    place = tuple((~same).nonzero()[0].tolist())
    return f"the values differ: {expected[place].item()} and {got[place].item()} at {place}"


def walk(value: Any) -> Iterator[torch.Tensor]:
    """The tensors in tuples, lists and dicts."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (tuple, list, dict)):
        for item in value.values() if isinstance(value, dict) else value:
            yield from walk(item)


def replace(value: Any, take: Callable[[], torch.Tensor]) -> Any:
    """The same tuples, lists and dicts with other tensors."""
    if isinstance(value, torch.Tensor):
        return take()
    if isinstance(value, dict):
        return {name: replace(item, take) for name, item in value.items()}
    if isinstance(value, (tuple, list)):
        return type(value)(replace(item, take) for item in value)
    return value


def run(op: Any, args: Any, kwargs: Any, tensors: list[torch.Tensor]) -> list[torch.Tensor]:
    """What an op gives for other tensors: its results, or what it wrote into if it returns none."""
    operands = [tensor.clone() for tensor in tensors]
    left = iter(operands)
    args, kwargs = replace((args, kwargs), lambda: next(left))
    results = list(walk(op(*args, **kwargs)))
    return results if op._schema.returns else operands


def check(
    op: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    operands: list[list[Any]],
    outputs: list[list[Any] | None],
    mesh: tuple[int, ...],
    seed: int = 0,
    size_argument: int | None = None,
) -> str:
    """Run an op on every rank and compare with the op on whole tensors; "" if that is the same.

    `operands` and `outputs` are the layouts of the tensors among the arguments and the results (of
    the operands again where the op returns nothing). `size_argument` is the position of a size that
    is the output's, of which a rank is given its own.
    """
    generator = torch.Generator().manual_seed(seed)
    whole = list(walk((args, kwargs)))
    local = [cut(t, layout, mesh, generator) for t, layout in zip(whole, operands, strict=True)]
    for place, (tensor, parts) in enumerate(zip(whole, local, strict=True)):
        if difference := differs(tensor, put_together(parts, operands[place], mesh)):
            return f"operand {place} cannot be laid out so: {difference}"
    expected = run(op, args, kwargs, whole)
    by_rank = []
    for rank in range(math.prod(mesh)):
        given = list(args)
        if size_argument is not None and outputs[0] is not None:
            shape = torch.zeros(expected[0].shape, dtype=torch.int64)
            parts = cut(shape, outputs[0], mesh, generator)
            given[size_argument] = list(parts[rank].shape)
        try:
            by_rank.append(run(op, tuple(given), kwargs, [parts[rank] for parts in local]))
        except Exception as error:
            return f"rank {rank} raises {type(error).__name__}: {error}"
    for place, (output, layout) in enumerate(zip(expected, outputs, strict=True)):
        if layout is None:
            continue
        try:
            got = put_together([results[place] for results in by_rank], layout, mesh)
        except (ValueError, RuntimeError) as error:
            return f"output {place}: {error}"
        if difference := differs(output, got):
            return f"output {place}: {difference}"
    return ""
