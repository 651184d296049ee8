"""A model traced, forward and backward, into a `Program`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple

import torch
from torch import fx, nn
from torch.fx.experimental.proxy_tensor import get_proxy_mode, make_fx

from .. import _torch
from .._torch import FakeTensorMode
from ..errors import ShardpropError
from .functional import Marked, without_writes
from .modules import ModuleSpans

__all__ = ["Traced", "in_order", "is_tracing", "trace"]

_tracing: ContextVar[bool] = ContextVar("shardprop_tracing", default=False)


class Traced(NamedTuple):
    """What was traced.

    Attributes:
        graph: Placeholders for parameters, buffers, inputs and tangents, in that order; its output
            is (outputs, gradients of the parameters), each a list, without a gradient None.
        parameters: Their names.
        buffers: Their names.
        inputs: How many tensors there are among the inputs.
        tangents: Of which outputs, by position among the tensors of the output.
        modules: Per node of the graph the path of its module.
        backward: The nodes that the backward pass has added.
    """

    graph: fx.Graph
    parameters: list[str]
    buffers: list[str]
    inputs: int
    tangents: list[int]
    modules: dict[fx.Node, str]
    backward: frozenset[fx.Node]


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
        ShardpropError: no output has a gradient, or the model writes into its inputs or buffers.
        Exception: what the model raises.
    """
    leaves, structure = _torch.tree_flatten(in_order(args, kwargs))
    places = [i for i, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
    with FakeTensorMode(allow_non_fake_inputs=True):
        parameters = _like(dict(model.named_parameters()), device, trained=backward)
        buffers = _like(dict(model.named_buffers()), device)
        inputs = [*_like({str(i): leaves[i] for i in places}, device).values()]

        def call(tensors: Sequence[torch.Tensor]) -> list[Any]:
            filled = [*leaves]
            for place, tensor in zip(places, tensors, strict=True):
                filled[place] = tensor
            called, named = _torch.tree_unflatten(filled, structure)
            output = model(*called, **named)
            return [x for x in _torch.tree_leaves(output) if isinstance(x, torch.Tensor)]

        grad_mode = torch.enable_grad if backward else torch.no_grad
        with grad_mode(), _standing_in(model, {**parameters, **buffers}):
            # Once without recording: which outputs have gradients, and of what shape?
            examples = call(inputs)
        if not examples:
            raise ShardpropError(
                "Expected a model whose outputs are tensors, alone or in tuples, lists and dicts, "
                "got none."
            )
        tangents = [i for i, output in enumerate(examples) if backward and output.requires_grad]
        if backward and not tangents:
            raise ShardpropError(
                "Expected a model of which an output depends on a parameter that requires a "
                "gradient, got none. Pass backward=False to plan the forward pass alone."
            )
        given = [torch.empty_like(examples[i], requires_grad=False) for i in tangents]
        spans = ModuleSpans(_traced_so_far)

        def joint(
            params: dict[str, Any], buffs: dict[str, Any], ins: list[Any], tans: list[Any]
        ) -> tuple[list[Any], list[Any]]:
            # The backward pass, too, may run parts of the model: those that are checkpointed.
            with _standing_in(model, {**params, **buffs}):
                with spans.watching(model):
                    outputs = call(ins)
                if not backward:
                    return outputs, []
                wanted = [p for p in params.values() if p.requires_grad]
                leaving = [outputs[i] for i in tangents]
                found = iter(torch.autograd.grad(leaving, wanted, tans, allow_unused=True))
            return outputs, [next(found) if p.requires_grad else None for p in params.values()]

        with grad_mode():
            arguments = (parameters, buffers, inputs, given)
            traced = make_fx(joint, tracing_mode="real")(*arguments)
        nodes = list(traced.graph.nodes)
        paths = dict(zip(nodes, spans.paths(len(nodes)), strict=True))
        marked = without_writes(Marked(traced, paths, frozenset(nodes[spans.end :])), arguments)
    return Traced(
        graph=marked.module.graph,
        parameters=list(parameters),
        buffers=list(buffers),
        inputs=len(inputs),
        tangents=tangents,
        modules=marked.paths,
        backward=marked.backward,
    )


def in_order(args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """The arguments of a model such that its inputs come in the same order in every call."""
    return list(args), dict(sorted(kwargs.items()))


def is_tracing() -> bool:
    """Is a model being traced here?"""
    return _tracing.get()


@contextmanager
def _standing_in(model: nn.Module, tensors: Mapping[str, torch.Tensor]) -> Iterator[None]:
    """Other tensors in place of the model's in the block.

    `torch.func.functional_call` leaves some of them in a module that has several names.
    """
    names = [*model.named_parameters(), *model.named_buffers()]
    replacement = {id(tensor): tensors[name] for name, tensor in names}
    held: list[tuple[Any, str, torch.Tensor]] = [
        (slots, name, tensor)
        for module in model.modules()
        for slots in (module._parameters, module._buffers)
        for name, tensor in slots.items()
        if tensor is not None
    ]
    for slots, name, tensor in held:
        slots[name] = replacement[id(tensor)]
    token = _tracing.set(True)
    try:
        yield
    finally:
        _tracing.reset(token)
        for slots, name, tensor in held:
            slots[name] = tensor


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


def _traced_so_far() -> int:
    mode = get_proxy_mode()
    return 0 if mode is None else len(mode.tracer.graph.nodes)
