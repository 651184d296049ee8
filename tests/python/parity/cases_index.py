"""Embedding, indexing, gather and scatter."""

from __future__ import annotations

import torch
from torch._ops import OpOverload

from .builders import builds
from .dice import Dice
from .schema_args import fill
from .sketch import Problem, Sketch

_INDEX = torch.int64


@builds("embedding")
def embedding(op: OpOverload, dice: Dice) -> Problem:
    """The rule whose output is a `_MaskPartial` when the rows of the table are sharded."""
    table = dice.tensor(dice.shape(2, low=1), dense=True)
    indices = Sketch(dice.shape(dice.between(0, 2)), _INDEX)
    return fill(op, dice, {"weight": table, "indices": indices, "padding_idx": -1})


@builds("embedding_dense_backward")
def embedding_dense_backward(op: OpOverload, dice: Dice) -> Problem:
    rows, width = dice.shape(2, low=1)
    indices = Sketch(dice.shape(dice.between(1, 2)), _INDEX)
    given: dict[str, object] = {
        "grad_output": dice.tensor((*indices.shape, width), dense=True),
        "indices": indices,
        "num_weights": rows,
        "padding_idx": -1,
        "scale_grad_by_freq": False,
    }
    return fill(op, dice, given)


@builds("index_select")
def index_select(op: OpOverload, dice: Dice) -> Problem:
    tensor, dim = _along(dice)
    return fill(op, dice, {"self": tensor, "dim": dim, "index": _indices(dice)})


@builds("index_fill_scalar", "index_fill_tensor")
def index_fill(op: OpOverload, dice: Dice) -> Problem:
    tensor, dim = _along(dice)
    given: dict[str, object] = {"self": tensor, "dim": dim, "index": _indices(dice)}
    given["value"] = Sketch(()) if "Tensor" in op._schema.overload_name else dice.pick((0, 1))
    return fill(op, dice, given)


@builds("index_reduce")
def index_reduce(op: OpOverload, dice: Dice) -> Problem:
    tensor, dim = _along(dice)
    index = _indices(dice)
    shape = list(tensor.shape)
    shape[dim] = index.shape[0]
    given = {"self": tensor, "dim": dim, "index": index, "source": dice.tensor(shape)}
    return fill(op, dice, given)


@builds("index")
def index(op: OpOverload, dice: Dice) -> Problem:
    tensor, indices = _multi_index(dice)
    return fill(op, dice, {"self": tensor, "indices": indices})


@builds("index_put")
def index_put(op: OpOverload, dice: Dice) -> Problem:
    tensor, indices = _multi_index(dice)
    picked = [i for i in indices if isinstance(i, Sketch)]
    common = tuple(torch.broadcast_shapes(*(i.shape for i in picked)))
    indexed = [dim for dim, i in enumerate(indices) if i is not None]
    kept = [size for dim, size in enumerate(tensor.shape) if dim not in indexed]
    together = indexed[-1] - indexed[0] + 1 == len(indexed)
    front = indexed[0] if together else 0
    shape = (*kept[:front], *common, *kept[front:])
    values = dice.tensor(dice.broadcastable(shape) if dice.chance(0.4) else shape)
    return fill(op, dice, {"self": tensor, "indices": indices, "values": values})


@builds("gather", "aten::gather")
def gather(op: OpOverload, dice: Dice) -> Problem:
    tensor, dim = _along(dice)
    return fill(op, dice, {"self": tensor, "dim": dim, "index": _index_like(tensor, dim, dice)})


@builds("scatter", "scatter_add", "aten::scatter", "aten::scatter_", "aten::scatter_add")
def scatter(op: OpOverload, dice: Dice) -> Problem:
    tensor, dim = _along(dice)
    given: dict[str, object] = {"self": tensor, "dim": dim}
    index = given["index"] = _index_like(tensor, dim, dice)
    if any(argument.name == "src" for argument in op._schema.arguments):
        # Of a source that is larger, only as much is read as the index has.
        larger = [size + dice.pick((0, 0, 1, 8)) for size in index.shape]
        given["src"] = Sketch(index.shape if dice.chance(0.6) else tuple(larger))
    else:
        given["value"] = dice.pick((0, 1, 0.5))
    return fill(op, dice, given)


