"""What ranks make of a call, and whether it is what one device makes of it."""

from __future__ import annotations

import types
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from enum import Enum
from typing import Any

import torch
from torch.distributed._local_tensor import LocalTensorMode
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Partial, distribute_tensor

from shardprop import _torch

from ...specs import R
from .layouts import Placements, placed
from .samples import Sample, tensors_of

__all__ = ["Expected", "Found", "Outcome", "expected", "found"]

Tensors = list[torch.Tensor]


class Outcome(Enum):
    """How a call ended on the ranks."""

    RIGHT = "right"
    WRONG_VALUE = "wrong value"
    WRONG_GRADIENT = "wrong gradient"
    RAISES = "raises"
    RAISES_ON_SOME = "raises on some ranks"

    @property
    def is_wrong(self) -> bool:
        return self in (Outcome.WRONG_VALUE, Outcome.WRONG_GRADIENT)

    @property
    def is_raised(self) -> bool:
        return self in (Outcome.RAISES, Outcome.RAISES_ON_SOME)


@dataclass(frozen=True)
class Found:
    """An outcome, and what is to be said of it."""

    outcome: Outcome
    how: str = ""

    def __str__(self) -> str:
        return f"{self.outcome.value}: {self.how}"


@dataclass(frozen=True)
class Expected:
    """What one device makes of a call.

    Attributes:
        operands: What it was called with.
        values: Tensors among the outputs.
        cotangents: What the outputs' gradients are taken to be; None where there is none.
        gradients: Those of the operands that require one; None where it is zero.
    """

    operands: Tensors
    values: Tensors
    cotangents: list[torch.Tensor | None]
    gradients: list[torch.Tensor | None]


def expected(sample: Sample, placements: Sequence[Placements]) -> Expected | None:
    """What one device makes of a call; None where it raises, or where it is another each time."""
    operands = [
        _exact(tensor.detach()) if any(isinstance(p, Partial) for p in each) else tensor.detach()
        for tensor, each in zip(sample.tensors(), placements, strict=True)
    ]
    flags = [tensor.requires_grad for tensor in sample.tensors()]
    try:
        once, again = (_on_one_device(sample, operands, flags, seed) for seed in (1, 2))
    except Exception:  # a sample that torch refuses
        return None
    same = zip(once.values, again.values, strict=True)
    return once if once.values and all(_is_same(a, b) for a, b in same) else None


def _exact(tensor: torch.Tensor) -> torch.Tensor:
    """With so few digits that parts of it add up without rounding."""
    return torch.round(tensor * 2**16) / 2**16 if tensor.dtype.is_floating_point else tensor


def _on_one_device(sample: Sample, operands: Tensors, flags: list[bool], seed: int) -> Expected:
    torch.manual_seed(seed)
    given = [x.clone().requires_grad_(f) for x, f in zip(operands, flags, strict=True)]
    values = tensors_of(sample.run(given))
    torch.manual_seed(0)
    cotangents = [torch.randn_like(y) if y.requires_grad else None for y in values]
    wanted = [x for x in given if x.requires_grad]
    gradients = _gradients(values, wanted, cotangents)
    return Expected(operands, [y.detach() for y in values], cotangents, gradients)


def _gradients(values: Any, wanted: Any, cotangents: Any) -> list[torch.Tensor | None]:
    pairs = [(y, c) for y, c in zip(values, cotangents, strict=True) if c is not None]
    if not pairs or not wanted:
        return [None] * len(wanted)
    outputs, given = zip(*pairs, strict=True)
    return list(torch.autograd.grad(outputs, wanted, given, allow_unused=True))


def found(
    sample: Sample,
    right: Expected,
    mesh: DeviceMesh,
    placements: Sequence[Placements],
    *,
    simulated: bool,
) -> Found:
    """What the ranks of a mesh make of a call whose operands are placed so: all of them, simulated
    in this process, or this process, which is one of them."""
    with LocalTensorMode(mesh.size()) if simulated else nullcontext():
        try:
            given: list[Any] = [
                placed(x, mesh, each).requires_grad_(tensor.requires_grad)
                for x, each, tensor in zip(
                    right.operands, placements, sample.tensors(), strict=True
                )
            ]
            values = tensors_of(sample.run(given))
            differing = _differing(values, right.values, mesh)
        except Exception as error:  # whatever torch refuses a call with
            return _raised("forward", error)
        if differing:
            return Found(Outcome.WRONG_VALUE, differing)
        try:
            differing = _differing(_backward(values, given, right, mesh), right.gradients, mesh)
        except Exception as error:
            return _raised("backward", error)
        return Found(Outcome.WRONG_GRADIENT, differing) if differing else Found(Outcome.RIGHT)


