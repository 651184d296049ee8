"""Calls of public functions of torch, as its OpInfo database makes them, for several sizes."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch

from shardprop import _torch
from shardprop.verification.calls.choice import features

from ...device import DEVICE
from ...quiet import quiet

__all__ = ["SIZES", "Sample", "functions", "samples_of", "tensors_of"]

# Values of the constants in torch's generators of samples. Two and three ranks cut a dim of S
# elements evenly, unevenly, or such that one of three has none.
SIZES = {
    "even": {"XS": 3, "S": 6, "M": 12, "L": 24},
    "uneven": {"XS": 4, "S": 7, "M": 10, "L": 20},
    "few": {"XS": 2, "S": 2, "M": 4, "L": 5},
}

# A call on more elements takes longer, and shows nothing more.
_ELEMENTS = 1500
_LOOKED_AT = 24

# In the order of preference: 64 bits leave little to rounding.
_DTYPES = (torch.float64, torch.float32, torch.int64, torch.bool, torch.complex128)

# What is in their outputs is not said.
_UNSPECIFIED = {
    *("empty", "empty_like", "empty_permuted", "empty_strided"),
    *("new_empty", "new_empty_strided", "resize_", "resize_as_"),
}

# Of these sizes some of its calls have indices out of range: an error on the CPU, but an assertion
# on a GPU, which the process cannot use any more.
_ENDS_A_GPU = {"nn.functional.embedding_bag"} if DEVICE == "cuda" else set()


@dataclass(frozen=True)
class Sample:
    """A call of a function.

    Attributes:
        function: Its name and variant in the database.
        call: The function.
    """

    function: str
    call: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    def tensors(self) -> list[torch.Tensor]:
        """The operands, those in lists too."""
        return tensors_of((self.args, self.kwargs))

    def run(self, operands: list[Any]) -> Any:
        """The function on others in the place of its operands."""
        left = iter(operands)
        leaves, tree = _torch.tree_flatten((self.args, self.kwargs))
        given = [next(left) if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
        args, kwargs = _torch.tree_unflatten(given, tree)
        return self.call(*args, **kwargs)

    def __str__(self) -> str:
        def shown(value: Any) -> str:
            if isinstance(value, torch.Tensor):
                return f"{str(value.dtype).removeprefix('torch.')}{[*value.shape]}"
            if isinstance(value, (list, tuple)):
                return f"[{', '.join(map(shown, value))}]"
            return repr(value) if isinstance(value, str) else str(value)

        named = [f"{name}={shown(value)}" for name, value in self.kwargs.items()]
        return f"{self.function}({', '.join([*map(shown, self.args), *named])})"


def tensors_of(tree: Any) -> list[torch.Tensor]:
    """The tensors of nested lists and dicts."""
    return [leaf for leaf in _torch.tree_leaves(tree) if isinstance(leaf, torch.Tensor)]


def functions() -> list[str]:
    """Names of all functions, with their variants."""
    with _torch.opinfos(SIZES["even"]) as infos:
        names = {_name(info) for info in infos if _is_determined(info)}
    return sorted(name for name in names - _ENDS_A_GPU if not name.startswith("_"))


def _is_determined(info: Any) -> bool:
    """Does it say what is in its outputs? Functions that draw numbers are wrapped by one that seeds
    first."""
    code = getattr(info.op, "__code__", None)
    is_drawn = code is not None and "wrapper_set_seed" in code.co_names
    return info.name not in _UNSPECIFIED and not is_drawn


def samples_of(names: set[str], size: str, most: int) -> Iterator[Sample]:
    """At most so many calls of each function, unlike each other, always the same ones."""
    with quiet(), _torch.opinfos(SIZES[size]) as infos:
        for info in infos:
            if _name(info) in names:
                yield from _samples(info, most)


def _name(info: Any) -> str:
    variant = info.variant_test_name
    return f"{info.name}/{variant}" if variant else str(info.name)


def _samples(info: Any, most: int) -> Iterator[Sample]:
    dtype = next((dtype for dtype in _DTYPES if dtype in info.dtypes), None)
    if dtype is None:
        return
    torch.manual_seed(0)
    random.seed(0)
    needs_grad = bool(info.supports_autograd) and dtype.is_floating_point
    options = {"num_input_tensors": [3]} if info.name.startswith("_foreach_") else {}
    made: list[Any] = []
    try:
        for sample in itertools.islice(
            info.sample_inputs_func(info, DEVICE, dtype, needs_grad, **options), _LOOKED_AT
        ):
            made.append(Sample(_name(info), info.op, (sample.input, *sample.args), sample.kwargs))
    except Exception:  # of the generator, which some sizes do not suit
        pass
    known: set[Any] = set()
    chosen = sorted(filter(_is_of_use, made), key=_dims_to_shard, reverse=True)
    for sample in chosen:
        new = features(sample.args, sample.kwargs) - known
        if new and most:
            known |= new
            most -= 1
            yield sample


def _dims_to_shard(sample: Sample) -> int:
    """Of the first operand; more than two show nothing more."""
    return min(sum(size > 1 for size in sample.tensors()[0].shape), 2)


def _is_of_use(sample: Sample) -> bool:
    """Is there something to shard, but little?"""
    found = sample.tensors()
    plain = all(type(x) in (torch.Tensor, torch.nn.Parameter) for x in found)
    strided = all(x.layout is torch.strided for x in found)
    has_shards = any(x.ndim and x.numel() > 1 for x in found)
    return plain and strided and has_shards and sum(x.numel() for x in found) <= _ELEMENTS
