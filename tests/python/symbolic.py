"""Questions with symbolic sizes, put to whoever decides now: the answer, and the guards it cost."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch._dynamo.source import ConstantSource
from torch._ops import OpOverload
from torch._subclasses import FakeTensorMode
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Placement
from torch.distributed.tensor._dtensor_spec import DTensorSpec, TensorMeta
from torch.distributed.tensor._op_schema import OpSchema
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv


class Symbols:
    """The symbolic sizes of one trace. The same names give the same symbols in every trace."""

    def __init__(self) -> None:
        self.env = ShapeEnv()
        self.mode = FakeTensorMode(shape_env=self.env, static_shapes=False)
        self._backed: dict[str, int | torch.SymInt] = {}

    def backed(self, name: str, now: int) -> Any:
        """A size that torch.compile has seen as `now`."""
        if name not in self._backed:
            source = ConstantSource(name)
            symbol = self.env.create_symbol(now, source=source, dynamic_dim=DimDynamic.DYNAMIC)
            self._backed[name] = self.env.create_symintnode(symbol, hint=now, source=source)
        return self._backed[name]

    def unbacked(self, least: int = 0, most: int | None = None, hint: int | None = None) -> Any:
        """A size that only the data will tell."""
        size = self.env.create_unbacked_symint()
        torch._check(size >= least)
        if most is not None:
            torch._check(size <= most)
        if hint is not None:
            self.env.var_to_hint_override[size.node.expr] = hint
        return size


def spec_of(
    mesh: DeviceMesh,
    shape: Sequence[Any],
    placements: Sequence[Placement],
    dtype: torch.dtype = torch.float32,
) -> DTensorSpec:
    """A contiguous tensor; call it under the mode of the symbols in its shape."""
    tensor = torch.empty(tuple(shape), dtype=dtype, device="meta")
    meta = TensorMeta(tensor.shape, tensor.stride(), tensor.dtype)
    return DTensorSpec(mesh, tuple(placements), tensor_meta=meta)


@dataclass(frozen=True)
class Answer:
    """What the propagator said, as text, or the type of its error; and what torch must recheck."""

    said: object
    guards: tuple[Any, ...]
    asserts: frozenset[str]
    values: dict[Any, int]

    @property
    def guard_texts(self) -> set[str]:
        return {str(guard) for guard in self.guards}

    def holds_for(self, values: dict[Any, int]) -> bool:
        """Would a program compiled with these guards be used again for other sizes?"""
        return all(bool(guard.xreplace(values)) for guard in self.guards)

    def stands_wherever(self, other: Answer, samples: Sequence[dict[Any, int]]) -> bool:
        """Do our guards hold wherever those of `other` do? Then we never recompile more often."""
        return all(self.holds_for(values) for values in samples if other.holds_for(values))


Arguments = tuple[tuple[Any, ...], dict[str, Any]]


def ask(op: OpOverload, arguments: Callable[[Symbols], Arguments], info: Any = None) -> Answer:
    """Asks the propagator, whoever answers there now."""
    symbols = Symbols()
    propagator = DTensor._op_dispatcher.sharding_propagator
    with symbols.mode:
        args, kwargs = arguments(symbols)
        before = len(symbols.env.guards)
        try:
            said = _text(
                propagator.propagate_op_sharding_non_cached(OpSchema(op, args, kwargs, info))
            )
        except Exception as error:
            said = type(error).__name__
    env = symbols.env
    asserts = [a for group in env.deferred_runtime_asserts.values() for a in group]
    return Answer(
        said,
        tuple(guard.expr for guard in env.guards[before:]),
        frozenset(str(a.expr) for a in asserts),
        {symbol: int(now) for symbol, now in env.backed_var_to_val.items()},
    )


def _text(sharding: Any) -> object:
    wanted = sharding.redistribute_schema
    return (
        _value(sharding.output_spec),
        sharding.needs_redistribute,
        sharding.use_val_from_redistribute_schema,
        None if wanted is None else (_value(wanted.args_schema), _value(wanted.kwargs_schema)),
    )


def _value(value: Any) -> object:
    """Sizes as text: to compare expressions of two traces would guard them."""
    if isinstance(value, DTensorSpec):
        meta = value.tensor_meta
        return (
            tuple(f"{type(p).__name__} {p}" for p in value.placements),
            str(value.mesh),
            str(value.shard_order),
            value.use_strided_shard_as_shard_order,
            None if meta is None else f"{tuple(meta.shape)} {tuple(meta.stride)} {meta.dtype}",
        )
    if isinstance(value, (list, tuple)):
        return (type(value).__name__, *map(_value, value))
    if isinstance(value, dict):
        return tuple((name, _value(item)) for name, item in value.items())
    return str(value)


def grid(values: dict[Any, int], sizes: Sequence[int]) -> list[dict[Any, int]]:
    """One symbol at a time takes the sizes, the others stay; then all of them at once."""
    samples = [values | {symbol: size} for symbol in values for size in sizes]
    return samples + [dict.fromkeys(values, size) for size in sizes]
