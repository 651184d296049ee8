"""A program's forward and backward as one graph of local ops and collectives, as torch's compiler
makes it, and the tensors at its border."""

from __future__ import annotations

import dataclasses
import itertools
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from typing import Any, NamedTuple

import torch
import torch._functorch.config
from torch import fx
from torch._dynamo.utils import preserve_rng_state
from torch._functorch import aot_autograd
from torch._functorch._aot_autograd import descriptors as _of
from torch._functorch._aot_autograd.schemas import OutputType, PlainTensorMeta
from torch._functorch.partitioners import (
    default_partition,
    min_cut_rematerialization_partition,
)
from torch._guards import detect_fake_mode

from .graph_calls import has_plain_sizes
from .mesh import mesh_itself
from .op_outputs import wrapped
from .types import DTensor, DTensorSpec

__all__ = [
    "CAPTURING",
    "Border",
    "Captured",
    "JointGraph",
    "NotErased",
    "Tangent",
    "fake_mode_of",
    "note_side",
    "partitioned",
    "without_grad_warnings",
]

_AS_MADE = (OutputType.non_alias, OutputType.unsafe_view_alias)
_MESH = "device_mesh"
# torch's partitioner reads here whether a call is of the forward or the backward.
_SIDE, _FORWARD, _BACKWARD = "partitioner_tag", "is_forward", "is_backward"
CAPTURING = threading.RLock()
"""Held by the thread that captures: what is put in the place of torch's functions, while it follows
a program, is there for all threads."""


class NotErased(Exception):
    """A program's local graphs cannot be had, or would not be the program; says why. Nothing of it
    has run."""


class Tangent(NamedTuple):
    """How a gradient comes in that is a DTensor.

    Attributes:
        spec: Its spec.
        local_shape: Of what a rank holds.
        local_stride: Likewise.
    """

    spec: DTensorSpec
    local_shape: torch.Size
    local_stride: tuple[int, ...]

    @classmethod
    def of(cls, gradient: DTensor) -> Tangent:
        local = gradient._local_tensor
        return cls(gradient._spec, local.shape, local.stride())

    def like(self, tangent: DTensor) -> DTensor:
        """A tensor that comes in so, of any elements, in the mode that another is in."""
        local = tangent._local_tensor.new_empty_strided(self.local_shape, self.local_stride)
        return wrapped(local, dataclasses.replace(self.spec, mesh=tangent._spec.mesh))


class Border(NamedTuple):
    """A tensor that goes in or comes out.

    Attributes:
        spec: Its spec; None for a tensor that is no DTensor.
        shape: Of what this rank holds of it.
        stride: Likewise.
        dtype: Likewise.
        device: Likewise.
        has_gradient: Does a gradient flow through it?
    """

    spec: DTensorSpec | None
    shape: torch.Size
    stride: tuple[int, ...]
    dtype: torch.dtype
    device: torch.device
    has_gradient: bool

    def empty(self) -> torch.Tensor:
        """A tensor like what this rank holds."""
        return torch.empty_strided(self.shape, self.stride, dtype=self.dtype, device=self.device)


class JointGraph(NamedTuple):
    """Forward and backward of a program, on what a rank holds.

    Attributes:
        graph: Takes operands (named ``primals``), then gradients of those results that have one
            (``tangents``); returns what is written into operands, then results, then for each
            operand its gradient or None. Without a gradient anywhere it has neither of the latter.
        operands: Of the program, in its order; None for a mesh.
        written: Those into which it writes, by place.
        results: Likewise.
        tangents: The gradients that come in.
        gradients: Those that go out, for each operand; None where there is none.
    """

    graph: fx.GraphModule
    operands: Sequence[Border | None]
    written: Sequence[int]
    results: Sequence[Border]
    tangents: Sequence[Border]
    gradients: Sequence[Border | None]


