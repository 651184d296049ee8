"""A model whose calls run what its plan was compiled to."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import fx, nn

from ... import _torch
from ..._torch import DTensor, DTensorSpec, Replicate, make_spec
from ..._torch.joint_graphs import Border, JointGraph
from ...erasure.incoming import Incoming
from ...erasure.written import why_not_written
from ...errors import ShardpropError
from ...redistribution.optimal_planner import ExactPlanner
from .moves import in_memory_like, moving
from .program import TENSOR, Program
from .tracing import in_order, is_tracing

__all__ = ["GradientsMoved", "PlannedCall", "run_by"]

_Run = Callable[..., tuple[Any, ...]]


class GradientsMoved(Incoming):
    """The gradients of a planned model's outputs come in as its caller has them: they are moved to
    where the plan has them."""

    def changed(self, at: int, expected: Any, found: Any) -> None:
        """Nothing of that changes what runs."""


def run_by(model: nn.Module, call: PlannedCall) -> None:
    """Have calls of a model run what a plan was compiled to.

    Calls of another kind go on to run by the plan that was compiled for these before, unless that
    has the parameters elsewhere.
    """
    known = model.__dict__.get("forward")
    if not isinstance(known, _PlannedForward):
        known = _PlannedForward(model, known)
        model.forward = known
    known.add(call)


class PlannedCall:
    """What one plan was compiled to.

    Args:
        program: What was planned.
        joint: What was lowered.
        run: What it was compiled to.
        planner: Brings inputs to where the plan has them.

    Attributes:
        specs: Those of the parameters and buffers.
    """

    def __init__(
        self, program: Program, joint: JointGraph, run: _Run, planner: ExactPlanner
    ) -> None:
        names = [*program.parameters, *program.buffers]
        borders = [border for border in joint.operands if border is not None]
        self._call = program.call
        self._run = run
        self._written = joint.written
        self._state = [*map(_State, names, borders)]
        self._inputs = [
            _Input(program.nodes[node].name, border, planner, node in program.gradient_of)
            for node, border in zip(program.inputs, borders[len(names) :], strict=True)
        ]
        self.specs = {each.name: each.spec for each in self._state}

    def differs(
        self, modules: Sequence[nn.Module], leaves: Sequence[Any], structure: object
    ) -> str | None:
        """In what a call of a model with these modules is of another kind; None: it is not."""
        call = self._call
        found = tuple((type(module), module.training) for module in modules)
        if found != call.modules:
            return _modules_differ(modules, call.modules)
        autocast = _torch.autocast_state()
        if autocast != call.autocast:
            return f"Expected autocast as it was captured under, {call.autocast}, got {autocast}"
        if structure != call.structure:
            return f"Expected arguments as they were captured, {call.structure}, got {structure}"
        tensors = iter(self._inputs)
        for leaf, captured in zip(leaves, call.leaves, strict=True):
            if captured is TENSOR:
                different = next(tensors).differs(leaf)
                if different is not None:
                    return different
            elif type(leaf) is not type(captured) or leaf != captured:
                return f"Expected the argument {captured!r} as it was captured, got {leaf!r}"
        return None

    def is_of_the_kind(self, other: PlannedCall) -> bool:
        """Is it for the same calls as another?"""
        mine, its = self._call, other._call
        return (mine.modules, mine.autocast, mine.structure, mine.leaves) == (
            *(its.modules, its.autocast, its.structure, its.leaves),
        ) and all(one.is_like(two) for one, two in zip(self._inputs, other._inputs, strict=True))

    def run(self, state: Sequence[torch.Tensor], leaves: Sequence[Any]) -> Any:
        """Run it: `state` are the parameters and buffers, `leaves` the arguments, flattened.

        Raises:
            ShardpropError: a parameter or buffer is not what it was, or an input cannot be placed.
        """
        for planned, tensor in zip(self._state, state, strict=True):
            planned.check(tensor)
        tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
        placed = [each.placed(x) for each, x in zip(self._inputs, tensors, strict=True)]
        operands = [*state, *placed]
        why_not = why_not_written(operands, self._written)
        if why_not is not None:
            raise ShardpropError(
                f"Expected buffers with memory of their own, got a call: {why_not}."
            )
        results = iter(self._run(*operands))
        returned = [next(results) if leaf is TENSOR else leaf for leaf in self._call.returned]
        return _torch.tree_unflatten(returned, self._call.returned_structure)


class _State:
    """A parameter or buffer of a planned model."""

    def __init__(self, name: str, border: Border) -> None:
        assert border.spec is not None
        self.name = name
        self.spec = border.spec
        self._border = border
        self._seen: DTensorSpec | None = None  # equal to `spec`

    def check(self, tensor: object) -> None:
        """Is it what the plan was compiled for?

        Raises:
            ShardpropError: it has been replaced or converted, or no gradient is planned for it.
        """
        if not isinstance(tensor, DTensor):
            raise self._fault(f"a {type(tensor).__name__}")
        spec = _torch.spec_of(tensor)
        if spec is not self._seen:
            if spec != self.spec:
                raise self._fault(f"one of {tensor.dtype} placed {spec.placements}")
            self._seen = spec
        if tensor.requires_grad and not self._border.has_gradient and torch.is_grad_enabled():
            raise self._fault("one that requires a gradient, and none is planned")

    def _fault(self, got: str) -> ShardpropError:
        return ShardpropError(
            f"{self.name}: Expected a DTensor of {self._border.dtype} placed "
            f"{self.spec.placements}, as the model was compiled with, got {got}. Plan and compile "
            "it anew."
        )


class _Input:
    """A tensor among the inputs of a planned model."""

    def __init__(
        self, name: str, border: Border, planner: ExactPlanner, gets_gradient: bool
    ) -> None:
        assert border.spec is not None
        self._name = name
        self._gets_gradient = gets_gradient
        self._border = border
        self.spec = border.spec
        everywhere = (Replicate(),) * self.spec.mesh.ndim
        whole = make_spec(self.spec.mesh, everywhere, self.spec.tensor_meta)
        self._whole = whole.placements
        self._cut = moving(planner, whole, self.spec)

    def differs(self, given: object) -> str | None:
        """In what it is another tensor than the one that was captured."""
        if not isinstance(given, torch.Tensor):
            return f"{self._name}: Expected a tensor, got {type(given).__name__}"
        if given.shape != self.spec.shape or given.dtype != self._border.dtype:
            return (
                f"{self._name}: Expected the shape and dtype that were captured, "
                f"{tuple(self.spec.shape)} and {self._border.dtype}, got {tuple(given.shape)} and "
                f"{given.dtype}"
            )
        return None

    def is_like(self, other: _Input) -> bool:
        """Has it the shape and the dtype of another?"""
        of = self._border, other._border
        return self.spec.shape == other.spec.shape and of[0].dtype == of[1].dtype

    def placed(self, given: torch.Tensor) -> torch.Tensor:
        """Where the plan has it; what is no DTensor is the same on every rank, and is cut.

        Raises:
            ShardpropError: it has a gradient, and none was captured; or it is on another device.
        """
        if given.requires_grad and not self._border.has_gradient and torch.is_grad_enabled():
            raise ShardpropError(
                f"{self._name}: Expected an input without a gradient, as it was captured, got one "
                "that requires it. Capture the model with one, or detach it."
            )
        if not self._gets_gradient:
            given = given.detach()
        if isinstance(given, DTensor):
            if given.device_mesh != self.spec.mesh:
                raise ShardpropError(
                    f"{self._name}: Expected a tensor on the mesh of the plan, got one on "
                    f"{given.device_mesh}."
                )
            return self._laid_out(given.redistribute(placements=self.spec.placements))
        if given.device.type != self._border.device.type:
            raise ShardpropError(
                f"{self._name}: Expected a tensor on {self._border.device.type}, as it was "
                f"captured, got one on {given.device.type}."
            )
        if given.requires_grad:
            whole = DTensor.from_local(given, self.spec.mesh, self._whole, run_check=False)
            return self._laid_out(whole.redistribute(placements=self.spec.placements))
        local = in_memory_like(self._border.stride, self._cut(given))
        return _torch.wrapped(local, self.spec)

    def _laid_out(self, placed: DTensor) -> DTensor:
        """The same, lying in memory as it was lowered for."""
        if _torch.local_of(placed).stride() == self._border.stride:
            return placed
        local = in_memory_like(self._border.stride, placed.to_local())
        spec = self.spec
        return DTensor.from_local(
            *(local, spec.mesh, spec.placements),
            run_check=False,
            shape=spec.shape,
            stride=spec.stride,
        )


class _PlannedForward:
    """The forward of a model that runs by plans: one for each kind of call."""

    def __init__(self, model: nn.Module, own: Callable[..., Any] | None) -> None:
        self._model = model
        self._own = own
        self._calls: list[PlannedCall] = []
        # As they were at the last call, and where they keep parameters and buffers.
        self._modules: list[nn.Module] = []
        self._state: list[tuple[Mapping[str, Any], str]] = []

    def add(self, call: PlannedCall) -> None:
        """Run calls of its kind by it; others by those that have parameters in the same places."""
        others = [each for each in self._calls if each.specs == call.specs]
        self._calls = [call, *(each for each in others if not each.is_of_the_kind(call))]
        self._modules = []

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if is_tracing():
            return self._own_forward()(*args, **kwargs)
        modules = [*self._model.modules()]
        if modules != self._modules:  # of which each equals itself alone
            self._state = [_holder_of(self._model, name) for name in self._calls[0].specs]
            self._modules = modules
        leaves, structure = _torch.tree_flatten(in_order(args, kwargs))
        differences = []
        for call in self._calls:
            different = call.differs(modules, leaves, structure)
            if different is None:
                return call.run([held[name] for held, name in self._state], leaves)
            differences.append(different)
        raise ShardpropError(
            f"{'; or '.join(differences)}. Capture, plan and compile the model for such calls, too."
        )

    def _own_forward(self) -> Callable[..., Any]:
        model = self._model
        return type(model).forward.__get__(model) if self._own is None else self._own

    def __reduce__(self) -> tuple[Any, ...]:
        # A model that is saved as a whole is saved without its plan.
        if isinstance(self._model, fx.GraphModule):
            raise ShardpropError(
                "Expected a GraphModule that runs by a plan to be saved by its state_dict, got one "
                "that is saved as a whole."
            )
        return (getattr, (self._model, "forward")) if self._own is None else (_same, (self._own,))

    def __deepcopy__(self, memo: dict[int, Any]) -> _PlannedForward:
        # A copy of the model runs by the same plans; it has no modules yet.
        made = _PlannedForward(copy.deepcopy(self._model, memo), copy.deepcopy(self._own, memo))
        made._calls = [*self._calls]
        return made


def _same(thing: Any) -> Any:
    return thing


def _modules_differ(
    modules: Sequence[nn.Module], captured: Sequence[tuple[type, bool]]
) -> str | None:
    if len(modules) != len(captured):
        return f"Expected {len(captured)} modules, as captured, got {len(modules)}"
    names = {module: name for name, module in modules[0].named_modules()}
    for module, (kind, training) in zip(modules, captured, strict=True):
        name = names[module] or "the model"
        if type(module) is not kind:
            return f"{name}: Expected a {kind.__name__}, as captured, got a {type(module).__name__}"
        if module.training is not training:
            mode = "training" if training else "evaluation"
            return f"{name}: Expected {mode} mode, as it was captured in"
    return None


def _holder_of(model: nn.Module, name: str) -> tuple[Mapping[str, Any], str]:
    """Where a model keeps a parameter or buffer."""
    path, _, attribute = name.rpartition(".")
    return _torch.table_with(model.get_submodule(path), attribute), attribute
