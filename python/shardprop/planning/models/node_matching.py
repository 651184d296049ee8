"""Which node of a program an op of the running model is."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch

from ..._torch import OpOverload
from ...rules.variants import variants_of
from .program import Node, Program, Ref, fill, refs

__all__ = ["Matcher"]

aten = torch.ops.aten

# Where an op is to run is no part of what it is.
_PLACE = frozenset({"device", "layout", "pin_memory"})

_Key = tuple[OpOverload, tuple[Ref, ...], Any]


class Matcher:
    """Finds nodes by op, operands and the other arguments.

    Ops that agree in all of these compute the same; of several such nodes each is taken in turn.
    """

    def __init__(self, program: Program) -> None:
        self._nodes: dict[_Key, list[Node]] = {}
        self._taken: dict[_Key, int] = {}
        # The program has the op that writes nothing in the place of one that does.
        self._functional = {
            variant.op: op
            for op in {node.op for node in program.nodes if node.op is not None}
            for variant in variants_of(op)
            if variant.in_place
        }
        if aten.bernoulli.p in {node.op for node in program.nodes}:  # of dropout; named otherwise
            self._functional[aten.bernoulli_.float] = aten.bernoulli.p
        constants = program.constants
        for node in program.nodes:
            if node.op is not None and node.index not in constants:
                # What is not distributed cannot be told apart at run time.
                operands = tuple(ref for ref in node.operands if ref.node not in constants)
                literals = _literals(node.args, node.kwargs)
                self._nodes.setdefault((node.op, operands, literals), []).append(node)

    def restart(self) -> None:
        """A new pass over the program begins."""
        self._taken.clear()

    def find(
        self,
        op: OpOverload,
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
    ) -> Node | None:
        """The node of an op whose tensors are given as `Ref`; None if there is none.

        One that writes into its operand is taken for the op that does not.
        """
        op = self._functional.get(op, op)
        operands = (*refs(args), *refs(dict(kwargs)))
        key = (op, operands, _literals(args, kwargs))
        nodes = self._nodes.get(key)
        if nodes is None:
            return None
        turn = self._taken.get(key, 0)
        self._taken[key] = turn + 1
        return nodes[turn % len(nodes)]


def _literals(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """The arguments that are no tensors, in a form that can be a key."""
    named = {name: value for name, value in kwargs.items() if name not in _PLACE}
    return tuple(_frozen(fill(part, lambda ref: None)) for part in (args, named))


def _frozen(item: Any) -> Any:
    if isinstance(item, dict):
        return tuple((name, _frozen(part)) for name, part in sorted(item.items()))
    if isinstance(item, (list, tuple)):
        return tuple(map(_frozen, item))
    if isinstance(item, float) and math.isnan(item):
        return "nan"  # of which none equals another
    try:
        hash(item)
    except TypeError:
        return repr(item)
    return item