class Captured:
    """What torch's compiler makes of a program.

    Args:
        stack: Closes what it is under while it is compiled.
        program: A graph of torch functions, some of whose operands are DTensors.
        example: Operands.
        tangents: How the gradients come in, for each result that is a DTensor and has one, in their
            order. Where it is not said: like the result, and replicated where that is pending.
    """

    def __init__(
        self,
        stack: ExitStack,
        program: fx.GraphModule,
        example: Sequence[Any],
        tangents: Sequence[Tangent | None] = (),
    ) -> None:
        self._tangents = tangents
        # As a rule a backward is called outside of the autocast that the forward was under.
        as_usual = torch._functorch.config.patch(backward_pass_autocast="off")
        with without_grad_warnings(), preserve_rng_state(), as_usual, _tangents_placed(tangents):
            self._made = aot_autograd.aot_export_joint_with_descriptors(stack, program, (*example,))

    def joint_graph(self) -> JointGraph:
        """The graph without what stands for meshes.

        Raises:
            NotErased: it writes into operands that have a gradient, returns views, draws random
                numbers by rank, or gradients do not come in as they were said to.
        """
        state, capture = self._made._aot_state, self._made._aot_graph_capture
        facts = state.fw_metadata
        _check(facts, capture.wrappers)
        graph = capture.graph_module
        operands, tangents, meshes = _inputs(graph.graph)
        values, results, gradients = _outputs(graph.graph, len(facts.input_info))
        of_subclasses = capture.maybe_subclass_meta
        metas = getattr(of_subclasses, "grad_input_metas", None) or [None] * len(gradients)
        inputs = zip(facts.subclass_inp_meta, operands, facts.input_info, strict=True)
        written = [*facts.mutated_inp_runtime_indices]
        of_results = facts.subclass_fw_graph_out_meta[len(written) :]
        outputs = zip(of_results, results, facts.output_info, strict=True)
        made = JointGraph(
            graph,
            [
                None if node is None else _border(meta, node, info.requires_grad)
                for meta, node, info in inputs
            ],
            written,
            [_border(meta, node, info.requires_grad_for_backward) for meta, node, info in outputs],
            [
                _border(meta, node, True)
                for meta, node in zip(facts.subclass_tangent_meta, tangents, strict=True)
            ],
            [
                None if node is None else _border(meta, node, True)
                for meta, node in zip(metas, gradients, strict=True)
            ],
        )
        _check_tangents(made.tangents, self._tangents)
        _check_random(made)
        _leave_out(graph.graph, meshes, [*values, *results, *(gradients if tangents else ())])
        return made


def _check(facts: Any, wrappers: Sequence[Any]) -> None:
    if any(info.output_type not in _AS_MADE for info in facts.output_info):
        raise NotErased("it returns an operand, or a view of one or of another result")
    written = [info for info in facts.input_info if info.mutates_data or info.mutates_metadata]
    if any(info.requires_grad or info.mutates_metadata for info in written):
        raise NotErased("it writes into an operand that has a gradient")
    if not all(issubclass(info.raw_type, torch.Tensor) for info in facts.output_info):
        raise NotErased("it returns something else than tensors")
    if facts.num_intermediate_bases or any(each.needs_post_compile for each in wrappers):
        raise NotErased("operands or results share memory")
    if facts.tokens or facts.num_backward_tokens or facts.is_rng_op_functionalized:
        raise NotErased("it calls ops with side effects")


def _check_tangents(tangents: Sequence[Border], asked: Sequence[Tangent | None]) -> None:
    found = [border.spec.placements for border in tangents if border.spec is not None]
    as_asked = len(found) == len(asked) and all(
        wanted is None or wanted.spec.placements == placements
        for wanted, placements in zip(asked, found, strict=True)
    )
    if asked and not as_asked:
        raise NotErased(f"gradients come in as {asked}, and torch follows it for {found}")


def _check_random(joint: JointGraph) -> None:
    """DTensor draws by a state of each rank's own, but for the CPU; in a graph that is not to be
    seen."""
    draws = any(
        torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ())
        for node in joint.graph.graph.nodes
    )
    borders = [*joint.operands, *joint.results]
    if draws and any(border is not None and border.device.type != "cpu" for border in borders):
        raise NotErased("it draws random numbers, which DTensor does by a state of each rank's own")


@contextmanager
def _tangents_placed(asked: Sequence[Tangent | None]) -> Iterator[None]:
    """While a program is followed in the block, the gradients come in as asked.

    torch makes them one after another of the results, in their order.
    """
    usual: Callable[[DTensor], DTensor] = DTensor.__coerce_tangent_metadata__
    turns = itertools.cycle(asked)

    def coerced(tangent: DTensor) -> DTensor:
        wanted = next(turns, None)
        return usual(tangent) if wanted is None else wanted.like(tangent)

    DTensor.__coerce_tangent_metadata__ = coerced  # type: ignore[method-assign]
    try:
        yield
    finally:
        DTensor.__coerce_tangent_metadata__ = usual  # type: ignore[method-assign]


def _border(meta: Any, node: fx.Node, has_gradient: bool) -> Border:
    spec = None
    if meta is not None and not isinstance(meta, PlainTensorMeta):
        tensor = meta.original_subclass
        if type(tensor) is not DTensor:
            raise NotErased(f"it takes or returns a {type(tensor).__name__}")
        spec = _with_mesh(tensor._spec)
    held = node.meta["val"]
    return Border(spec, held.shape, held.stride(), held.dtype, held.device, has_gradient)


