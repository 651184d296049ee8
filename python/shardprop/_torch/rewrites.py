"""torch's rewrites of arguments that hold global sizes to local ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from .propagation import propagator
from .types import DTensorSpec, OpOverload, OpSchema, TensorMeta


class ArgumentRewrites(NamedTuple):
    """How torch rewrites the arguments of an op.

    Attributes:
        shape: The position of the argument that becomes the local shape, or the positions of the
            shape and the stride; None: it rewrites neither.
        adjust_scalars: What makes counts among the arguments local, from the specs that the
            operands are to have and the schema; None: there are none.
        squeeze: The form of a squeeze that names the dims; None: the op is no squeeze.
    """

    shape: int | tuple[int, ...] | None
    adjust_scalars: Callable[[Sequence[DTensorSpec], OpSchema], OpSchema] | None
    squeeze: OpOverload | None

    @property
    def positions(self) -> tuple[int, ...]:
        """Positions of the arguments that become the local shape (and stride)."""
        if self.shape is None:
            return ()
        return self.shape if isinstance(self.shape, tuple) else (self.shape,)


def argument_rewrites(op: OpOverload) -> ArgumentRewrites:
    """How torch rewrites the arguments of an op."""
    prop = propagator()
    return ArgumentRewrites(
        prop.op_to_shape_and_stride_idx.get(op),
        prop.op_to_scalar_shape_adjuster.get(op),
        prop.squeeze_op_to_dims_variant.get(op),
    )


def with_local_shape(schema: OpSchema, output: DTensorSpec, meta: TensorMeta) -> OpSchema:
    """The schema with the output's local shape (and stride) where the op takes them."""
    return propagator()._adjust_shape_and_stride_args(meta, schema, output)  # type: ignore[no-any-return]


def with_global_singletons(schema: OpSchema) -> OpSchema | None:
    """A squeeze as one of the dims whose global size is 1; None where it is that already."""
    return propagator()._adjust_squeeze_to_global_singletons(schema)  # type: ignore[no-any-return]
