"""Calls made up from an op's schema, for ops that no sample calls: what the op takes is kept."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from ..._torch import OpOverload, function_schema
from ...model.op_traits import traits_of
from .call import MADE_UP, Call, is_plain

__all__ = ["made_up"]

_SHAPES = ((6, 6), (6,), (4, 6, 6), (2, 4, 6, 6), (4, 6))
_F, _I, _B = torch.float64, torch.int64, torch.bool
# The dtype of the first tensor, and of the others.
_DTYPES = ((_F, _F), (_F, _I), (_I, _I), (_F, _B), (_B, _F), (_B, _B), (torch.float32,) * 2)
# Arguments without a default only, all but the optional ones given, everything given.
_LEVELS = (0, 1, 2)

_STRINGS = {
    "approximate": "tanh",
    "rounding_mode": "floor",
    "reduce": "amax",
    "UPLO": "L",
    "mode": "reduced",
    "indexing": "ij",
    "interpolation": "linear",
}
_FLOATS = {"eps": 1e-5, "p": 2.0, "beta1": 0.9, "beta2": 0.99, "lr": 0.1, "dropout_p": 0.0}
# From 6 to the 12 of an output size: kernels that are told otherwise read beyond their operands.
_FLOATS |= dict.fromkeys(("scales", "scales_d", "scales_h", "scales_w"), 2.0)
# Tensors of no dims, of optimizers. Where an infinity was found they do nothing.
_SCALARS = {"state_steps": 1.0, "step": 1.0, "lr": 0.1, "grad_scale": 2.0, "found_inf": 0.0}
# Tensors of the shape that an argument names.
_OF_NORMALIZED_SHAPE = ("weight", "bias")
# Lists that are empty unless a flag says otherwise.
_EMPTY = ("max_exp_avg_sqs",)


def made_up(
    op: OpOverload, seed: int = 0, ranks: Mapping[str, int] | None = None
) -> Iterator[Call]:
    """Calls that the op takes, of ever other ranks and dtypes, up to two hundred.

    `ranks` are those of the operands of which they are known. All sizes are equal then.
    """
    # The kernels of weight norms take tensors of any sizes, and read beyond them. The last operand
    # of the other has to be the product of the second, from which torch makes it for DTensors.
    if "weight_norm" in str(op) or op is torch.ops.aten.cumprod_backward.default:
        return
    plans = itertools.product(_DTYPES, _LEVELS, (0, 1), _SHAPES)
    for number, (dtypes, level, variant, shape) in enumerate(plans):
        filling = _Filling(shape, dtypes, level, variant, seed + number, ranks or {})
        try:
            args, kwargs = filling.arguments(op)
        except _NoValue:
            return
        call = Call(op, args, kwargs, f"{MADE_UP} of the schema, {number}")
        if not call.tensors:
            return
        results = call.results()
        if results is None or not all(map(_says_something, results)):
            continue
        if not _equal(results, call.results()):  # it is random, or reads what nobody has written
            continue
        outs = traits_of(op).out_arguments
        if outs:  # were without elements, for the op to make them as large as it needs
            call = replace(call, kwargs=kwargs | dict(zip(outs, results, strict=False)))
        yield call


class _NoValue(Exception):
    """An argument of a type that nothing here has a value for."""


@dataclass
class _Filling:
    """One way to fill the arguments of any op."""

    shape: Sequence[int]
    dtypes: tuple[torch.dtype, torch.dtype]
    level: int
    variant: int
    seed: int
    ranks: Mapping[str, int]

    def __post_init__(self) -> None:
        self._generator = torch.Generator().manual_seed(self.seed)
        self._tensors = 0
        self._of_last_dim: Sequence[str] = ()

    def arguments(self, op: OpOverload) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments by position and by name; the rest keep their defaults."""
        args: list[Any] = []
        kwargs: dict[str, Any] = {}
        if any(argument.name == "normalized_shape" for argument in function_schema(op).arguments):
            self._of_last_dim = _OF_NORMALIZED_SHAPE
        skipped = False  # a positional argument: those after it go by name
        for argument in function_schema(op).arguments:
            kind = str(argument.type)
            if argument.is_out:
                kwargs[argument.name] = torch.empty(0, dtype=self.dtypes[0])
                continue
            optional = kind.startswith("Optional[")
            if argument.has_default_value() and (self.level < (2 if optional else 1)):
                skipped = True
                continue
            if optional and self.level < 2:
                value = None
            else:
                value = self._value(argument.name, kind.removeprefix("Optional[").rstrip("]"), kind)
            if argument.kwarg_only or skipped:
                kwargs[argument.name] = value
            else:
                args.append(value)
        return tuple(args), kwargs

    def _value(self, name: str, bare: str, kind: str) -> Any:
        if "List[" in kind:
            return self._list(name, bare.removeprefix("List[").removeprefix("Optional["))
        match bare:
            case "Tensor":
                return self._tensor(name)
            case "int" | "SymInt":
                # A schema has dtypes as ints; a program does not.
                dtypes = torch.float32, torch.int64
                return dtypes[self.variant] if name == "dtype" else self._int(name)
            case "number" | "Scalar":
                return 2 if self.variant else 0.5
            case "float":
                return _FLOATS.get(name, 0.5)
            case "bool":
                return bool(self.variant)
            case "str" if name in _STRINGS:
                return _STRINGS[name]
            case "ScalarType":
                return torch.float64
            case "Generator" | "Layout" | "Device" | "MemoryFormat":
                return None
        raise _NoValue

    def _tensor(self, name: str) -> torch.Tensor:
        if name in _SCALARS:
            return torch.tensor(_SCALARS[name], dtype=torch.float32)
        shape = self.shape[-1:] if name in self._of_last_dim else self.shape
        if name in self.ranks:
            shape = (self.shape[-1],) * self.ranks[name]
        dtype = self.dtypes[min(self._tensors, 1)]
        self._tensors += 1
        if dtype == torch.bool:
            return torch.rand(shape, generator=self._generator) > 0.5
        if dtype == torch.int64:  # within any dim, were it an index
            return torch.randint(0, min(self.shape), shape, generator=self._generator)
        return torch.rand(shape, dtype=dtype, generator=self._generator) * 1.5 + 0.1

    def _int(self, name: str) -> int:
        if "dim" in name or name == "axis":
            return (len(self.shape) - 1) if self.variant else 0
        return 1 + self.variant

    def _list(self, name: str, item: str) -> Any:
        match item:
            case "Tensor":
                return [] if name in _EMPTY else [self._tensor(name) for _ in range(2)]
            case "int" | "SymInt":
                return self._ints(name)
            case "float":
                return [2.0] * max(1, len(self.shape) - 2)
            case "bool":
                return [True, True, True][: 2 + self.variant]
            case "number" | "Scalar":
                return [0.5, 2.0]
        raise _NoValue

    def _ints(self, name: str) -> list[int]:
        if "dim" in name:
            return [len(self.shape) - 1] if self.variant else [0]
        if name in ("size", "shape", "input_size", "sizes"):
            return list(self.shape)
        if name == "normalized_shape":
            return list(self.shape[-1:])
        planes = max(1, len(self.shape) - 2)
        return [12 if "output" in name else 1 + self.variant] * planes


def _equal(results: list[torch.Tensor], again: list[torch.Tensor] | None) -> bool:
    return again is not None and all(
        bool(torch.isclose(a, b, equal_nan=True).all()) if a.shape == b.shape else False
        for a, b in zip(results, again, strict=True)
    )


def _says_something(result: torch.Tensor) -> bool:
    """Is it dense, and has it an element that is a number?"""
    with contextlib.suppress(RuntimeError):  # a tensor of vmap, whose numbers cannot be had
        return is_plain(result) and result.numel() > 0 and not bool(result.isnan().all())
    return False
