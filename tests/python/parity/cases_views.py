"""Views, copies, joins and factories: shapes change, or nothing does."""

from __future__ import annotations

import math

import torch
from torch._ops import OpOverload

from .builders import builds
from .dice import Dice
from .schema_args import fill
from .sketch import Problem, Sketch


@builds("propagate_single_input", "create_like", "to_copy", "random_inplace", "flip", "unbind")
@builds(*(f"aten::{name}" for name in ("alias", "contiguous", "detach", "detach_", "unbind")))
@builds(
    *(f"aten::{n}_like" for n in ("empty", "full", "ones", "zeros", "rand", "randn", "randint"))
)
@builds(*(f"aten::{name}" for name in ("fill_", "zero_", "select", "unsqueeze")), "prims::view_of")
@builds("select_int", "local_scalar_dense", "aten::_local_scalar_dense")
def one_tensor(op: OpOverload, dice: Dice) -> Problem:
    """Ops of one tensor whose other arguments the schema describes."""
    name = op._schema.name
    tensor = dice.tensor(dice.shape(dice.ndim(1), low=1), dense=op._schema.is_mutable)
    given: dict[str, object] = {op._schema.arguments[0].name: tensor}
    names = {argument.name for argument in op._schema.arguments}
    if "dtype" in names and "view" in name:
        given["dtype"] = torch.int32  # same width as float32
    if "index" in names:
        given["index"] = dice.pick((0, 0, -1))
    if name == "aten::contiguous":
        given["memory_format"] = torch.contiguous_format
    if "unbind" in name:  # one output per index: keep them few
        tensor = dice.tensor(dice.shape(tensor.ndim, low=1, high=8))
        given["self"] = tensor
    for key, value in (("from", 0.0), ("to", 1.0), ("p", 0.5), ("layout", None), ("device", None)):
        if key in names:
            given[key] = value
    for key, value in (("low", 0), ("high", 10), ("pin_memory", None), ("mean", 0.0), ("std", 1.0)):
        if key in names:
            given[key] = value
    if "_local_scalar_dense" in name:
        given["self"] = Sketch(())
    return fill(op, dice, given, tensor)


@builds("equal", "aten::equal", "aten::is_same_size")
def two_alike(op: OpOverload, dice: Dice) -> Problem:
    shape = dice.shape()
    return fill(op, dice, {"self": dice.tensor(shape), "other": dice.tensor(shape)})


@builds("new_factory")
@builds(*(f"aten::new_{name}" for name in ("empty", "full", "ones", "zeros", "empty_strided")))
def new_factory(op: OpOverload, dice: Dice) -> Problem:
    """The rule with negative costs: it likes the input's own sharding when the shapes agree."""
    tensor = dice.tensor(dice.shape(dice.ndim(1)))
    size = list(tensor.shape) if dice.chance(0.6) else list(dice.shape(dice.ndim(1)))
    given: dict[str, object] = {"self": tensor, "size": size}
    if "strided" in op._schema.name:
        given["stride"] = list(Sketch(tuple(size)).stride)
    names = {argument.name for argument in op._schema.arguments}
    given |= {key: None for key in ("layout", "device", "pin_memory") if key in names}
    return fill(op, dice, given, tensor)


@builds("aten::randint_like.low_dtype_out")
def randint_like_out(op: OpOverload, dice: Dice) -> Problem:
    tensor = dice.tensor(dice.shape(), dense=True)
    return Problem(op, (tensor, 0, 10), {"out": tensor})


@builds("aten::eye.m_out")
def eye_out(op: OpOverload, dice: Dice) -> Problem:
    size = dice.shape(2)
    return Problem(op, size, {"out": Sketch(size)})


@builds("roll")
def roll(op: OpOverload, dice: Dice) -> Problem:
    tensor = dice.tensor(dice.shape(dice.ndim(1), low=1))
    dims = dice.dims(tensor.ndim, low=0)
    shifts = [dice.pick((1, -1, 2)) for _ in dims] or [1]
    return fill(op, dice, {"self": tensor, "shifts": shifts, "dims": dims})


