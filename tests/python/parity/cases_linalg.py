"""Linear algebra over batches of matrices, FFTs, and triangles and diagonals."""

from __future__ import annotations

import torch
from torch._ops import OpOverload

from .builders import builds
from .dice import Dice
from .schema_args import fill
from .sketch import Problem, Sketch

# The role of each tensor argument by its name. "input2" is the matrix of cholesky_solve and the
# reflectors' scales of ormqr, see _ROLES_OF.
_ROLES = {
    "A": "square",
    "LD": "square",
    "LU": "square",
    "LU_data": "square",
    "pivots": "pivots",
    "LU_pivots": "pivots",
    "B": "rhs",
    "tau": "scales",
    "info": "info",
    "input": "square",
    "self": "square",
    "input2": "scales",
    "input3": "rhs",
}
_ROLES_OF = {
    "aten::cholesky_solve": {"self": "rhs", "input2": "square"},
    "aten::triangular_solve": {"self": "rhs"},
}


@builds("linalg_batch_dim")
def linalg(op: OpOverload, dice: Dice) -> Problem:
    batch = dice.shape(dice.pick((0, 1, 1, 2)))
    size, columns = dice.size(low=1, high=64), dice.size(low=1, high=64)
    shapes = {
        "square": (*batch, size, size),
        "rhs": (*batch, size, columns),
        "scales": (*batch, size),
        "pivots": (*batch, size),
        "info": batch,
    }
    roles = _ROLES | _ROLES_OF.get(op._schema.name, {})
    given: dict[str, object] = {}
    for argument in op._schema.arguments:
        if str(argument.type) == "Tensor" and not argument.is_out:
            role = roles[argument.name]
            dtype = torch.int32 if role in ("pivots", "info") else torch.float32
            given[argument.name] = dice.tensor(shapes[role], dtype, dense=role != "rhs")
    # Solving from the right would want other shapes.
    if any(argument.name == "left" for argument in op._schema.arguments):
        given["left"] = True
    return fill(op, dice, given)


@builds("linalg_pinv")
def pinv(op: OpOverload, dice: Dice) -> Problem:
    tensor = dice.tensor(dice.shape(dice.between(2, 4), low=1, high=4096))
    given: dict[str, object] = {"self": tensor, "hermitian": False}
    for name in ("atol", "rtol"):
        given[name] = Sketch(()) if dice.chance(0.4) else None
    return fill(op, dice, given)


@builds("linalg_cross")
def cross(op: OpOverload, dice: Dice) -> Problem:
    shape = list(dice.shape(dice.ndim(1, 3)))
    dim = dice.between(0, len(shape) - 1)
    shape[dim] = 3
    given = {"self": dice.tensor(shape), "other": dice.tensor(shape), "dim": dim}
    return fill(op, dice, given)


@builds(
    "linalg_replicate",
    *(f"aten::{name}" for name in ("_linalg_svd", "linalg_qr", "_linalg_eigh", "tril", "triu")),
    *(f"aten::{name}" for name in ("diag", "diagonal", "diagonal_copy", "diag_embed")),
)
def replicated_linalg(op: OpOverload, dice: Dice) -> Problem:
    """Ops that want whole matrices: their only strategy is to replicate the input."""
    plain_diag = op._schema.name == "aten::diag"  # of a vector or of a matrix
    shape = list(dice.shape(2 if plain_diag else dice.between(2, 3), low=1, high=4096))
    shape[-1] = shape[-2]  # eigh wants square matrices, the others do not mind
    tensor = dice.tensor(shape)
    given: dict[str, object] = {op._schema.arguments[0].name: tensor}
    names = {argument.name for argument in op._schema.arguments}
    if "dim1" in names:
        given |= {"offset": dice.pick((0, 0, 1)), "dim1": -2, "dim2": -1}
    if "diagonal" in names:
        given["diagonal"] = dice.pick((0, 0, 1))
    return fill(op, dice, given, tensor)


@builds("fft")
def fft(op: OpOverload, dice: Dice) -> Problem:
    complex_input = "r2c" not in op._schema.name
    dtype = torch.complex64 if complex_input else torch.float32
    tensor = dice.tensor(dice.shape(dice.ndim(1, 3), low=1, high=4096), dtype, dense=True)
    dims = dice.dims(tensor.ndim, low=1)
    given: dict[str, object] = {"self": tensor, "dim": dims, "normalization": dice.between(0, 2)}
    if "c2r" in op._schema.name:
        given["last_dim_size"] = max(1, 2 * (tensor.shape[dims[-1]] - 1))
    return fill(op, dice, given)
