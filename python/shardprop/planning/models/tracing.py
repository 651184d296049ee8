"""A model traced, forward and backward, into a `Program`."""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple

import torch
from torch import fx, nn
from torch.fx.experimental.proxy_tensor import get_proxy_mode, make_fx

from ... import _torch
from ..._torch import FakeTensorMode
from ...errors import ShardpropError
from .functional import Marked, without_writes
from .modules import ModuleSpans
from .program import TENSOR, Call

__all__ = ["Traced", "in_order", "is_tracing", "trace"]

# What cannot change after a model was captured with it.
_VALUES = (
    *(bool, int, float, complex, str, bytes, range, slice, type(None), type, enum.Enum),
    *(torch.dtype, torch.device, torch.layout, torch.memory_format),
)

_tracing: ContextVar[bool] = ContextVar("shardprop_tracing", default=False)


class Traced(NamedTuple):
    """What was traced.

    Attributes:
        graph: Placeholders for parameters, buffers, inputs and tangents, in that order; its output
            is (outputs, gradients of the parameters, gradients of the inputs), each a list, without
            a gradient None; without a backward pass it has no gradients.
        parameters: Their names.
        buffers: Their names.
        inputs: How many tensors there are among the inputs.
        trained: Per parameter, then per input, whether it required a gradient.
        tangents: Of which outputs, by position among the tensors of the output.
        modules: Per node of the graph the path of its module.
        backward: The nodes that the backward pass has added.
        call: How the model was called, and what it returned.
    """

    graph: fx.Graph
    parameters: list[str]
    buffers: list[str]
    inputs: int
    trained: list[bool]
    tangents: list[int]
    modules: dict[fx.Node, str]
    backward: frozenset[fx.Node]
    call: Call


def trace(
    model: nn.Module,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    device: str,
    backward: bool,
) -> Traced:
    """Run the model on fake tensors and record the ops that torch dispatches.

    Args:
        model: On any device, ``meta`` too: only the metadata of its tensors is read.
        args: What it is called with.
        kwargs: What it is called with by name.
        device: The type of device it is to run on; decides which kernels attention takes.
        backward: Trace the backward pass as well.

    Raises:
        ShardpropError: no output is a tensor, or none has a gradient; or what the model does
            depends on the values of tensors.
        Exception: what the model raises.
    """
    try:
        with FakeTensorMode(allow_non_fake_inputs=True):
            return _Tracing(model, args, kwargs, device, backward).run()
    except _torch.VALUES_NEEDED as error:
        raise ShardpropError(
            "Expected a model whose ops do not depend on the values of tensors, got one that does: "
            f"{error or type(error).__name__}."
        ) from error


