"""A planned program as one graph of what a rank runs: local ops, and the plan's own collectives."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import fx
from torch.fx.experimental.proxy_tensor import get_proxy_mode, make_fx

from ... import _torch
from ..._torch import (
    DeviceMesh,
    DTensor,
    DTensorSpec,
    FakeTensorMode,
    MaskPartial,
    OpOverload,
    Placement,
    Replicate,
    make_spec,
    meta_of,
)
from ..._torch.joint_graphs import Border, JointGraph, note_side
from ...errors import ShardpropError
from ...model.placements import Placements
from ...model.plan_steps import Step
from ...propagation.rewrites import rewrite
from ...redistribution.optimal_planner import ExactPlanner
from ...rules.torch_registry import op_schema
from .chosen import Chosen, only
from .moves import moved, strides_like
from .program import Node, Program, Ref, each_of, fill

__all__ = ["Part", "lowered", "node_of", "part_of"]

# Here we note the part of the program that a call is of.
_PART = "program_part"


class Part(NamedTuple):
    """What a call of a lowered graph is for.

    Attributes:
        node: The index of a node of the program: of an op.
        moved: None where it carries out the op; else the tensor that it brings to where the op has
            it, or that the op has made and that leaves.
        steps: Those by which it is brought.
        backward: Is it brought for the backward?
    """

    node: int
    moved: Ref | None = None
    steps: tuple[Step, ...] = ()
    backward: bool = False


def lowered(
    program: Program, chosen: Chosen, mesh: DeviceMesh, planner: ExactPlanner, device: str
) -> JointGraph:
    """Forward and backward on what a rank holds. Nothing runs.

    Its operands are the parameters, the buffers and the inputs of the program, in that order; its
    results are the outputs.

    Args:
        program: What was planned.
        chosen: The plan.
        mesh: On which mesh.
        planner: Has the plans of the redistributions.
        device: The type of device that the program was traced for.

    Raises:
        ShardpropError: an op of the program cannot be carried out as planned.
    """
    with FakeTensorMode(allow_non_fake_inputs=True):
        return _Lowering(program, chosen, mesh, planner, device).joint()


def part_of(call: fx.Node) -> Part | None:
    """What a call of a lowered graph is for; None where that is not known, since passes made it."""
    # What the forward kept has in the backward what it had there.
    part: Part | None = call.meta.get(_PART) if call.op == "call_function" else None
    return part


def node_of(call: fx.Node) -> int | None:
    """The node of the program for which a lowered graph makes a call, or the next after it of which
    that is known; None if there is none."""
    while call.op != "output":
        part = part_of(call)
        if part is not None:
            return part.node
        call = call.next
    return None


class _Lowering:
    """One lowering; its tensors are fake."""

    def __init__(
        self, program: Program, chosen: Chosen, mesh: DeviceMesh, planner: ExactPlanner, device: str
    ) -> None:
        self._program = program
        self._chosen = chosen
        self._mesh = mesh
        self._planner = planner
        self._device = torch.device(device)
        self._entering = [
            *program.parameters.values(),
            *program.buffers.values(),
            *program.inputs,
        ]
        self._tangents = [node for _, node in program.tangents]
        # By an op the nodes of its outputs that leave the program on its side.
        self._left_by: defaultdict[int, list[int]] = defaultdict(list)
        for node in program.nodes:
            if node.kind in ("output", "written", "gradient"):
                (ref,) = node.operands
                if program.nodes[ref.node].backward is node.backward:
                    self._left_by[ref.node].append(node.index)
        self._values: dict[Ref, Any] = {}
        self._moved: dict[tuple[Ref, Placements, bool], DTensor] = {}
        self._forward: set[str] = set()  # names of its calls
        self._part_of: dict[str, Part] = {}  # by the name of a call

    def joint(self) -> JointGraph:
        """See `lowered`."""
        program = self._program
        with_gradient = {output for output, _ in program.tangents}
        operands = [self._border(node, node in program.trained) for node in self._entering]
        tangents = [self._border(node, True) for node in self._tangents]
        made: list[Any] = []

        def joint(primals: list[torch.Tensor], tangents: list[torch.Tensor]) -> list[Any]:
            made[:] = self._run(primals, tangents)
            return [None if x is None else _torch.local_of(x) for x in made]

        with torch.no_grad(), _torch.without_autocast():
            module = make_fx(joint, tracing_mode="real")(
                [border.empty() for border in operands], [border.empty() for border in tangents]
            )
        for node in module.graph.nodes:
            note_side(node, backward=node.name not in self._forward)
            node.meta[_PART] = self._part_of.get(node.name)
        first, last = len(program.written), len(program.written) + len(program.outputs)
        results = [
            _border_of(x, node in with_gradient)
            for x, node in zip(made[first:last], program.outputs, strict=True)
        ]
        gradients = [None if x is None else _border_of(x, True) for x in made[last:]]
        gradients += [None] * (len(operands) - len(gradients))
        written = [self._entering.index(program.buffers[name]) for name in program.written]
        return JointGraph(module, operands, written, results, tangents, gradients)

    def _run(self, primals: Sequence[torch.Tensor], tangents: Sequence[torch.Tensor]) -> list[Any]:
        """What is written into buffers, the outputs, and if there are tangents for each operand its
        gradient or None."""
        program = self._program
        entering = zip([*self._entering, *self._tangents], [*primals, *tangents], strict=True)
        for at, local in entering:
            self._values[Ref(at)] = _torch.wrapped(local, self._spec(at))
        for node in program.nodes:
            if node.kind == "constant":
                (self._values[Ref(node.index)],) = node.args
        self._call_all(backward=False)
        outputs = [*map(self._leaving, (*program.written.values(), *program.outputs))]
        self._forward = _traced_so_far()
        if not tangents:
            return outputs
        self._call_all(backward=True)
        gradients = {of: self._leaving(node) for of, node in program.gradient_of.items()}
        return [*outputs, *map(gradients.get, self._entering)]

    def _call_all(self, *, backward: bool) -> None:
        for node in self._program.nodes:
            if node.op is not None and node.backward is backward:
                self._call(node)
                self._note_calls(Part(node.index))
                # At once: a sum that is pending is larger than what a rank keeps of it.
                for leaving in self._left_by.get(node.index, ()):
                    self._leaving(leaving)

    def _note_calls(self, part: Part) -> None:
        """What was traced last is for this."""
        mode = get_proxy_mode()
        for call in () if mode is None else reversed(mode.tracer.graph.nodes):
            if call.op == "placeholder" or call.name in self._part_of:
                break
            self._part_of[call.name] = part

    def _call(self, node: Node) -> None:
        """Carry out an op on operands that are where the plan wants them.

        Raises:
            ShardpropError: it raises, or its outputs are not where the plan has them.
        """
        assert node.op is not None
        if node.index in self._program.constants:
            args, kwargs = (fill(part, self._constant) for part in (node.args, node.kwargs))
            self._note(node, node.op(*args, **kwargs))
            return
        try:
            self._note(node, self._result(node, node.op))
        except Exception as error:  # whatever an op, or a move, raises of itself
            raise self._fault(node, f"{type(error).__name__}: {error}") from error

    def _result(self, node: Node, op: OpOverload) -> Any:
        places = zip(node.operands, self._chosen.wanted(node.index), strict=True)
        operands = [self._at(ref, wanted, node) for ref, wanted in places]
        specs = [_torch.spec_of(operand) for operand in operands]
        of_specs = iter(specs)
        args, kwargs = (fill(part, lambda _: next(of_specs)) for part in (node.args, node.kwargs))
        outputs = self._output_specs(node)
        schema = op_schema(op, tuple(args), kwargs)
        alone = outputs[0] if len(outputs) == 1 else tuple(outputs)
        meta = node.outputs[0] if len(outputs) == 1 else node.outputs
        schema = rewrite(schema, None, specs, alone, meta) or schema
        local = iter(self._masked(operands, outputs[0] if outputs else None))
        args, kwargs = (
            each_of(DTensorSpec, lambda _: next(local), part)
            for part in (schema.args_schema, schema.kwargs_schema)
        )
        made = schema.op(*args, **kwargs)
        results = made if isinstance(made, (list, tuple)) else [made]
        return [
            None if local is None or spec is None else _as_planned(local, spec)
            for local, spec in zip(results, outputs, strict=True)
        ]

    def _output_specs(self, node: Node) -> list[DTensorSpec | None]:
        """Where the outputs are. A placement knows what is masked, so each op has its own."""
        return [
            None
            if placements is None or meta is None
            else make_spec(self._mesh, tuple(map(_unmasked_yet, placements)), meta)
            for placements, meta in zip(self._chosen.given(node.index), node.outputs, strict=True)
        ]

    def _masked(
        self, operands: Sequence[DTensor], output: DTensorSpec | None
    ) -> list[torch.Tensor]:
        """What a rank holds of the operands: of indices into a dim that is sharded those that are
        its own, if that is how the output is pending."""
        local = [*map(_torch.local_of, operands)]
        for mesh_dim, placement in enumerate(output.placements if output is not None else ()):
            if isinstance(placement, MaskPartial):
                at = max(at for at, held in enumerate(local) if not held.is_floating_point())
                local[at] = _torch.partition(placement, local[at], self._mesh, mesh_dim)
        return local

    def _constant(self, ref: Ref) -> Any:
        return self._values[ref]

    def _at(self, ref: Ref, placements: Placements, reader: Node) -> DTensor:
        """A tensor where it is read; the forward moves it there once, and the backward once."""
        key = ref, placements, reader.backward
        if key not in self._moved:
            tensor = self._wrapped(self._values[ref])
            found = self._moved[key] = moved(self._planner, tensor, placements)
            if found is not tensor:
                steps = self._planner.steps(_torch.spec_of(tensor), _torch.spec_of(found))
                of = ref.node if reader.op is None else reader.index
                self._note_calls(Part(of, ref, tuple(steps or ()), reader.backward))
        return self._moved[key]

    def _leaving(self, node: int) -> DTensor | None:
        leaving = self._program.nodes[node]
        (ref,) = leaving.operands
        return self._at(ref, only(self._chosen, node), leaving)

    def _note(self, node: Node, result: Any) -> None:
        """Keep what an op has made."""
        results = result if isinstance(result, (list, tuple)) else [result]
        for output, tensor in enumerate(results):
            self._values[Ref(node.index, output)] = tensor

    def _wrapped(self, item: Any) -> Any:
        """Tensors that are the same on every rank, as DTensors."""
        if isinstance(item, (list, tuple)):
            return type(item)(map(self._wrapped, item))
        if not isinstance(item, torch.Tensor) or isinstance(item, DTensor):
            return item
        replicated = (Replicate(),) * self._mesh.ndim
        return _torch.wrapped(item, make_spec(self._mesh, replicated, meta_of(item)))

    def _spec(self, node: int) -> DTensorSpec:
        meta = self._program.nodes[node].outputs[0]
        return make_spec(self._mesh, only(self._chosen, node), meta)

    def _border(self, node: int, has_gradient: bool) -> Border:
        """What a rank holds of a tensor that goes in."""
        spec, meta = self._spec(node), self._program.meta(Ref(node))
        shape = torch.Size(_torch.local_shape(spec))
        stride = strides_like(meta.stride, shape)
        return Border(spec, shape, stride, meta.dtype, self._device, has_gradient)

    def _fault(self, node: Node, got: str) -> ShardpropError:
        operands = ", ".join(
            f"{tuple(self._program.meta(ref).shape)} {placements}"
            for ref, placements in zip(node.operands, self._chosen.wanted(node.index), strict=False)
        )
        where = f" of {node.module}" if node.module else ""
        return ShardpropError(
            f"{node.op}{where} ({node.name}): Expected an op that runs as planned on ({operands}), "
            f"got {got}."
        )


def _unmasked_yet(placement: Placement) -> Placement:
    if not isinstance(placement, MaskPartial):
        return placement
    return _torch.mask_partial(placement.offset_shape or (), placement.offset_dim)


def _as_planned(local: torch.Tensor, spec: DTensorSpec) -> DTensor:
    """What a rank holds as the tensor that it is of.

    Raises:
        ShardpropError: a rank holds something else under the spec.
    """
    # torch finds strided shards by cutting tensors, which are none of what is traced.
    with _torch.no_modes():
        planned = _torch.local_shape(spec)
    if tuple(local.shape) != planned:
        raise ShardpropError(
            f"an output of {tuple(local.shape)} for {planned} of {tuple(spec.shape)} under "
            f"{spec.placements}"
        )
    return _torch.wrapped(local, spec)


def _border_of(tensor: DTensor, has_gradient: bool) -> Border:
    local = _torch.local_of(tensor)
    return Border(
        _torch.spec_of(tensor),
        local.shape,
        local.stride(),
        local.dtype,
        local.device,
        has_gradient,
    )


def _traced_so_far() -> set[str]:
    mode = get_proxy_mode()
    return set() if mode is None else {node.name for node in mode.tracer.graph.nodes}
