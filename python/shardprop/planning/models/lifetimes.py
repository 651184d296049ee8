"""When the tensors of a program are most likely in memory, as far as the program alone says it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import torch

from ..._torch.graph_calls import op_may_give_a_view
from ...erasure import beside_a_loss
from .program import Node, Program, Ref

__all__ = ["Lifetime", "Lifetimes", "lifetimes_of"]


class Lifetime(NamedTuple):
    """Positions at which a tensor is in memory, where all ops read it as it is.

    Attributes:
        made: From this one on.
        last: To this one.
    """

    made: int
    last: int


@dataclass(frozen=True)
class Lifetimes:
    """Of the tensors that a program makes, and of gradients that come in. What leaves it goes by
    the node with which it leaves. A position is a place in `order`.

    Attributes:
        order: The nodes of the ops in the order in which they run: those of the forward, then
            those of the backward. Where an output is a single number, the loss, the backward begins
            with it, and what the gradients of other outputs alone lead to does not run.
        backward: The position of the first op of the backward; that of the last op if there is
            none.
        of: By tensor.
        shares: By view that tensor of which it is a view.
    """

    order: tuple[int, ...]
    backward: int
    of: Mapping[Ref, Lifetime]
    shares: Mapping[Ref, Ref]

    def memory(self, ref: Ref) -> Ref:
        """The tensor that a tensor's memory was made for, if nothing is moved on the way."""
        while ref in self.shares:
            ref = self.shares[ref]
        return ref

    def past(self, position: int) -> tuple[list[Ref], list[Ref]]:
        """What was there before an op and is needed after it: tensors that take memory, and views
        of these and of what enters, which take some if they are of a copy."""
        lives = self.of.items()
        return self._told_apart(ref for ref, life in lives if life.made < position < life.last)

    def before(self, position: int) -> tuple[list[Ref], list[Ref]]:
        """Likewise what was there before an op and is needed by it, or after it."""
        lives = self.of.items()
        return self._told_apart(ref for ref, life in lives if life.made < position <= life.last)

    def _told_apart(self, refs: Iterable[Ref]) -> tuple[list[Ref], list[Ref]]:
        taking: dict[Ref, Ref] = {}
        views: list[Ref] = []
        for ref in refs:
            memory = self.memory(ref)
            if memory in taking or memory not in self.of:
                views.append(ref)
            else:
                taking[memory] = ref
        return [*taking.values()], views


def lifetimes_of(program: Program) -> Lifetimes:
    """Those of the tensors of a program."""
    missing, sums = _led_by_missing(program)
    needed = _needed(program, missing, sums)
    ops = [node for node in program.nodes if node.op is not None and node.index in needed]
    ordered = sorted(ops, key=lambda node: node.backward)
    end = max(0, len(ordered) - 1)
    backward = next((at for at, node in enumerate(ordered) if node.backward), end)
    coming = (tangent for _, tangent in program.tangents if tangent not in missing)
    found = {Ref(tangent): Lifetime(backward - 1, end + 1) for tangent in coming}
    for position, node in enumerate(ordered):
        for ref in node.operands:
            if ref in found:
                found[ref] = Lifetime(found[ref].made, max(position, found[ref].last))
        for output, meta in enumerate(node.outputs):
            if meta is not None:
                found[Ref(node.index, output)] = Lifetime(position, position)
    shares = _views(ordered) | sums
    for node in program.nodes:
        if node.kind not in ("output", "written", "gradient"):
            continue
        (ref,) = node.operands
        if ref in found and program.nodes[ref.node].backward is node.backward:
            shares[Ref(node.index)] = ref
            # What is written is copied when the forward is over.
            last = backward if node.kind == "written" and program.tangents else end + 1
            found[Ref(node.index)] = Lifetime(found[ref].made, last)
    return Lifetimes(tuple(node.index for node in ordered), backward, found, shares)


def _views(ordered: list[Node]) -> dict[Ref, Ref]:
    return {
        Ref(node.index, output): node.operands[0]
        for node in ordered
        if node.op is not None and node.operands and op_may_give_a_view(node.op)
        for output in range(len(node.outputs))
    }


def _needed(program: Program, missing: set[int], sums: Mapping[Ref, Ref]) -> set[int]:
    """The nodes that something which leaves the program is made of."""
    found: set[int] = set()
    for node in reversed(program.nodes):
        leaves = node.kind in ("output", "written", "gradient") and node.index not in missing
        if leaves or node.index in found:
            other = sums.get(Ref(node.index))
            read = node.operands if other is None else [other]
            found.update(ref.node for ref in read if ref.node not in missing)
    return found


def _led_by_missing(program: Program) -> tuple[set[int], dict[Ref, Ref]]:
    """The nodes that depend on gradients of outputs that do not come in alone, and by sum of such a
    gradient and another the other; as the backward is made without them (`erasure.absent`)."""
    tangents = [tangent for _, tangent in program.tangents]
    absent = beside_a_loss([program.meta(Ref(tangent)).shape for tangent in tangents])
    led = {*tangents}
    missing = {tangents[at] for at in absent}
    sums: dict[Ref, Ref] = {}
    for node in program.nodes:
        leading = [ref for ref in node.operands if ref.node in led]
        there = [ref for ref in leading if ref.node not in missing]
        if leading:
            led.add(node.index)
        if leading and not there:
            missing.add(node.index)
        elif len(there) < len(leading) and _is_sum_like(program, node, there[0]):
            sums[Ref(node.index)] = there[0]
    return missing, sums


def _is_sum_like(program: Program, node: Node, ref: Ref) -> bool:
    if node.op is not torch.ops.aten.add.Tensor or len(node.args) != 2 or node.kwargs:
        return False
    one, other = node.outputs[0], program.meta(ref)
    return one is not None and (one.shape, one.dtype) == (other.shape, other.dtype)
