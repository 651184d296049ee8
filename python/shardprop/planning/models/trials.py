"""Which strategies of an op run on what ranks would hold."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from ... import _torch
from ..._torch import (
    DeviceMesh,
    DTensorSpec,
    OpOverload,
    OpSchema,
    Replicate,
    TensorMeta,
    is_shard,
    make_spec,
)
from ...model.local_shapes import Shape, shapes_held
from ...model.op_traits import traits_of
from ...model.placements import Placements
from ...rules.torch_registry import op_schema
from ..strategies import Strategies
from .moves import strides_like
from .program import each_of

__all__ = ["Trials"]

_META = torch.device("meta")
# What one rank holds of the operands, and then of the outputs that are there.
_Held = tuple[Shape, ...]


class Trials:
    """Calls ops on tensors without data, of the shapes that ranks would hold.

    Args:
        mesh: Of these ranks.
    """

    def __init__(self, mesh: DeviceMesh) -> None:
        self._mesh = mesh

    def run(
        self, op: OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any], found: Strategies
    ) -> NDArray[np.bool_]:
        """Per strategy of an op: does no rank raise, and does each get what the outputs' layouts
        say?

        Args:
            op: The op.
            args: Its arguments, with the metadata of whole tensors in place of these.
            kwargs: Its keyword arguments, likewise.
            found: The strategies.
        """
        operands, outputs = found.local_shapes()
        shapes = [*operands, *(shape for shape in outputs if shape is not None)]
        present = (found.outputs >= 0).astype(np.int64)
        kinds = np.concatenate([present, *shapes], axis=1)
        # Ranks that hold different shapes of what does not divide are told apart by the layouts.
        uneven = ~self._are_even(found, operands, outputs)
        layouts = np.where(uneven[:, None], np.concatenate([found.operands, found.outputs], 1), -1)
        rows = np.concatenate([kinds, layouts], axis=1)
        _, first, kind = np.unique(rows, axis=0, return_index=True, return_inverse=True)
        call = _LocalCall(op, args, kwargs, found)
        with torch.no_grad(), _torch.without_autocast():
            verdicts = [
                all(
                    call.runs(held, found.outputs[at] >= 0)
                    for held in (
                        self._held(found, at) if uneven[at] else {self._alike(found, at, shapes)}
                    )
                )
                for at in first.tolist()
            ]
        return np.array(verdicts, bool)[kind.reshape(-1)]

    def _are_even(
        self,
        found: Strategies,
        operands: Sequence[NDArray[np.int64]],
        outputs: Sequence[NDArray[np.int64] | None],
    ) -> NDArray[np.bool_]:
        """Per strategy: do all ranks hold as much of each tensor?"""
        even = np.ones(len(found), bool)
        held = [*zip(found.operands.T, operands, found.operand_metas, strict=True)]
        held += [
            (numbers, shapes, meta)
            for numbers, shapes, meta in zip(
                found.outputs.T, outputs, found.output_metas, strict=True
            )
            if shapes is not None and meta is not None
        ]
        for numbers, shapes, meta in held:
            distinct, classes = np.unique(numbers, return_inverse=True)
            pieces = np.array(
                [0 if n < 0 else self._pieces(found.layouts[n]) for n in distinct.tolist()]
            )
            of_all = shapes.prod(axis=1) * pieces[classes.reshape(-1)]
            even &= (numbers < 0) | (of_all == math.prod(meta.shape))
        return even

    def _pieces(self, layout: Placements) -> int:
        """Into how many shards a tensor is cut."""
        sizes = zip(self._mesh.shape, layout, strict=True)
        return math.prod(ranks for ranks, placement in sizes if is_shard(placement))

    def _alike(self, found: Strategies, at: int, shapes: Sequence[NDArray[np.int64]]) -> _Held:
        """What each rank holds, where all hold as much."""
        there = [meta is not None for meta in found.output_metas]
        numbers = [*found.operands[at].tolist(), *found.outputs[at][there].tolist()]
        return tuple(
            tuple(shape[at].tolist())
            for shape, number in zip(shapes, numbers, strict=True)
            if number >= 0
        )

    def _held(self, found: Strategies, at: int) -> set[_Held]:
        """What some ranks hold."""
        metas = [*found.operand_metas, *found.output_metas]
        numbers = [*found.operands[at].tolist(), *found.outputs[at].tolist()]
        there = [
            (tuple(meta.shape), found.layouts[number])
            for meta, number in zip(metas, numbers, strict=True)
            if meta is not None and number >= 0
        ]
        whole, layouts = [shape for shape, _ in there], [layout for _, layout in there]
        return shapes_held(whole, layouts, self._mesh.shape)


class _LocalCall:
    """One op, called as ranks would call it."""

    def __init__(
        self,
        op: OpOverload,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        found: Strategies,
    ) -> None:
        self._op = op
        self._args, self._kwargs = args, kwargs
        self._found = found
        self._known: dict[tuple[_Held, tuple[bool, ...]], bool] = {}

    def runs(self, held: _Held, there: Sequence[bool]) -> bool:
        """Does a rank that holds these shapes get what a strategy says it does?

        Args:
            held: The shapes.
            there: Per output whether the strategy has it.
        """
        key = held, tuple(there)
        if key not in self._known:
            operands = len(self._found.operand_metas)
            planned = iter(held[operands:])
            outputs = [next(planned) if is_there else None for is_there in there]
            self._known[key] = self._gives(held[:operands], outputs)
        return self._known[key]

    def _gives(self, operands: Sequence[Shape], outputs: Sequence[Shape | None]) -> bool:
        schema = self._local_schema(operands, outputs)
        args, kwargs = (
            each_of(DTensorSpec, self._tensor, part)
            for part in (schema.args_schema, schema.kwargs_schema)
        )
        args, kwargs = (each_of(torch.device, lambda _: _META, part) for part in (args, kwargs))
        try:
            made = schema.op(*args, **kwargs)
        except NotImplementedError:  # it has no kernel without data
            return True
        except Exception:  # whatever an op raises of itself
            return False
        results = made if isinstance(made, (list, tuple)) else [made]
        return len(results) == len(outputs) and all(
            planned is None or result is None or tuple(result.shape) == planned
            for result, planned in zip(results, outputs, strict=True)
        )

    def _local_schema(self, operands: Sequence[Shape], outputs: Sequence[Shape | None]) -> OpSchema:
        """The call of a rank, with the sizes that torch rewrites to local ones."""
        shapes = iter(operands)
        mesh, rewrites = self._found.mesh, traits_of(self._op).rewrites
        everywhere = (Replicate(),) * mesh.ndim

        def local(meta: TensorMeta) -> DTensorSpec:
            shape = torch.Size(next(shapes))
            own = TensorMeta(shape, strides_like(meta.stride, shape), meta.dtype)
            return make_spec(mesh, everywhere, own)

        args, kwargs = (each_of(TensorMeta, local, part) for part in (self._args, self._kwargs))
        schema = op_schema(self._op, tuple(args), dict(kwargs))
        if rewrites.squeeze is not None:
            schema = self._squeezing(schema)
        if rewrites.adjust_scalars is not None:
            schema = rewrites.adjust_scalars(schema.args_spec, schema)
        if rewrites.shape is None or outputs[0] is None:
            return schema
        meta = self._found.output_metas[0]
        assert meta is not None
        at, *stride_at = rewrites.positions
        rewritten = [*schema.args_schema]
        rewritten[at] = outputs[0]
        for position in stride_at:
            rewritten[position] = strides_like(meta.stride, outputs[0])
        return op_schema(schema.op, tuple(rewritten), schema.kwargs_schema)

    def _squeezing(self, schema: OpSchema) -> OpSchema:
        """A squeeze of the dims that are 1 in the whole tensor, not of all that are in a shard."""
        (meta,), (local,) = self._found.operand_metas, schema.args_spec
        whole = op_schema(
            schema.op, (make_spec(local.mesh, local.placements, meta), *schema.args_schema[1:]), {}
        )
        named = _torch.with_global_singletons(whole)
        return schema if named is None else op_schema(named.op, (local, *named.args_schema[1:]), {})

    def _tensor(self, spec: DTensorSpec) -> torch.Tensor:
        meta = spec.tensor_meta
        assert meta is not None
        return torch.empty_strided(
            tuple(meta.shape), tuple(meta.stride), dtype=meta.dtype, device=_META
        )