def _with_mesh(spec: DTensorSpec) -> DTensorSpec:
    """The spec on the program's mesh itself."""
    mesh = mesh_itself(spec.mesh)
    return spec if mesh is spec.mesh else dataclasses.replace(spec, mesh=mesh)


def _inputs(
    graph: fx.Graph,
) -> tuple[list[fx.Node | None], list[fx.Node], list[fx.Node]]:
    """Operands (None for a mesh), gradients of results, and all meshes."""
    operands: list[fx.Node | None] = []
    tangents: list[fx.Node] = []
    meshes: list[fx.Node] = []
    for node in graph.find_nodes(op="placeholder"):
        is_of, value = node.meta.get("desc"), node.meta.get("val")
        base = is_of.base if isinstance(is_of, _of.SubclassGetAttrAOTInput) else is_of
        if isinstance(value, int | float) or not has_plain_sizes(value):
            raise NotErased("its sizes vary")
        if isinstance(value, torch.Tensor):
            (tangents if isinstance(base, _of.TangentAOTInput) else operands).append(node)
            continue
        if any(user.op != "output" for user in node.users):
            raise NotErased("it calls an op on a mesh")
        meshes.append(node)
        if base is is_of:
            operands.append(None)
    return operands, tangents, meshes


def _outputs(
    graph: fx.Graph, operands: int
) -> tuple[list[fx.Node], list[Any], list[fx.Node | None]]:
    """What is written into operands, the results, and for each operand its gradient."""
    values: list[fx.Node] = []
    results: list[Any] = []
    gradients: list[fx.Node | None] = [None] * operands
    output = graph.output_node()
    made: Any = output.args[0]
    for node, is_of in zip(made, output.meta["desc"], strict=True):
        base = is_of.base if isinstance(is_of, _of.SubclassGetAttrAOTOutput) else is_of
        if base is not is_of and is_of.attr == _MESH:
            continue
        if isinstance(base, _of.PlainAOTOutput):
            results.append(node)
        elif isinstance(base, _of.InputMutationAOTOutput):
            values.append(node)
        elif isinstance(base, _of.GradAOTOutput) and isinstance(base.grad_of, _of.PlainAOTInput):
            gradients[base.grad_of.idx] = node
        elif node is not None:
            raise NotErased(f"it returns a {type(base).__name__}")
    return values, results, gradients


def _leave_out(graph: fx.Graph, meshes: Sequence[fx.Node], returned: Sequence[Any]) -> None:
    output = graph.output_node()
    output.args = ([*returned],)
    del output.meta["desc"]
    for node in meshes:
        graph.erase_node(node)


def note_side(node: fx.Node, *, backward: bool) -> None:
    """Say for `partitioned` whether a call of a joint graph is of the forward or the backward."""
    node.meta[_SIDE] = _BACKWARD if backward else _FORWARD


def partitioned(joint: JointGraph, *, recompute: bool) -> tuple[fx.GraphModule, fx.GraphModule]:
    """Forward and backward: what the forward returns after what is written and the results is what
    the backward takes before the gradients.

    Args:
        joint: Both in one.
        recompute: torch's minimum cut chooses what is kept, and what of cheap calls is made again
            in the backward. Else, as in autograd, what the backward needs is kept.
    """
    operands = [node.meta["val"] for node in joint.graph.graph.find_nodes(op="placeholder")]
    cut = min_cut_rematerialization_partition if recompute else default_partition
    forward, backward = cut(
        joint.graph,
        operands,
        num_fwd_outputs=len(joint.written) + len(joint.results),
        static_lifetime_input_indices=[],
    )
    # It takes what has effects along into both: the backward would draw or gather again, and the
    # forward would gather what the backward does.
    _without_unread(backward.graph, lambda node: True)
    _without_unread(forward.graph, lambda node: node.meta.get(_SIDE) == _BACKWARD)
    return forward, backward


def _without_unread(graph: fx.Graph, may_go: Callable[[fx.Node], bool]) -> None:
    for node in reversed(graph.nodes):
        if not node.users and node.op == "call_function" and may_go(node):
            graph.erase_node(node)


@contextmanager
def without_grad_warnings() -> Iterator[None]:
    """torch's compiler looks whether activations have a gradient, and torch warns of whoever does;
    not in the block."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The .grad attribute of a Tensor")
        yield


def fake_mode_of(graph: fx.Graph) -> AbstractContextManager[Any]:
    """The mode in which new calls of a graph get their values."""
    values = [node.meta.get("val") for node in graph.find_nodes(op="placeholder")]
    return detect_fake_mode(values) or nullcontext()
