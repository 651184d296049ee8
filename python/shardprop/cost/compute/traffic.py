"""Bytes that an op moves between memory and the device's units.

Each operand is read once and each output written once, unless the op is one of those below, which
go to a part of an operand only, or to none of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from .call import Call, Operand

__all__ = ["bytes_moved", "values_read"]


@dataclass(frozen=True)
class _Scatter:
    """Writes elements of `target`, as many as there are in the largest of `sources`."""

    sources: tuple[str, ...]
    adds: bool = False
    target: str = "self"


# Overwritten, or asked for shape and type alone.
_UNREAD: Mapping[str, str] = {
    **{
        f"aten::{name}": "self"
        for name in (
            *("copy", "copy_", "fill_", "fill", "zero_", "zero"),
            *("uniform_", "normal_", "random_", "bernoulli_", "exponential_"),
            *("zeros_like", "ones_like", "full_like", "rand_like", "randn_like", "randint_like"),
            *("new_zeros", "new_ones", "new_full"),
            *("nll_loss_backward", "nll_loss2d_backward"),
        )
    },
}

# The operand that elements are picked from, and what there are as many of: None for the output.
_GATHERS: Mapping[str, tuple[str, str | None]] = {
    "aten::embedding": ("weight", None),
    "aten::index": ("self", None),
    "aten::_unsafe_index": ("self", None),
    "aten::index_select": ("self", None),
    "aten::gather": ("self", None),
    "aten::take": ("self", None),
    "aten::nll_loss_forward": ("self", "target"),
    "aten::nll_loss2d_forward": ("self", "target"),
}

_SCATTERS: Mapping[str, _Scatter] = {
    "aten::index_put": _Scatter(("values", "indices")),
    "aten::_unsafe_index_put": _Scatter(("values", "indices")),
    "aten::scatter": _Scatter(("index",)),
    "aten::scatter_add": _Scatter(("index",), adds=True),
    "aten::scatter_reduce": _Scatter(("index",), adds=True),
    "aten::index_add": _Scatter(("source",), adds=True),
    "aten::index_copy": _Scatter(("source",)),
}


def bytes_moved(call: Call) -> int:
    """Bytes read plus bytes written."""
    name = call.schema.name
    if name in _GATHERS:
        return _gathered(call, *_GATHERS[name])
    if name == "aten::embedding_dense_backward":
        # The table of gradients is filled with zeros, and rows of it are read and written again.
        return _reads(call) + _written(call) + 2 * call.tensor("grad_output").bytes
    in_place = name.removesuffix("_")
    if in_place in _SCATTERS:
        return _scattered(call, _SCATTERS[in_place], in_place=in_place != name)
    return _reads(call, _UNREAD.get(name)) + _written(call)


def values_read(name: str) -> tuple[str, ...]:
    """The arguments beside tensors that the bytes of an op depend on."""
    return ("accumulate",) if name.removesuffix("_").endswith("index_put") else ()


def _reads(call: Call, besides: str | None = None) -> int:
    skipped = {*call.schema.outs, besides}
    return sum(
        call.tensors[place].held_bytes
        for name, places in call.places.items()
        if name not in skipped
        for place in places
    )


def _written(call: Call) -> int:
    if call.schema.returns == 0:
        changed = (call.tensors_of(name) for name in call.schema.mutated)
        return sum(operand.held_bytes for operands in changed for operand in operands)
    return sum(output.bytes for output in call.outputs if output is not None)


def _gathered(call: Call, source: str, like: str | None) -> int:
    table = call.tensor(source)
    picked = (call.output() if like is None else call.tensor(like)).elements * table.dtype.itemsize
    # What is picked twice comes from the cache.
    return _reads(call, source) + min(picked, table.held_bytes) + _written(call)


def _scattered(call: Call, scatter: _Scatter, *, in_place: bool) -> int:
    target = call.tensor(scatter.target)
    adds = scatter.adds or bool(call.values.get("accumulate"))
    touched = _most(call, scatter.sources) * target.dtype.itemsize * (2 if adds else 1)
    if in_place:
        return _reads(call, scatter.target) + touched
    return _reads(call) + _written(call) + touched


def _most(call: Call, names: tuple[str, ...]) -> int:
    found: list[Operand] = [operand for name in names for operand in call.tensors_of(name)]
    return max((operand.elements for operand in found), default=0)