def _backward(values: list[Any], given: list[Any], right: Expected, mesh: DeviceMesh) -> list[Any]:
    cotangents = [
        None if c is None or not y.requires_grad else _replicated(c, y, mesh)
        for y, c in zip(values, right.cotangents, strict=True)
    ]
    return _gradients(values, [x for x in given if x.requires_grad], cotangents)


def _raised(phase: str, error: Exception) -> Found:
    outcome = Outcome.RAISES_ON_SOME if _is_of_some_ranks(error) else Outcome.RAISES
    return Found(outcome, f"{phase}: {type(error).__name__}: {_first_line(error)}")


def _replicated(cotangent: torch.Tensor, value: Any, mesh: DeviceMesh) -> torch.Tensor:
    if not isinstance(value, DTensor):
        return cotangent.clone()
    return distribute_tensor(cotangent.clone(), mesh, [R] * mesh.ndim)


def _first_line(error: Exception) -> str:
    text = str(error).strip().splitlines()
    return text[0][:160] if text else ""


def _differing(made: Sequence[Any], right: Sequence[Any], mesh: DeviceMesh) -> str:
    """How tensors differ from the right ones; nothing where they do not."""
    if len(made) != len(right):
        return f"{len(made)} tensors instead of {len(right)}"
    for number, (mine, its) in enumerate(zip(made, right, strict=True)):
        local = [None] if mine is None else _whole(mine.detach(), mesh)
        with _torch.no_local_tensors():
            for rank, of_rank in enumerate(local):
                differing = _difference(of_rank, its)
                if differing:
                    return f"tensor {number}, rank {rank}: {differing}"
    return ""


def _difference(mine: torch.Tensor | None, its: torch.Tensor | None) -> str:
    if mine is None or its is None:  # which is as good as zeros
        only = mine if its is None else its
        return "is there on one side only" if only is not None and bool(only.any()) else ""
    if mine.shape != its.shape:
        return f"shape {[*mine.shape]}, not {[*its.shape]}"
    return "" if _is_same(mine, its) else f"{_shown(mine)}, not {_shown(its)}"


def _whole(tensor: Any, mesh: DeviceMesh) -> list[Any]:
    """What each rank has of the whole tensor."""
    if isinstance(tensor, DTensor):
        tensor = tensor.full_tensor()
    return _torch.tensors_of_ranks(tensor, mesh.size())


def _is_same(a: torch.Tensor, b: torch.Tensor) -> bool:
    if a.shape != b.shape:
        return False
    exact = torch.complex128 if a.is_complex() or b.is_complex() else torch.float64
    # Of half precision more is lost where parts are larger than what they add up to.
    coarsest = max((torch.finfo(x.dtype).eps for x in (a, b) if _has_fractions(x)), default=0.0)
    close = max(1e-7, 16 * coarsest)
    return torch.allclose(a.to(exact), b.to(exact), rtol=close, atol=close, equal_nan=True)


def _has_fractions(x: torch.Tensor) -> bool:
    return x.is_floating_point() or x.is_complex()


def _shown(tensor: torch.Tensor) -> str:
    numbers = tensor.flatten()[:4].tolist()
    return str([round(x, 4) if isinstance(x, float) else x for x in numbers])


def _is_of_some_ranks(error: BaseException) -> bool:
    """Did an op raise on one rank's tensors, and does it not on those of another?"""
    frame = _run_by_rank(error)
    if frame is None:
        return False
    local = frame.f_locals
    run: Callable[..., Any] = local["func"]
    of_rank = frame.f_globals["_map_to_rank_local_val"]
    for rank in sorted(local["ranks"]):
        flat = [of_rank(each, rank) for each in local["flat_args"]]
        args, kwargs = _torch.tree_unflatten(flat, local["args_spec"])
        try:
            with _torch.no_local_tensors():
                run(*args, **kwargs)
        except Exception:
            continue
        return True
    return False


def _run_by_rank(error: BaseException) -> types.FrameType | None:
    """Where torch's simulation ran an op rank by rank, if it was that which raised."""
    found: types.FrameType | None = None
    each: BaseException | None = error
    while each is not None:
        step = each.__traceback__
        while step is not None:
            if step.tb_frame.f_code.co_name == "_for_each_rank_run_func":
                found = step.tb_frame
            step = step.tb_next
        if found is not None:
            return found
        each = each.__cause__ or each.__context__
    return None