@builds("select_scatter")
def select_scatter(op: OpOverload, dice: Dice) -> Problem:
    tensor, dim = _along(dice)
    source = dice.tensor(_without(tensor.shape, dim))
    return fill(op, dice, {"self": tensor, "src": source, "dim": dim, "index": 0})


@builds("slice_scatter", "aten::slice_scatter")
def slice_scatter(op: OpOverload, dice: Dice) -> Problem:
    tensor, dim = _along(dice)
    start = dice.between(0, tensor.shape[dim]) if dice.chance(0.4) else 0
    end = dice.between(start, tensor.shape[dim])
    step = dice.pick((1, 1, 2))
    shape = list(tensor.shape)
    shape[dim] = -(-(end - start) // step)
    given: dict[str, object] = {"self": tensor, "src": dice.tensor(shape)}
    given["dim"] = dim - tensor.ndim if dice.chance(0.2) else dim
    return fill(op, dice, given | {"start": start, "end": end, "step": step})


@builds("diagonal_scatter")
def diagonal_scatter(op: OpOverload, dice: Dice) -> Problem:
    tensor = dice.tensor(dice.shape(dice.between(2, 3), low=1))
    first, second = dice.sample(tensor.ndim, 2)
    rest = [size for dim, size in enumerate(tensor.shape) if dim not in (first, second)]
    source = dice.tensor((*rest, min(tensor.shape[first], tensor.shape[second])))
    return fill(
        op, dice, {"self": tensor, "src": source, "offset": 0, "dim1": first, "dim2": second}
    )


@builds("bucketize")
def bucketize(op: OpOverload, dice: Dice) -> Problem:
    given = {"self": dice.tensor(dice.shape()), "boundaries": Sketch(dice.shape(1, low=1))}
    return fill(op, dice, given)


@builds("multinomial")
def multinomial(op: OpOverload, dice: Dice) -> Problem:
    weights = Sketch(dice.shape(dice.between(1, 2), low=2))
    given = {"self": weights, "num_samples": dice.between(1, 2), "replacement": dice.chance(0.3)}
    return fill(op, dice, given)


def _along(dice: Dice) -> tuple[Sketch, int]:
    """A tensor and one of its dims, counted from the front."""
    tensor = dice.tensor(dice.shape(dice.ndim(1, 3), low=1), dense=dice.chance(0.7))
    return tensor, dice.between(0, tensor.ndim - 1)


def _indices(dice: Dice) -> Sketch:
    return Sketch(dice.shape(1), _INDEX)


def _index_like(tensor: Sketch, dim: int, dice: Dice) -> Sketch:
    """An index that fits the tensor on every dim but `dim`, where it is free."""
    shape = list(tensor.shape)
    if dice.chance(0.3):
        shape = [dice.between(1, size) for size in shape]
    shape[dim] = dice.size(high=64) if dice.chance(0.5) else shape[dim]
    return Sketch(tuple(shape), _INDEX)


def _multi_index(dice: Dice) -> tuple[Sketch, list[Sketch | None]]:
    """A tensor and a list of index tensors with gaps, as `x[:, i, j]` gives them."""
    tensor = dice.tensor(dice.shape(dice.ndim(1, 3), low=1), dense=True)
    common = dice.shape(dice.pick((1, 1, 1, 2)))
    indexed = sorted(dice.sample(tensor.ndim, dice.between(1, min(2, tensor.ndim))))
    indices: list[Sketch | None] = [None] * (indexed[-1] + 1)
    for dim in indexed:
        indices[dim] = Sketch(dice.broadcastable(common), _INDEX)
    return tensor, indices


def _without(shape: tuple[int, ...], dim: int) -> tuple[int, ...]:
    return shape[:dim] + shape[dim + 1 :]