@builds("view_as_complex")
def view_as_complex(op: OpOverload, dice: Dice) -> Problem:
    return fill(op, dice, {"self": Sketch((*dice.shape(dice.ndim(0, 3)), 2))})


@builds("aten::view_as_real")
def view_as_real(op: OpOverload, dice: Dice) -> Problem:
    return fill(op, dice, {"self": Sketch(dice.shape(dice.ndim(0, 3)), torch.complex64)})


# Shape changes ------------------------------------------------------------------------------------


@builds("aten::view.default", "aten::reshape", "aten::_unsafe_view", "aten::view_copy.default")
def view(op: OpOverload, dice: Dice) -> Problem:
    """Flattens and splits groups of dims, which makes strided shards and takes them apart."""
    shape = dice.shape(dice.ndim(1), low=1, high=4096)
    size: list[int] = []
    start = 0
    while start < len(shape):
        end = dice.between(start + 1, min(start + 3, len(shape)))
        kept = end == start + 1 and dice.chance(0.5)
        size += [shape[start]] if kept else _split(shape[start:end], dice)
        start = end
    if dice.chance(0.15):
        size.insert(dice.between(0, len(size)), 1)
    if dice.chance(0.2):
        size[dice.between(0, len(size) - 1)] = -1
    return fill(op, dice, {"self": Sketch(shape), "size" if _has(op, "size") else "shape": size})


def _split(shape: tuple[int, ...], dice: Dice) -> list[int]:
    """A product of up to three factors as large as that of the shape."""
    rest = math.prod(shape)
    pieces = []
    for _ in range(dice.pick((0, 0, 1, 2))):
        factors = [f for f in (2, 3, 4, 8, *dice.mesh.sizes, *shape) if rest % f == 0] or [1]
        pieces.append(dice.pick(factors))
        rest //= pieces[-1]
    return [rest, *pieces] if dice.chance(0.5) else [*pieces, rest]


@builds("aten::view.dtype")
def view_dtype(op: OpOverload, dice: Dice) -> Problem:
    return fill(op, dice, {"self": Sketch(dice.shape()), "dtype": torch.int32})


@builds("aten::expand", "aten::expand_copy")
def expand(op: OpOverload, dice: Dice) -> Problem:
    shape = tuple(1 if dice.chance(0.4) else size for size in dice.shape(dice.ndim(1, 3)))
    size = [dice.size(low=1, high=64) if old == 1 else old for old in shape]
    if dice.chance(0.3):
        size.insert(0, dice.size(low=1, high=8))
    return fill(op, dice, {"self": Sketch(shape), "size": size, "implicit": False})


@builds("aten::permute")
def permute(op: OpOverload, dice: Dice) -> Problem:
    tensor = dice.tensor(dice.shape(dice.ndim(1)))
    return fill(op, dice, {"self": tensor, "dims": dice.sample(tensor.ndim, tensor.ndim)})


@builds("aten::transpose")
def transpose(op: OpOverload, dice: Dice) -> Problem:
    tensor = dice.tensor(dice.shape(dice.ndim(1)))
    given = {"self": tensor, "dim0": dice.dim(tensor.ndim), "dim1": dice.dim(tensor.ndim)}
    return fill(op, dice, given)


@builds("transpose", "aten::t")
def t(op: OpOverload, dice: Dice) -> Problem:
    return fill(op, dice, {"self": dice.tensor(dice.shape(dice.between(0, 2)))})


@builds("aten::squeeze", "aten::squeeze_")
def squeeze(op: OpOverload, dice: Dice) -> Problem:
    shape = tuple(1 if dice.chance(0.4) else size for size in dice.shape(dice.ndim(1)))
    tensor = Sketch(shape)
    return fill(op, dice, {"self": tensor}, tensor)


@builds("aten::repeat")
def repeat(op: OpOverload, dice: Dice) -> Problem:
    shape = dice.shape(dice.ndim(1, 3), high=64)
    repeats = [dice.pick((1, 1, 2, 3)) for _ in shape]
    if dice.chance(0.2):
        repeats.insert(0, dice.pick((1, 2)))
    return fill(op, dice, {"self": Sketch(shape), "repeats": repeats})