class _Tracing:
    """One trace; its tensors are fake."""

    def __init__(
        self,
        model: nn.Module,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        device: str,
        backward: bool,
    ) -> None:
        self._model = model
        self._backward = backward
        self._leaves, self._structure = _torch.tree_flatten(in_order(args, kwargs))
        self._places = [i for i, x in enumerate(self._leaves) if isinstance(x, torch.Tensor)]
        self._parameters = _like(dict(model.named_parameters()), device, trained=backward)
        self._buffers = _like(dict(model.named_buffers()), device)
        inputs = {str(place): self._leaves[place] for place in self._places}
        self._inputs = [*_like(inputs, device, trained=backward).values()]
        self._grad_mode = torch.enable_grad if backward else torch.no_grad
        self._spans = ModuleSpans(_traced_so_far)
        self._outputs: list[torch.Tensor] = []
        self._with_gradient: list[int] = []

    def run(self) -> Traced:
        call = self._looked_at()
        tangents = self._tangents()
        arguments = (self._parameters, self._buffers, self._inputs, tangents)

        def joint(params: Any, buffers: Any, inputs: Any, tangents: Any) -> Any:
            return self._joint(params, buffers, inputs, tangents)

        with self._grad_mode():
            # A function, since fx counts the arguments of a method wrongly.
            traced = make_fx(joint, tracing_mode="real")(*arguments)
        nodes = list(traced.graph.nodes)
        paths = dict(zip(nodes, self._spans.paths(len(nodes)), strict=True))
        backward = frozenset(nodes[self._spans.end :])
        marked = without_writes(Marked(traced, paths, backward), arguments)
        return Traced(
            graph=marked.module.graph,
            parameters=list(self._parameters),
            buffers=list(self._buffers),
            inputs=len(self._inputs),
            trained=[x.requires_grad for x in (*self._parameters.values(), *self._inputs)],
            tangents=self._with_gradient,
            modules=marked.paths,
            backward=marked.backward,
            call=call,
        )

    def _looked_at(self) -> Call:
        """The model runs once, unrecorded: which of its outputs have a gradient?"""
        with self._grad_mode(), _in_place_of(self._model, {**self._parameters, **self._buffers}):
            output = self._run_model(self._inputs)
        leaves, structure = _torch.tree_flatten(output)
        self._outputs = [x for x in leaves if isinstance(x, torch.Tensor)]
        if not self._outputs:
            raise ShardpropError(
                "Expected a model whose outputs are tensors, alone or in tuples, lists and dicts, "
                "got none."
            )
        if self._backward:
            self._with_gradient = [i for i, x in enumerate(self._outputs) if x.requires_grad]
            if not self._with_gradient:
                raise ShardpropError(
                    "Expected a model of which an output depends on a parameter that requires a "
                    "gradient, got none. Pass backward=False to plan the forward pass alone."
                )
        return Call(
            structure=self._structure,
            leaves=_without_tensors("takes", self._leaves),
            modules=tuple((type(module), module.training) for module in self._model.modules()),
            autocast=_torch.autocast_state(),
            returned_structure=structure,
            returned=_without_tensors("returns", leaves),
        )

    def _tangents(self) -> list[torch.Tensor]:
        """Gradients of the outputs that have one."""
        outputs = self._outputs
        return [torch.empty_like(outputs[i], requires_grad=False) for i in self._with_gradient]

    def _run_model(self, tensors: Sequence[torch.Tensor]) -> Any:
        """What the model returns for these tensors among the inputs."""
        filled = [*self._leaves]
        for place, tensor in zip(self._places, tensors, strict=True):
            filled[place] = tensor
        args, kwargs = _torch.tree_unflatten(filled, self._structure)
        return self._model(*args, **kwargs)

    def _joint(
        self,
        parameters: dict[str, torch.Tensor],
        buffers: dict[str, torch.Tensor],
        inputs: list[torch.Tensor],
        tangents: list[torch.Tensor],
    ) -> tuple[list[torch.Tensor], list[torch.Tensor | None], list[torch.Tensor | None]]:
        """The outputs, and the gradients of the parameters and of the inputs."""
        # The backward pass, too, may run parts of the model: those that are checkpointed.
        with _in_place_of(self._model, {**parameters, **buffers}):
            with self._spans.watching(self._model):
                made = _torch.tree_leaves(self._run_model(inputs))
            outputs = [x for x in made if isinstance(x, torch.Tensor)]
            if not self._backward:
                return outputs, [], []
            entering = [*parameters.values(), *inputs]
            wanted = [x for x in entering if x.requires_grad]
            leaving = [outputs[i] for i in self._with_gradient]
            found = iter(torch.autograd.grad(leaving, wanted, tangents, allow_unused=True))
        gradients = [next(found) if x.requires_grad else None for x in entering]
        return outputs, gradients[: len(parameters)], gradients[len(parameters) :]


def in_order(args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """The arguments of a model such that its inputs come in the same order in every call."""
    return list(args), dict(sorted(kwargs.items()))


def is_tracing() -> bool:
    """Is a model being traced here?"""
    return _tracing.get()


@contextmanager
def _in_place_of(model: nn.Module, tensors: Mapping[str, torch.Tensor]) -> Iterator[None]:
    """Other tensors in place of the model's in the block.

    `torch.func.functional_call` leaves some of them in a module that has several names.
    """
    names = [*model.named_parameters(), *model.named_buffers()]
    replacement = {id(tensor): tensors[name] for name, tensor in names}
    with _torch.other_tensors(model.modules(), lambda tensor: replacement[id(tensor)]):
        token = _tracing.set(True)
        try:
            yield
        finally:
            _tracing.reset(token)


def _like(
    tensors: Mapping[str, torch.Tensor], device: str, trained: bool = False
) -> dict[str, torch.Tensor]:
    """Fake tensors with the metadata of others; of a DTensor, that of the whole."""
    return {
        name: torch.empty_strided(
            tensor.shape,
            tensor.stride(),
            dtype=tensor.dtype,
            device=device,
            requires_grad=trained and tensor.requires_grad,
        )
        for name, tensor in tensors.items()
    }


def _without_tensors(does: str, leaves: Sequence[Any]) -> tuple[Any, ...]:
    """The leaves with `TENSOR` in place of tensors.

    Raises:
        ShardpropError: one is neither a tensor nor a value that cannot change.
    """
    for leaf in leaves:
        if not isinstance(leaf, (torch.Tensor, *_VALUES)):
            raise ShardpropError(
                f"Expected a model that {does} tensors and plain values, alone or in tuples, lists "
                f"and dicts, got one that {does} a {type(leaf).__name__}."
            )
    return tuple(TENSOR if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves)


def _traced_so_far() -> int:
    mode = get_proxy_mode()
    return 0 if mode is None else len(mode.tracer.graph.nodes)
