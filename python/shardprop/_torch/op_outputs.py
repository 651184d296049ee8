"""What a rank holds, made a DTensor without torch's constructor.

That is two functions that keep Dynamo out and one that tells an exporter, around nothing: a quarter
of what an op takes whose decision is known.
"""

from __future__ import annotations

from typing import Any

import torch

from .held_functions import HeldFunction
from .types import DTensor, DTensorSpec

__all__ = ["OP_OUTPUTS", "wrapped"]

_new: Any = torch.Tensor._dtensor__new__
_init: Any = vars(DTensor)["__init__"]
_held = HeldFunction(type(DTensor._op_dispatcher).wrap)


def wrapped(local: torch.Tensor, spec: DTensorSpec, requires_grad: bool = False) -> DTensor:
    """What a rank holds, as a DTensor that shares its history."""
    is_changed = DTensor.__init__ is not _init or DTensor.__new__ is not _new
    if torch.compiler._is_exporting_flag or is_changed:
        return DTensor(local, spec, requires_grad=requires_grad)  # type: ignore[no-untyped-call]
    made: DTensor = _new(DTensor, local, spec, requires_grad=requires_grad)
    return made


def _wrap(
    res: Any,
    spec: Any,
    tensor: Any = torch.Tensor,
    spec_type: Any = DTensorSpec,
    compiler: Any = torch.compiler,
    new: Any = _new,
    init: Any = _init,
    dtensor: Any = DTensor,
    otherwise: Any = _held.torchs,
) -> Any:
    # Else somebody wants to see what is made.
    if not compiler._is_exporting_flag and dtensor.__init__ is init and dtensor.__new__ is new:
        if isinstance(res, tensor):
            if type(spec) is spec_type:
                return new(dtensor, res, spec, requires_grad=res.requires_grad)
        elif not isinstance(res, (list, tuple)):
            return res  # a number, or nothing
        elif isinstance(spec, (list, tuple)):
            made = []
            for each, its in zip(res, spec):  # noqa: B905 (as torch has it)
                if isinstance(each, tensor) and type(its) is spec_type:
                    each = new(dtensor, each, its, requires_grad=each.requires_grad)
                else:
                    each = otherwise(each, its)
                made.append(each)
            return tuple(made) if isinstance(res, tuple) else made
    return otherwise(res, spec)


# torch's dispatcher wraps what ops return so.
OP_OUTPUTS = _held.with_code_of(_wrap)
