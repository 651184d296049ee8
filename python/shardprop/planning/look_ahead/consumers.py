"""Who consumed the outputs of which calls, as it was seen in a step of a program."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch

from ..._torch import DTensorSpec, OpOverload
from ...propagation.output_prices import OutputPrices
from ...redistribution.optimal_planner import ExactPlanner

__all__ = ["Consumers", "Use", "call_key"]


class Use(NamedTuple):
    """One way in which an output was used.

    Attributes:
        op: That it was an operand of; None: it was redistributed, to the one spec in `args`.
        args: The arguments, with specs in the place of tensors.
        kwargs: Keyword arguments, likewise.
        operands: Which leaves of args and kwargs are the output.
        made: Which others an op made, too.
    """

    op: OpOverload | None
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    operands: tuple[int, ...]
    made: tuple[int, ...] = ()


@dataclass
class Consumers:
    """What became of the outputs of each call: an op with arguments of these sizes, dtypes and
    values, whatever layouts they had.

    A call that occurs several times in a step has the consumers of all its occurrences, each with
    the share of them that it belongs to: torch decides them as one.
    """

    _runs: dict[Hashable, int] = field(default_factory=dict)
    _uses: dict[tuple[Hashable, int], dict[Hashable, tuple[Use, int]]] = field(default_factory=dict)

    def ahead(self, planner: ExactPlanner, rules: str, horizon: int) -> OutputPrices:
        """Prices of outputs at those who consume them; see `values.Ahead`."""
        from .values import Ahead

        return Ahead(self, planner, rules, horizon)

    def __len__(self) -> int:
        """How many calls are known."""
        return len(self._runs)

    def ran(self, call: Hashable) -> None:
        """Take note of a call."""
        self._runs[call] = self._runs.get(call, 0) + 1

    def used(self, call: Hashable, output: int, use: Use) -> None:
        """Take note of what became of one of its outputs."""
        known = self._uses.setdefault((call, output), {})
        key = (use.op, _frozen(use.args, _layout), _frozen(use.kwargs, _layout), use.operands)
        first, count = known.get(key, (use, 0))
        known[key] = (first, count + 1)

    def of(self, call: Hashable, output: int) -> Iterator[tuple[Use, float]]:
        """How the output of a call was used, each way with its share of the call's occurrences."""
        runs = self._runs.get(call, 0)
        for use, count in self._uses.get((call, output), {}).values():
            yield use, count / runs

    def knows(self, call: Hashable, outputs: int) -> bool:
        """Is anything known of the outputs of a call?"""
        return any((call, output) in self._uses for output in range(outputs))


def call_key(op: OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Hashable | None:
    """Calls that are equal but for the layouts of their tensors; None where there is no telling.

    Args:
        op: The op.
        args: Its arguments as torch's dispatcher has them, with specs in the place of tensors.
        kwargs: Keyword arguments, likewise.
    """
    key = op, _frozen(args, _sizes), _frozen(kwargs, _sizes)
    try:
        hash(key)
    except TypeError:  # a symbolic size, or what a program's own op takes
        return None
    return key


def _sizes(spec: DTensorSpec) -> Hashable:
    meta = spec.tensor_meta
    return None if meta is None else (tuple(meta.shape), meta.dtype, spec.mesh)


def _layout(spec: DTensorSpec) -> Hashable:
    return _sizes(spec), spec.placements, spec.shard_order


def _frozen(value: Any, of_spec: Callable[[DTensorSpec], Hashable]) -> Hashable:
    """A value as a key."""
    if isinstance(value, DTensorSpec):
        return of_spec(value)
    if isinstance(value, (list, tuple)):
        return tuple(_frozen(item, of_spec) for item in value)
    if isinstance(value, Mapping):
        return tuple((name, _frozen(item, of_spec)) for name, item in sorted(value.items()))
    if isinstance(value, torch.Tensor):
        return tuple(value.shape), value.dtype
    return type(value), value