@builds("slice", "aten::slice")
def slice_(op: OpOverload, dice: Dice) -> Problem:
    tensor = dice.tensor(dice.shape(dice.ndim(1), low=1))
    dim = dice.dim(tensor.ndim)
    return fill(op, dice, {"self": tensor, "dim": dim} | _bounds(tensor.shape[dim], dice))


def _bounds(size: int, dice: Dice) -> dict[str, object]:
    """Start, end and step of a slice: the whole dim, all but its end, or any part of it."""
    if dice.chance(0.4):
        start: int | None = dice.pick((0, 0, None, -size))
        end: int | None = dice.pick((size, size, None, 2 * size, (1 << 63) - 1))
        return {"start": start, "end": end, "step": 1}
    if dice.chance(0.4):
        return {"start": 0, "end": dice.between(0, size), "step": 1}
    start = dice.between(0, size)
    end = dice.between(start, size)
    given: dict[str, object] = {"start": start, "end": end, "step": dice.pick((1, 1, 2))}
    if dice.chance(0.3):
        given |= {"start": start - size} if start < size else {}
        given |= {"end": end - size} if end < size else {}
    return given


@builds("select_backward", "slice_backward", "aten::select_backward", "aten::slice_backward")
def piece_backward(op: OpOverload, dice: Dice) -> Problem:
    sizes = dice.shape(dice.ndim(1, 3), low=1)
    dim = dice.between(0, len(sizes) - 1)
    given: dict[str, object] = {"input_sizes": list(sizes)}
    given["dim"] = dim - len(sizes) if dice.chance(0.15) else dim
    if "select" in op._schema.name:
        index = dice.pick((0, 0, sizes[dim] - 1, -1))
        given |= {"grad_output": dice.tensor(sizes[:dim] + sizes[dim + 1 :]), "index": index}
    else:
        start = dice.between(0, sizes[dim] - 1) if dice.chance(0.3) else 0
        end = dice.between(start + 1, sizes[dim])
        step = dice.pick((1, 1, 2))
        piece = (*sizes[:dim], -(-(end - start) // step), *sizes[dim + 1 :])
        given |= {"grad_output": dice.tensor(piece), "start": start, "end": end, "step": step}
    return fill(op, dice, given)


@builds("split", "aten::split", "aten::split_with_sizes", "aten::split_with_sizes_copy")
def split(op: OpOverload, dice: Dice) -> Problem:
    shape = list(dice.shape(dice.ndim(1, 3), low=1, high=256))
    dim = dice.dim(len(shape))
    pieces = dice.between(1, 4)
    if _has(op, "split_size"):
        given: dict[str, object] = {"split_size": -(-shape[dim] // pieces)}
    else:
        sizes = [dice.size(low=1, high=64) for _ in range(pieces)]
        shape[dim] = sum(sizes)
        given = {"split_sizes": sizes}
    return fill(op, dice, given | {"self": dice.tensor(shape), "dim": dim})


# Joins --------------------------------------------------------------------------------------------


@builds("cat", "aten::cat")
def cat(op: OpOverload, dice: Dice) -> Problem:
    shape = dice.shape(dice.ndim(1, 3), low=1)
    dim = dice.between(0, len(shape) - 1)
    tensors = []
    for _ in range(dice.pick((1, 2, 2, 3))):
        size = shape[dim] if dice.chance(0.5) else dice.size(high=64)
        tensors.append(dice.tensor((*shape[:dim], size, *shape[dim + 1 :])))
    return fill(op, dice, {"tensors": tensors, "dim": dim - dice.pick((0, 0, len(shape)))})


@builds("aten::stack")
def stack(op: OpOverload, dice: Dice) -> Problem:
    shape = dice.shape(dice.ndim(1, 3))
    tensors = [dice.tensor(shape) for _ in range(dice.between(1, 3))]
    dim = dice.between(0, len(shape)) - (len(shape) + 1 if dice.chance(0.2) else 0)
    return fill(op, dice, {"tensors": tensors, "dim": dim})


def _has(op: OpOverload, name: str) -> bool:
    return any(argument.name == name for argument in op._schema.arguments)
