"""What torch's dispatcher notes of a call: what a rank holds of the arguments, and their specs.

Calls that are not known, views, and whatever else its C++ hands on to Python come by here. torch
looks at the arguments twice, for pytrees that few calls have.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.distributed.tensor._op_schema import OpInfo

from .held_functions import HeldFunction
from .types import DTensor, OpSchema

__all__ = ["OP_INFO"]

_held = HeldFunction(type(DTensor._op_dispatcher)._unwrap_to_op_info_impl)


def _unwrapped(
    self: Any,
    op_call: Any,
    args: Any,
    kwargs: Any,
    create_schema: Any,
    tensor: Any = torch.Tensor,
    dtensor: Any = DTensor,
    op_info: Any = OpInfo,
    op_schema: Any = OpSchema,
    otherwise: Any = _held.torchs,
) -> Any:
    known = self.sharding_propagator
    traits = known.op_to_schema_info.get(op_call)
    if traits is None:
        traits = known.op_to_schema_info_for_single_dim_strategy.get(op_call)
    if traits is not None and traits.needs_pytree:
        return otherwise(self, op_call, args, kwargs, create_schema)
    mesh = None
    specs, local_args = [], []
    for arg in args:
        if type(arg) is dtensor:
            local_args.append(arg._local_tensor)
            specs.append(arg._spec)
            if mesh is None:
                mesh = arg._spec.mesh
            continue
        if isinstance(arg, tensor):  # torch makes a spec for it, and may warn
            return otherwise(self, op_call, args, kwargs, create_schema)
        if isinstance(arg, (list, tuple)):
            for item in arg:
                if isinstance(item, tensor):
                    return otherwise(self, op_call, args, kwargs, create_schema)
        specs.append(arg)
        local_args.append(arg)
    if mesh is None:
        return otherwise(self, op_call, args, kwargs, create_schema)
    for value in kwargs.values():
        if isinstance(value, tensor):
            return otherwise(self, op_call, args, kwargs, create_schema)
    asked = None
    if create_schema:
        asked = op_schema(op_call, tuple(specs), {**kwargs}, schema_info=traits)
    return op_info(mesh, asked, specs, tuple(local_args), {**kwargs}, None)


# torch's dispatcher notes it so.
OP_INFO = _held.with_code_of(_unwrapped)
