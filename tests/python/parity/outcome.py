"""What a propagation answered, as plain text values that compare exactly and read well.

Specs become records of strings and ints. Mask buffers, which compare by identity, are numbered in
order of appearance, inputs first; so "the output carries the mask of the indices" is comparable
between two runs that made different buffers.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from torch.distributed.tensor import Partial, Replicate, Shard
from torch.distributed.tensor._dtensor_spec import DTensorSpec, TensorMeta
from torch.distributed.tensor._op_schema import OpSchema, OutputSharding
from torch.distributed.tensor.placement_types import _MaskPartial, _StridedShard

from .meshes import describe_mesh


@dataclass(frozen=True)
class Outcome:
    """Either an error, or everything DTensor reads of an OutputSharding."""

    error: tuple[str, str] | None = None
    output: object = None
    needs_redistribute: bool = False
    use_val_from_redistribute_schema: bool = False
    redistribute_op: str | None = None
    redistribute_args: object = None
    redistribute_kwargs: object = None
    # The specs that were passed in, read again afterwards: writing into them would be a defect.
    inputs_after: object = None

    def differing(self, other: Outcome) -> list[str]:
        names = [f.name for f in dataclasses.fields(self)]
        return [name for name in names if getattr(self, name) != getattr(other, name)]


class Normalizer:
    """Turns specs and values into comparable ones; numbers mask buffers as it meets them."""

    def __init__(self) -> None:
        self._buffers: list[object] = []  # keeps them alive, so that ids stay distinct

    def inputs(self, schema: OpSchema) -> object:
        return ("inputs", self.value(schema.args_schema), self.value(schema.kwargs_schema))

    def sharding(self, sharding: OutputSharding, inputs: OpSchema) -> Outcome:
        after = self.inputs(inputs)
        wanted = sharding.redistribute_schema
        return Outcome(
            output=self.value(sharding.output_spec),
            needs_redistribute=sharding.needs_redistribute,
            use_val_from_redistribute_schema=sharding.use_val_from_redistribute_schema,
            redistribute_op=None if wanted is None else str(wanted.op),
            redistribute_args=None if wanted is None else self.value(wanted.args_schema),
            redistribute_kwargs=None if wanted is None else self.value(wanted.kwargs_schema),
            inputs_after=after,
        )

    def value(self, value: Any) -> object:
        if isinstance(value, DTensorSpec):
            return self._spec(value)
        # Type names keep a list from equalling a tuple where torch tells them apart.
        if isinstance(value, TensorMeta):
            return ("meta", tuple(value.shape), tuple(value.stride), str(value.dtype))
        if isinstance(value, (list, tuple)):
            return (type(value).__name__, *(self.value(item) for item in value))
        if isinstance(value, dict):
            return ("dict", *((str(key), self.value(item)) for key, item in value.items()))
        if isinstance(value, (bool, int, float, complex, str, type(None))):
            return (type(value).__name__, repr(value))
        return str(value)

    def _spec(self, spec: DTensorSpec) -> object:
        order = spec.shard_order
        return (
            "spec",
            describe_mesh(spec.mesh),
            tuple(self.placement(p) for p in spec.placements),
            None if order is None else tuple((e.tensor_dim, tuple(e.mesh_dims)) for e in order),
            spec.use_strided_shard_as_shard_order,
            self.value(spec.tensor_meta),
        )

    def placement(self, placement: Any) -> str:
        kind = type(placement)
        if kind is Shard:
            return f"S({placement.dim})"
        if kind is _StridedShard:
            return f"SS({placement.dim},{placement.split_factor})"
        if kind is Replicate:
            return "R"
        if kind is Partial:
            return f"P({placement.reduce_op})"
        if kind is _MaskPartial:
            return (
                f"MP({placement.reduce_op},{tuple(placement.offset_shape)},"
                f"{placement.offset_dim},mask{self._buffer(placement.mask_buffer)})"
            )
        return f"{kind.__name__}:{placement!r}"

    def _buffer(self, buffer: object) -> int:
        for index, known in enumerate(self._buffers):
            if known is buffer:
                return index
        self._buffers.append(buffer)
        return len(self._buffers) - 1


def error_outcome(error: BaseException) -> Outcome:
    return Outcome(error=(type(error).__name__, _stable(str(error))))


def _stable(message: str) -> str:
    """An error's text without addresses and C++ frames, which differ from run to run."""
    import re

    return re.sub(r"0x[0-9a-f]+", "0x", message.partition("Exception raised from")[0])


def render(outcome: Outcome) -> str:
    """An outcome as a few indented lines."""
    if outcome.error is not None:
        return f"    {outcome.error[0]}: {outcome.error[1]}"
    lines = [f"    output {_short(outcome.output)}"]
    lines.append(
        f"    needs_redistribute={outcome.needs_redistribute}"
        f" use_val={outcome.use_val_from_redistribute_schema}"
    )
    if outcome.redistribute_op is not None:
        lines.append(f"    redistribute to {outcome.redistribute_op}")
        lines.append(f"      args {_short(outcome.redistribute_args)}")
        lines.append(f"      kwargs {_short(outcome.redistribute_kwargs)}")
    lines.append(f"    inputs after {_short(outcome.inputs_after)}")
    return "\n".join(lines)


def _short(value: object) -> str:
    if isinstance(value, tuple) and value and value[0] == "spec":
        _, mesh, placements, order, flag, meta = value
        shape = list(meta[1]) if isinstance(meta, tuple) and meta[0] == "meta" else meta
        dtype = meta[3] if isinstance(meta, tuple) and meta[0] == "meta" else ""
        return f"{dtype}{shape}{''.join(placements)} order={order} flag={flag} on {mesh}"
    if isinstance(value, tuple) and len(value) == 2 and isinstance(value[1], str):
        return value[1]
    if isinstance(value, tuple):
        return f"{value[0]}({', '.join(_short(item) for item in value[1:])})" if value else "()"
    return str(value)
