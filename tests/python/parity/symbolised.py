"""A drawn case with some of its sizes made symbolic: equal sizes become one symbol.

That keeps the operands fitting together, save where an argument names a size (a view's shape): such
calls are errors for both, or guard that the size is what it is.
"""

from __future__ import annotations

import random
from typing import Any

import torch
from torch.distributed.tensor._dtensor_spec import DTensorSpec, TensorMeta

from ..quiet import quiet
from ..symbolic import Answer, Symbols, ask
from .case import Case
from .layouts import Kind, Operand
from .meshes import ensure_process_group
from .mix import Mix
from .sketch import Sketch, contiguous, map_leaves

# torch takes a hundred times as long for expressions as for numbers.
MIX = Mix(
    mesh_ndim={1: 60, 2: 40},
    kind={Kind.PLAIN: 92, Kind.MASK_PARTIAL: 4, Kind.STRIDED_ORDER: 4},
    full_mesh=0.0,
    decomposed=0.0,
    budget_ms={2.5: 60, 5.0: 40},
)


def chosen_sizes(rng: random.Random, case: Case) -> set[int]:
    """The sizes of the case that become symbols; torch specialises on 0 and 1."""
    sizes = sorted({size for o in case.operands() for size in o.sketch.shape if size > 1})
    if not sizes:
        return set()
    return {size for size in sizes if rng.random() < 0.6} or {rng.choice(sizes)}


def ask_symbolically(case: Case, sizes: set[int]) -> Answer:
    """The answer of whoever decides now."""
    ensure_process_group()
    schema = case.schema()  # builds its meshes, which is not to be traced

    def arguments(symbols: Symbols) -> tuple[tuple[Any, ...], dict[str, Any]]:
        def spec(operand: Operand) -> DTensorSpec:
            return _spec(operand, symbols, sizes)

        args = tuple(map_leaves(Operand, spec, arg) for arg in case.args)
        kwargs = {name: map_leaves(Operand, spec, arg) for name, arg in case.kwargs.items()}
        return args, kwargs

    with quiet():
        return ask(case.op, arguments, schema.schema_info)


def _spec(operand: Operand, symbols: Symbols, sizes: set[int]) -> DTensorSpec:
    sketch, layout = operand.sketch, operand.layout
    shape = [symbols.backed(f"n{n}", n) if n in sizes else n for n in sketch.shape]
    tensor = torch.empty_strided(shape, _stride(sketch, shape), dtype=sketch.dtype, device="meta")
    return DTensorSpec(
        layout.mesh.build(),
        layout.placements,
        tensor_meta=TensorMeta(tensor.shape, tensor.stride(), tensor.dtype),
        shard_order=layout.shard_order,  # type: ignore[arg-type]
        use_strided_shard_as_shard_order=layout.strided_is_order,
    )


def _stride(sketch: Sketch, shape: list[Any]) -> list[Any]:
    """Of a contiguous tensor the strides in its symbols, of any other those it has now."""
    if sketch.stride != contiguous(sketch.shape):
        return list(sketch.stride)
    stride: list[Any] = []
    step: Any = 1
    for size in reversed(shape):
        stride.insert(0, step)
        step = step * size
    return stride
