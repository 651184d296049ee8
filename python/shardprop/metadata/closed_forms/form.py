"""How a table of ops says what gives an op's output metadata, and how that becomes a callable."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from ... import _core, _torch
from ..._core import ValueKind
from ..._torch import DTensorSpec, OpOverload, TensorMeta
from ...model.question import OutputMeta

__all__ = ["DECLINED", "ClosedForm", "Declined", "Form", "bind"]


class Declined:
    """Says that a closed form is not sure of its answer; torch is to be asked."""

    def __repr__(self) -> str:
        return "DECLINED"


DECLINED = Declined()

# Arguments and keyword arguments of an OpSchema, with specs for tensors.
ClosedForm = Callable[[tuple[Any, ...], dict[str, Any]], OutputMeta | Declined]

# The place of an argument by its name (-1 where an op has none), several as bits, or a number.
Param = int | str | tuple[str, ...]


@dataclass(frozen=True)
class Form:
    """What gives the metadata of one op.

    Attributes:
        family: The name of a function in csrc/core/metadata/meta_families.h.
        params: What that family wants to know about the op, in its order.
        each_element: The op takes lists, and does to every element what the family does.
        returns_nothing: The op writes into its operands and returns None.
        needs_device: The answer depends on the device of the mesh.
        may_lack: Tensors that may be None, whatever the schema says.
    """

    family: str
    params: tuple[Param, ...] = ()
    each_element: bool = False
    returns_nothing: bool = False
    needs_device: bool = False
    may_lack: tuple[str, ...] = ()


_NUMBER = ValueKind.BOOL | ValueKind.INT | ValueKind.FLOAT

_MASKS = {
    "Tensor": ValueKind.TENSOR,
    "List[Tensor]": ValueKind.TENSORS,
    "bool": ValueKind.BOOL,
    "int": ValueKind.INT,
    "float": ValueKind.INT | ValueKind.FLOAT,
    "number": _NUMBER,
    "List[int]": ValueKind.INTS,
    "List[bool]": ValueKind.SCALARS,
    "List[float]": ValueKind.SCALARS,
    "List[number]": ValueKind.SCALARS,
    "ScalarType": ValueKind.DTYPE,
    "MemoryFormat": ValueKind.FORMAT,
    "Layout": ValueKind.LAYOUT,
    "Device": ValueKind.DEVICE,
    "str": ValueKind.TEXT,
    # Only ever None.
    "Generator": ValueKind.NONE,
}


def _argument_mask(name: str, kind: str, takes_numbers: bool) -> ValueKind:
    """The kinds of values that one argument may have; none where they are not known."""
    inner = kind.removeprefix("Optional[").removesuffix("]") if kind[:8] == "Optional" else kind
    if name == "pin_memory":  # where it is true torch refuses, or needs a device
        return ValueKind.NONE | ValueKind.FALSE
    mask = _MASKS.get(inner, ValueKind(0))
    if inner == "Tensor" and takes_numbers:
        mask |= _NUMBER
    return mask if inner == kind else mask | ValueKind.NONE


def _param(param: Param, names: list[str]) -> int:
    if isinstance(param, int):
        return param
    if isinstance(param, str):
        return names.index(param) if param in names else -1
    return sum(1 << names.index(name) for name in param)


def bind(op: OpOverload, form: Form) -> ClosedForm:
    """The closed form of an op, from its entry in a table and its schema."""
    arguments = _torch.function_schema(op).arguments
    names = [argument.name for argument in arguments]
    takes_numbers = _torch.takes_numbers_as_tensors(op)
    return _core.ClosedForm(
        form.family,
        [_param(param, names) for param in form.params],
        names,
        [
            _argument_mask(a.name, str(a.real_type), takes_numbers)
            | (ValueKind.NONE if a.name in form.may_lack else 0)
            for a in arguments
        ],
        [(a.default_value,) if a.has_default_value() else () for a in arguments],
        each_element=form.each_element,
        returns_nothing=form.returns_nothing,
        needs_device=form.needs_device,
    )


_core.configure_metadata(
    {
        "DTensorSpec": DTensorSpec,
        "TensorMeta": TensorMeta,
        "DECLINED": DECLINED,
        "Size": torch.Size,
        "device": torch.device,
        "strided": torch.strided,
        "get_default_dtype": torch.get_default_dtype,
    },
    [getattr(torch, name) for name in _core.DTYPES],
    [getattr(torch, name) for name in _core.MEMORY_FORMATS],
)
