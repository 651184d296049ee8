"""Decisions of torch and of shardprop side by side: as plain values, and from cold caches."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from .. import _torch
from .._torch import DTensorSpec, OpSchema, OutputSharding
from ..propagation import propagator

__all__ = ["Decision", "answer_of", "clear_every_cache", "describe"]


@dataclass(frozen=True)
class Decision:
    """What was asked of propagation and what it answered, both described."""

    schema: OpSchema
    question: object
    answer: object

    @classmethod
    def of(cls, schema: OpSchema, result: OutputSharding | Exception) -> Decision:
        """One propagation, and its answer or the exception it raised."""
        return cls(schema, describe(schema), describe(result))


def clear_every_cache() -> None:
    """Make what comes next start cold, in shardprop and in torch."""
    propagator.clear_caches()
    _torch.clear_torch_caches()


def answer_of(decide: Callable[[OpSchema], OutputSharding], schema: OpSchema) -> object:
    """What `decide` answers, described; an error is an answer too, compared by its text."""
    answer: object
    try:
        answer = decide(schema)
    except Exception as error:
        answer = error
    return describe(answer)


def describe(value: object) -> object:
    """A schema, an answer, or any argument of an op as nested tuples of plain values.

    They compare by content even when the objects they describe (meshes, mask buffers) belong to two
    different runs.
    """
    match value:
        case DTensorSpec():
            return _describe_spec(value)
        case OpSchema():
            return (str(value.op), describe(value.args_schema), describe(value.kwargs_schema))
        case OutputSharding():
            return (
                ("output", describe(value.output_spec)),
                ("redistribute", value.needs_redistribute, describe(value.redistribute_schema)),
                ("rewritten arguments", value.use_val_from_redistribute_schema),
            )
        case Exception():
            return ("error", type(value).__name__, str(value))
        case list() | tuple():
            return (type(value).__name__, *(describe(item) for item in value))
        case dict():
            return ("dict", *((key, describe(item)) for key, item in sorted(value.items())))
        case _:
            # repr keeps 1, 1.0 and True apart, which compare equal.
            return repr(value)


def _describe_spec(spec: DTensorSpec) -> object:
    """Placements by class and text: two masked partials of two runs never share their buffer."""
    meta = spec.tensor_meta
    return (
        "spec",
        tuple(spec.mesh.shape),
        tuple(f"{type(p).__name__} {p}" for p in spec.placements),
        None if meta is None else (tuple(meta.shape), tuple(meta.stride), str(meta.dtype)),
        repr(spec.shard_order),
        # Says how torch reads the strided shards; it prices them differently for each value.
        spec.use_strided_shard_as_shard_order,
    )
