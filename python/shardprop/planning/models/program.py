"""A model's forward and backward pass as a list of nodes: what a plan is made for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch

from ..._torch import OpOverload, TensorMeta
from ...model.op_traits import traits_of

__all__ = ["TENSOR", "Call", "Node", "Program", "Ref", "each_of", "fill", "refs"]


class _Tensor:
    """Stands for a tensor among the leaves of arguments and results."""

    def __repr__(self) -> str:
        return "TENSOR"

    def __reduce__(self) -> str:
        return "TENSOR"


TENSOR = _Tensor()


@dataclass(frozen=True)
class Call:
    """How a model was called, and what it returned.

    Attributes:
        structure: Of the arguments, as torch's pytrees have it.
        leaves: The arguments, flattened; `TENSOR` for a tensor.
        modules: Per module, in the order of ``modules()``, its class, and whether it is in training
            mode.
        autocast: See `_torch.autocast_state`.
        returned_structure: Of what it returned.
        returned: What it returned, flattened; `TENSOR` for a tensor.
    """

    structure: Any
    leaves: tuple[Any, ...]
    modules: tuple[tuple[type, bool], ...]
    autocast: tuple[object, ...]
    returned_structure: Any
    returned: tuple[Any, ...]


@dataclass(frozen=True)
class Ref:
    """One tensor: an output of a node.

    Attributes:
        node: The node's index in the program.
        output: Which of its outputs.
    """

    node: int
    output: int = 0


@dataclass(frozen=True)
class Node:
    """An op, or a tensor that enters or leaves the program.

    Attributes:
        index: Its place in the program.
        name: Unique.
        kind: ``parameter``, ``buffer``, ``input``, ``tangent`` (the gradient of an output),
            ``constant``, ``op``, ``output``, ``gradient`` (of a parameter or an input) or
            ``written`` (what a buffer is to hold afterwards).
        module: The path of the module it belongs to; empty for the model itself.
        outputs: Metadata of its outputs, None for one that is absent. An ``output``, ``gradient``
            or ``written`` has the tensor that leaves.
        op: The overload; None where `kind` is not ``op``.
        args: Its arguments, with `Ref` in place of tensors; of what leaves the
            tensor, of a ``constant`` its value.
        kwargs: Its keyword arguments, likewise.
        backward: Is it part of the backward pass?
    """

    index: int
    name: str
    kind: str
    module: str
    outputs: tuple[TensorMeta | None, ...]
    op: OpOverload | None = None
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = field(default_factory=dict)
    backward: bool = False

    @property
    def operands(self) -> list[Ref]:
        """The tensors among the arguments, then the keyword arguments."""
        return [*refs(self.args), *refs(self.kwargs)]

    @property
    def draws(self) -> bool:
        """Does it draw random numbers? Not attention without dropout, though its tags say so."""
        if self.op is None or torch.Tag.nondeterministic_seeded not in self.op.tags:
            return False
        names = traits_of(self.op).arguments
        given = dict(zip(names, self.args, strict=False)) | self.kwargs
        return "dropout_p" not in names or bool(given.get("dropout_p"))


@dataclass(frozen=True)
class Program:
    """A traced model.

    Attributes:
        nodes: Every node after those whose outputs it reads.
        parameters: Per name the node of the parameter.
        buffers: Per name the node of the buffer.
        inputs: Per tensor among the inputs, flattened, its node.
        outputs: Per tensor among the outputs, flattened, its ``output`` node.
        tangents: Per output that has a gradient: its ``output`` node, and that of the gradient.
        gradients: Per parameter that gets one, the ``gradient`` node.
        input_gradients: Per input that gets one, by position in `inputs`, likewise.
        written: Per buffer that is written into, the ``written`` node.
        trained: The nodes of parameters and inputs that required a gradient.
        call: How the model was called.
    """

    nodes: tuple[Node, ...]
    parameters: dict[str, int]
    buffers: dict[str, int]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    tangents: tuple[tuple[int, int], ...]
    gradients: dict[str, int]
    input_gradients: dict[int, int]
    written: dict[str, int]
    trained: frozenset[int]
    call: Call

    @cached_property
    def gradient_of(self) -> dict[int, int]:
        """By the node of a parameter or input that gets one its ``gradient`` node."""
        parameters = {self.parameters[name]: node for name, node in self.gradients.items()}
        return parameters | {self.inputs[at]: node for at, node in self.input_gradients.items()}

    @cached_property
    def constants(self) -> frozenset[int]:
        """The nodes that no tensor of the model or of its inputs has a part in: the same on every
        rank, and not distributed."""
        found: set[int] = set()
        for node in self.nodes:
            if node.kind == "constant" or (
                node.op is not None and all(ref.node in found for ref in node.operands)
            ):
                found.add(node.index)
        return frozenset(found)

    def meta(self, ref: Ref) -> TensorMeta:
        """Metadata of a tensor that exists."""
        meta = self.nodes[ref.node].outputs[ref.output]
        if meta is None:
            raise LookupError(f"output {ref.output} of {self.nodes[ref.node].name} is absent")
        return meta


def refs(item: Any) -> list[Ref]:
    """All `Ref` in an argument, in order."""
    if isinstance(item, Ref):
        return [item]
    if isinstance(item, (list, tuple)):
        return [ref for part in item for ref in refs(part)]
    if isinstance(item, dict):
        return [ref for part in item.values() for ref in refs(part)]
    return []


def each_of(kind: type, change: Callable[[Any], Any], item: Any) -> Any:
    """An argument with what is of a kind changed, in order; other tuples stay what they are."""
    if isinstance(item, kind):
        return change(item)
    if isinstance(item, dict):
        return {name: each_of(kind, change, part) for name, part in item.items()}
    if type(item) in (list, tuple):
        return type(item)(each_of(kind, change, part) for part in item)
    return item


def fill(item: Any, of: Callable[[Ref], Any]) -> Any:
    """An argument with what `of` gives in place of each `Ref`."""
    if isinstance(item, Ref):
        return of(item)
    if isinstance(item, dict):
        return {name: fill(part, of) for name, part in item.items()}
    if isinstance(item, (list, tuple)):
        filled: Sequence[Any] = [fill(part, of) for part in item]
        return filled if isinstance(item, list) else tuple(filled)
    return item
