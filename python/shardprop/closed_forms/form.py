"""How a table of ops says what gives an op's output metadata, and how that becomes a callable."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from .. import _core, _torch
from .._torch import DTensorSpec, OpOverload, TensorMeta
from ..question import OutputMeta

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
        family: The name of a function in csrc/core/meta_families.h.
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


_KINDS = _core.value_kinds()


def _mask(*kinds: str) -> int:
    return sum(_KINDS[kind] for kind in kinds)


_MASKS = {
    "Tensor": _mask("tensor"),
    "List[Tensor]": _mask("tensors"),
    "bool": _mask("bool"),
    "int": _mask("int"),
    "float": _mask("int", "float"),
    "number": _mask("bool", "int", "float"),
    "List[int]": _mask("ints"),
    "List[bool]": _mask("scalars"),
    "List[float]": _mask("scalars"),
    "List[number]": _mask("scalars"),
    "ScalarType": _mask("dtype"),
    "MemoryFormat": _mask("format"),
    "Layout": _mask("layout"),
    "Device": _mask("device"),
    "str": _mask("text"),
    # Only ever None.
    "Generator": _mask("none"),
}


def _argument_mask(name: str, kind: str, takes_numbers: bool) -> int:
    """The kinds of values that one argument may have; 0 where they are not known."""
    inner = kind.removeprefix("Optional[").removesuffix("]") if kind[:8] == "Optional" else kind
    if name == "pin_memory":  # where it is true torch refuses, or needs a device
        return _mask("none", "false")
    mask = _MASKS.get(inner, 0)
    if inner == "Tensor" and takes_numbers:
        mask |= _mask("bool", "int", "float")
    return mask if inner == kind else mask | _mask("none")


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
            | (_mask("none") if a.name in form.may_lack else 0)
            for a in arguments
        ],
        [(a.default_value,) if a.has_default_value() else () for a in arguments],
        1 * form.each_element | 2 * form.returns_nothing | 4 * form.needs_device,
    )


# Both in the order of csrc/core/tensor_meta.h.
_DTYPES = [
    torch.bool,
    torch.uint8,
    torch.int8,
    torch.int16,
    torch.int32,
    torch.int64,
    torch.float16,
    torch.bfloat16,
    torch.float32,
    torch.float64,
    torch.complex64,
    torch.complex128,
    torch.uint64,
]
_MEMORY_FORMATS = [
    torch.contiguous_format,
    torch.preserve_format,
    torch.channels_last,
    torch.channels_last_3d,
]

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
    _DTYPES,
    _MEMORY_FORMATS,
)
