"""What was made of a part of a program, to be read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from torch import fx

from .. import _torch
from .._torch.compiled_frames import cause_of
from .._torch.joint_graphs import Border, JointGraph, NotErased
from .generated import Generated, generated
from .places import place_of

__all__ = ["LocalGraphs", "Piece", "first_line", "piece_of"]


class LocalGraphs(NamedTuple):
    """The graphs of a piece, as they run.

    Attributes:
        forward: Returns what is `written` into operands, so many `results`, then what it keeps for
            the backward.
        backward: Takes what was kept, then the gradients of results; returns gradients. None where
            there is none. It is the one that begins from the results that are a single number, a
            loss; where none is, from all.
        results: See `forward`.
        written: Likewise: how many are copied into operands when the forward is over, and go.
        absent: Which of the gradients of results do not come into `backward`.
    """

    forward: fx.Graph
    backward: fx.Graph | None
    results: int
    written: int = 0
    absent: Collection[int] = ()


@dataclass
class Piece:
    """A part of a program that was captured whole.

    Attributes:
        place: The line that it begins with, as ``file:line``; empty if none is known.
        left_to_dtensor: Why it runs on DTensors, op by op; None where it does not.
        operands: How each operand is placed, and what this rank holds of it.
        code: The forward, and the backward if there is one, as Python.
        collectives: How many collectives these begin, by name.
        collectives_before: How many DTensor begins.
        local: Its graphs, if the backend was asked to keep them.
    """

    place: str
    left_to_dtensor: str | None = None
    operands: list[str] = field(default_factory=list)
    code: list[str] = field(default_factory=list)
    collectives: Counter[str] = field(default_factory=Counter)
    collectives_before: Counter[str] = field(default_factory=Counter)
    local: LocalGraphs | None = None

    @classmethod
    def left(cls, function: Callable[..., Any], error: Exception) -> Piece:
        """A function that cannot be captured whole, and runs on DTensors."""
        code = getattr(function, "__code__", None)
        owner = getattr(function, "__self__", function)
        name = type(owner).__qualname__ if code is None or owner is not function else code.co_name
        place = next(filter(None, map(place_of, [str(error)])), "") or name
        cause = cause_of(error)
        kind = "" if isinstance(cause, NotErased) else f"{type(cause).__name__}, "
        return cls(place, left_to_dtensor=f"{name}: {kind}{first_line(cause)}")

    def generated(self, module: fx.GraphModule) -> Generated:
        """The function of the piece's next graph."""
        made = generated(module, "backward" if self.code else "forward")
        self.code.append(made.text)
        self.collectives += _collectives_of(module.graph)
        return made

    def takes(self, joint: JointGraph) -> None:
        """Note the operands, and what is begun, of the graph as it was followed."""
        self.operands = [_text_of(operand) for operand in joint.operands if operand is not None]
        self.collectives_before = _collectives_of(joint.graph.graph)

    @property
    def head(self) -> str:
        """Where it comes from, and what is special about it, in a line."""
        said = [self.place or "a program"]
        if self.left_to_dtensor is not None:
            said.append(f"to DTensor, op by op ({self.left_to_dtensor})")
        return ", ".join(said)

    def __str__(self) -> str:
        """Its code, and where it comes from."""
        operands = [f"operand {number}: {text}" for number, text in enumerate(self.operands)]
        collectives = [
            f"{name}: {count} in DTensor, {self.collectives[name]} here"
            for name, count in self.collectives_before.items()
        ]
        head = (self.head, *operands, *collectives)
        return "\n".join([*(f"# {line}" for line in head), *self.code])


def first_line(error: Exception) -> str:
    """An error's first line that says something."""
    return next((line.strip() for line in str(error).splitlines() if line.strip()), "")


def _collectives_of(graph: fx.Graph) -> Counter[str]:
    names = [node.target.__name__ for node in graph.nodes if _torch.begins_collective(node.target)]
    return Counter(name.partition(".")[0] for name in names)


def _text_of(operand: Border) -> str:
    dtype = str(operand.dtype).removeprefix("torch.")
    held = f"{dtype}{[*operand.shape]}"
    if operand.spec is None:
        return held
    spec = operand.spec
    return f"{dtype}{[*spec.shape]}, {spec.placements} on {tuple(spec.mesh.shape)}, here {held}"


def piece_of(program: fx.GraphModule) -> Piece:
    """The piece that a program becomes, of which this is the graph."""
    traces = (node.meta.get("stack_trace") for node in program.graph.nodes)
    return Piece(next(filter(None, map(place_of, traces)), ""))
