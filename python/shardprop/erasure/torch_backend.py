"""A graph of DTensors that torch.compile has found, made into local graphs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import fx

from .. import _torch
from .._torch.compiled_frames import Compiler, backend_of, compiled_by
from .._torch.graph_calls import functions_in_functions, has_plain_sizes
from .._torch.joint_graphs import (
    CAPTURING,
    Border,
    Captured,
    JointGraph,
    NotErased,
    fake_mode_of,
    partitioned,
)
from ..errors import ShardpropError
from .absent import beside_a_loss, without_tangents
from .contributions import sums_left_to_autograd
from .generated import Run, generated
from .incoming import Incoming
from .passes import FEWER_COLLECTIVES, PASSES, ROUNDING_PASSES, Durations, cleaned
from .pieces import LocalGraphs, Piece, first_line, piece_of
from .program import Program
from .runtime import differentiable, forward_alone
from .sharing import keep_results_apart, memories_of_results, sharing_of
from .written import silently, values_apart, why_not_written

__all__ = ["Backend", "backend"]

_Run = Callable[..., Any]


class Backend:
    """A backend for ``torch.compile``.

    Args:
        passes: What is run over the local graphs, by name.
        compiler: What makes functions of them: a backend of ``torch.compile``, or its name. None:
            they are written as Python.
        recompute: May a backward make cheap calls of the forward again, to keep less?
        keep_graphs: Leave the graphs in the pieces, to be looked at?
        durations: What calls of local graphs take, if that is known.

    Raises:
        ShardpropError: an unknown pass, or torch.compile knows no backend of this name.

    Attributes:
        pieces: What was made, in the order in which it was, and what was left to DTensor.
        passed: How many calls ran on DTensors though others are erased, by reason.
    """

    def __init__(
        self,
        passes: Sequence[str] = PASSES,
        compiler: Compiler | str | None = None,
        *,
        recompute: bool = False,
        keep_graphs: bool = False,
        durations: Durations | None = None,
    ) -> None:
        known = (*PASSES, *ROUNDING_PASSES)
        unknown = [name for name in passes if name not in known]
        if unknown:
            raise ShardpropError(
                f"Expected passes among {', '.join(known)}, got {', '.join(unknown)}."
            )
        self._compiler = backend_of(compiler) if isinstance(compiler, str) else compiler
        self.pieces: list[Piece] = []
        self.passed: Counter[str] = Counter()
        self._passes = passes
        self._recompute = recompute
        self._keeps_graphs = keep_graphs
        self._durations = durations

    def __call__(self, graph: fx.GraphModule, example: Sequence[Any]) -> _Run:
        """What runs in the place of a graph; called, it raises `NotErased` before anything has run
        where the graph cannot be erased.

        Raises:
            NotErased: that is known now.
        """
        functions = functions_in_functions(graph)
        if functions:
            raise NotErased(f"it calls {functions[0]}, which is given functions")
        if not all(has_plain_sizes(operand) for operand in example):
            raise NotErased("its sizes vary")
        return Program(graph, self.made).run

    def made(self, graph: fx.GraphModule, operands: Sequence[Any], incoming: Incoming) -> _Run:
        """A function of the program's tensors that runs its local graphs.

        Args:
            graph: The program.
            operands: Like those of its calls.
            incoming: How the gradients of its results come in; it is told when they come in
                otherwise.

        Raises:
            NotErased: it cannot be had.
        """
        if incoming.refusal is not None:
            raise NotErased(incoming.refusal)
        piece = piece_of(graph)
        try:
            with CAPTURING, _fresh_decisions(), ExitStack() as stack:
                captured = Captured(stack, graph, operands, incoming.tangents)
                joint = captured.joint_graph()
                made = self.local(joint, piece, incoming)
        except NotErased:
            raise
        except Exception as error:  # of torch's compiler: the program may be right all the same
            raise NotErased(f"{type(error).__name__}: {first_line(error)}") from error
        self.pieces.append(piece)
        return self._where_it_may(made, graph, joint.written) if joint.written else made

    def _where_it_may(self, made: _Run, graph: fx.GraphModule, written: Sequence[int]) -> _Run:
        """The local graphs, for calls whose operands can be written into by them."""

        def run(*operands: Any) -> Any:
            reason = why_not_written(operands, written)
            if reason is None:
                return made(*operands)
            self.passed[reason] += 1
            return graph(*operands)

        return run

    def local(self, joint: JointGraph, piece: Piece, incoming: Incoming) -> _Run:
        """A function of the tensors of a program that runs its local graphs.

        Args:
            joint: Its forward and backward.
            piece: Is told what is made.
            incoming: As for `made`.
        """
        piece.takes(joint)
        written, results = _places_of_tensors(joint, joint.written), len(joint.results)
        first = len(written)
        apart = memories_of_results(joint.graph.graph, first, first + results)
        if not joint.tangents:
            whole = self._clean(joint.graph, joint)
            keep_results_apart(whole.graph, first, apart)
            silent = silently(whole.graph, written)
            values_apart(whole.graph, written, results)
            if self._keeps_graphs:
                piece.local = LocalGraphs(whole.graph, None, results, first)
            return forward_alone(self._function(whole, piece), joint, silent)
        both = partitioned(joint, recompute=self._recompute)
        ahead, back = (self._clean(graph, joint) for graph in both)
        keep_results_apart(ahead.graph, first, apart)
        again = sums_left_to_autograd(back.graph, incoming.uses)
        silent = silently(ahead.graph, written)
        values_apart(ahead.graph, written, results)
        tangents = len(joint.tangents)
        if self._keeps_graphs:
            absent = beside_a_loss([*map(_whole_shape, joint.tangents)])
            begun = without_tangents(back, tangents, absent).graph
            piece.local = LocalGraphs(ahead.graph, begun, results, first, absent)
        sharing = sharing_of(ahead.graph, back.graph, len(written) + results, tangents)
        forward = self._function(ahead, piece)
        backwards = {frozenset[int](): self._function(back, piece)}

        def backward_without(absent: frozenset[int]) -> Run:
            if absent not in backwards:
                partial = without_tangents(back, tangents, absent)
                backwards[absent] = self._function(partial, None)
            return backwards[absent]

        return differentiable(forward, backward_without, joint, silent, sharing, incoming, again)

    def _function(self, module: fx.GraphModule, piece: Piece | None) -> Run:
        """The function of a local graph, which is noted in the piece if there is one."""
        made = generated(module, "backward") if piece is None else piece.generated(module)
        return made.run if self._compiler is None else compiled_by(self._compiler, module)

    def _clean(self, module: fx.GraphModule, joint: JointGraph) -> fx.GraphModule:
        # Ranks meet in DTensor's collectives: where what a plain tensor is may differ by rank, one
        # of them may run on DTensors while another does not.
        differ = any(border is not None and border.spec is None for border in joint.operands)
        passes = [name for name in self._passes if not (differ and name in FEWER_COLLECTIVES)]
        with fake_mode_of(module.graph):
            cleaned(module.graph, passes, self._durations)
        return module


def _whole_shape(border: Border) -> torch.Size:
    return border.shape if border.spec is None else border.spec.shape


def _places_of_tensors(joint: JointGraph, places: Sequence[int]) -> list[int]:
    """Of operands, where meshes are left out."""
    tensors = [at for at, border in enumerate(joint.operands) if border is not None]
    return [*map(tensors.index, places)]


@contextmanager
def _fresh_decisions() -> Iterator[None]:
    """No decision of before is met in the block, nor one of the block after it: that of a sharded
    embedding holds the mask of its last operand, which may be of another fake mode, or be one."""
    _torch.forget_decisions()
    try:
        yield
    finally:
        _torch.forget_decisions()


def backend(graph: fx.GraphModule, example: Sequence[Any]) -> _Run:
    """``torch.compile(..., backend="shardprop")``: like `erase`, for each graph that torch.compile
    finds; one that cannot be erased runs on DTensors.

    Raises:
        ShardpropError: when it is called, operands of other shapes than the graph was found with.
            torch.compile's guards take a DTensor for one of another shape of which a rank holds
            the same; `erase` does not.
    """
    shapes = _global_shapes(example)
    try:
        run = Backend()(graph, example)
    except NotErased:
        run = graph

    def erased(*operands: Any) -> Any:
        found = _global_shapes(operands)
        if found != shapes:
            raise ShardpropError(
                f"Expected DTensors of shapes {shapes}, got {found}, which torch.compile took for "
                "the same, for this rank holds the same of them. Use shardprop.erase, which looks "
                "at whole shapes, or pad."
            )
        try:
            return run(*operands)
        except NotErased:
            return graph(*operands)

    return erased


def _global_shapes(operands: Sequence[Any]) -> list[tuple[int, ...]]:
    return [tuple(each.shape) for each in operands if isinstance(each, _torch.DTensor)]
