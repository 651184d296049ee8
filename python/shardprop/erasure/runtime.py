"""Local graphs as a function of the program's tensors, with gradients."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import Any

import torch

from .. import _torch
from .._torch.joint_graphs import Border, JointGraph
from ..errors import ShardpropError
from .incoming import Incoming
from .sharing import Sharing
from .written import writing

__all__ = ["differentiable", "forward_alone"]

_NOT_TWICE = (
    "Expected a backward without create_graph=True of a program that is erased, got one with it: "
    "its gradients have none. Run what needs gradients of gradients outside of `erase`."
)
_WRITTEN = (
    "one of the variables needed for gradient computation has been modified by an inplace "
    "operation: {} {} of an erased program is at version {}; expected version {} instead."
)

# On what a rank holds, which it takes out of the list.
_Local = Callable[[list[Any]], tuple[Any, ...]]
# On the program's tensors.
_Run = Callable[..., tuple[Any, ...]]


def forward_alone(forward: _Local, joint: JointGraph, silent: Sequence[bool]) -> _Run:
    """The program without gradients.

    Args:
        forward: Of what a rank holds of the operands, what it is to hold of those that are written
            into, what of the results, and perhaps more.
        joint: What the program takes and returns.
        silent: For each operand that is written into, whether nobody counts that.
    """
    held, wrapped = _held(joint.operands), _wrapped(joint.results)
    write, first = writing(joint.written, silent), len(joint.written)
    last = first + len(joint.results)

    def run(*operands: Any) -> tuple[Any, ...]:
        with torch.no_grad():
            with _torch.without_autocast(), _torch.below_autograd():
                made = forward(held(operands))
            write(operands, made[:first])
        return wrapped(made[first:last])

    return run


def differentiable(
    forward: _Local,
    backward_without: Callable[[frozenset[int]], _Local],
    joint: JointGraph,
    silent: Sequence[bool],
    sharing: Sharing,
    incoming: Incoming,
    again: Sequence[int],
) -> _Run:
    """The program as one autograd function.

    Args:
        forward: Of what a rank holds of the operands, what it is to hold of those that are written
            into, what of the results, and what the backward needs.
        backward_without: By those gradients of results that there are not, a function of what the
            backward needs and of what a rank holds of the others (anything for these), to what it
            holds of the gradients of operands.
        joint: What the program takes and returns.
        silent: For each operand that is written into, whether nobody counts that.
        sharing: What of that shares memory.
        incoming: Is told of gradients that come in placed otherwise than the backward takes them.
        again: Operands that autograd is given once more, each for a gradient of its own: it adds
            them.
    """
    gradients = [*joint.gradients, *(joint.gradients[at] for at in again)]
    held, wrapped = _held(joint.operands), _wrapped(joint.results)
    hand_on = _handed_on(gradients, joint.tangents, sharing)
    write, first = writing(joint.written, silent), len(joint.written)
    last, taken = first + len(joint.results), len(joint.operands)
    without = [at for at, result in enumerate(joint.results) if not result.has_gradient]
    places = [at for at, result in enumerate(joint.results) if result.has_gradient]
    wanted = [*zip(places, joint.tangents, strict=True)]
    tensors = [at for at, border in enumerate(joint.operands) if border is not None]
    returned = [("operand", at) for at in joint.written]
    returned += [("result", at) for at in range(len(joint.results))]
    watched = [("operand", tensors[at]) for at in sharing.operands]
    watched += [returned[at] for at in sharing.results]

    class Erased(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, *operands: Any) -> tuple[Any, ...]:
            with _torch.without_autocast(), _torch.below_autograd():
                made = forward(held(operands[:taken]))
            write(operands, made[:first])
            ctx.save_for_backward(*made[last:])
            ctx.set_materialize_grads(False)
            results = wrapped(made[first:last])
            ctx.mark_non_differentiable(*[results[at] for at in without])
            # What is kept is local, and DTensor counts what is written into the whole.
            seen = {"operand": operands, "result": results}
            ctx.watched = [(kind, at, *_seen(seen[kind][at])) for kind, at in watched]
            return results

        @staticmethod
        def backward(ctx: Any, *gradients: Any) -> tuple[Any, ...]:
            if torch.is_grad_enabled():
                raise ShardpropError(_NOT_TWICE)
            kept = [*ctx.saved_tensors]  # raises where they are gone
            for kind, at, tensor, version in ctx.watched:
                _check(kind, at, tensor(), version)
            given = [_as_wanted(gradients[at], at, tangent, incoming) for at, tangent in wanted]
            absent = frozenset(at for at, gradient in enumerate(given) if gradient is None)
            kept += [None if x is None else _local(x) for x in given]
            ctx.maybe_clear_saved_tensors()
            with _torch.without_autocast(), _torch.below_autograd():
                made = backward_without(absent)(kept)
            return hand_on(made, given)

    run_with_gradients: _Run = Erased.apply
    alone = forward_alone(forward, joint, silent)

    def run(*operands: Any) -> tuple[Any, ...]:
        if not torch.is_grad_enabled():
            return alone(*operands)
        return run_with_gradients(*operands, *[operands[at] for at in again])

    return run


def _seen(tensor: torch.Tensor) -> tuple[weakref.ref[torch.Tensor], int]:
    return weakref.ref(tensor), _torch.version_of(tensor)


def _check(kind: str, place: int, tensor: torch.Tensor | None, version: int) -> None:
    now = version if tensor is None else _torch.version_of(tensor)
    if now != version:
        raise RuntimeError(_WRITTEN.format(kind, place, now, version))


def _local(tensor: Any) -> torch.Tensor:
    if isinstance(tensor, _torch.DTensor):
        return _torch.waited(_torch.local_of(tensor))
    return tensor  # type: ignore[no-any-return]


def _held(borders: Sequence[Border | None]) -> Callable[[Sequence[Any]], list[torch.Tensor]]:
    """What a rank holds of tensors; meshes are left out."""
    if all(border is not None and border.spec is not None for border in borders):
        return lambda tensors: [*map(_torch.local_of, tensors)]
    places = [(at, border.spec is not None) for at, border in enumerate(borders) if border]
    return lambda tensors: [
        _torch.local_of(tensors[at]) if is_dtensor else tensors[at] for at, is_dtensor in places
    ]


def _wrapped(borders: Sequence[Border]) -> Callable[[Sequence[Any]], tuple[Any, ...]]:
    specs = [border.spec for border in borders]
    return lambda made: tuple(
        [
            local if spec is None else _torch.wrapped(local, spec)
            for local, spec in zip(made, specs, strict=True)
        ]
    )


def _handed_on(
    borders: Sequence[Border | None], tangents: Sequence[Border], sharing: Sharing
) -> Callable[[Sequence[Any], Sequence[Any]], tuple[Any, ...]]:
    """The gradients of operands, of what a rank holds of them.

    Autograd keeps a gradient that nobody else holds, and writes into it: so one that stands twice,
    or came in, is handed on as one tensor, or else as a copy, and so is what the forward has kept.
    """
    specs = [None if border is None else border.spec for border in borders]
    came_in, stands_before = _itself(specs, tangents, sharing)
    copied = sharing.kept | (sharing.as_tangent.keys() - came_in.keys())
    copied |= sharing.as_gradient.keys() - stands_before.keys()

    def handed_on(made: Sequence[Any], given: Sequence[Any]) -> tuple[Any, ...]:
        found: list[Any] = []
        for at, (local, spec) in enumerate(zip(made, specs, strict=True)):
            if local is None:
                found.append(None)
            elif at in came_in:
                found.append(given[came_in[at]])
            elif at in stands_before:
                found.append(found[stands_before[at]])
            else:
                local = local.clone() if at in copied else local
                found.append(local if spec is None else _torch.wrapped(local, spec))
        return tuple(found)

    return handed_on


def _itself(
    specs: Sequence[Any], tangents: Sequence[Border], sharing: Sharing
) -> tuple[dict[int, int], dict[int, int]]:
    """By gradient the tangent, and the gradient before it, that it is as the program sees it: what
    a rank holds may be that of a DTensor once, and itself once."""
    came_in = {
        at: tangent
        for at, tangent in sharing.as_tangent.items()
        if specs[at] == tangents[tangent].spec
    }
    stands_before = {
        at: first for at, first in sharing.as_gradient.items() if specs[at] == specs[first]
    }
    return came_in, stands_before


def _as_wanted(gradient: Any, at: int, wanted: Border, incoming: Incoming) -> Any:
    """A gradient of a result, placed and laid out as the graph was made for.

    Raises:
        ShardpropError: it is no DTensor, and the result is.
    """
    if gradient is None:
        return None
    if wanted.spec is not None:
        if not isinstance(gradient, _torch.DTensor):
            raise ShardpropError(
                f"Expected a DTensor for the gradient of result {at}, got a "
                f"{type(gradient).__name__}."
            )
        if gradient.placements != wanted.spec.placements:
            incoming.changed(at, wanted.spec.placements, gradient.placements)
            gradient = _torch.moved_to(gradient, wanted.spec)
    local = _local(gradient)
    if local.stride() == wanted.stride:
        return gradient
    made = wanted.empty().copy_(local)
    return made if wanted.spec is None else _torch.wrapped(made, wanted.spec)
