"""A graph as a function of generated Python."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from operator import attrgetter
from typing import Any, NamedTuple

import torch
from torch import fx

from .. import _torch
from .._torch.graph_calls import function_of_call
from .places import owner_of, place_of

__all__ = ["Generated", "dead_after", "generated"]

_LITERALS = (bool, int, str, type(None))


Run = Callable[[list[Any]], tuple[Any, ...]]


class Generated(NamedTuple):
    """A function and its text.

    Attributes:
        run: Runs the graph's calls in order, and lets go of each value at its last use: of operands
            too, which are taken out of the list that it is given. While torch's profiler is on,
            ranges have the names of modules.
        text: Its code, with shapes on this rank and the program's lines as comments.
    """

    run: Run
    text: str


def generated(module: fx.GraphModule, name: str) -> Generated:
    """The function of a graph of calls."""
    plain = _Source(module, name)
    run = plain.function()
    in_ranges: list[Run] = []  # once somebody looks

    def either(operands: list[Any]) -> tuple[Any, ...]:
        if not _torch.is_profiling():
            return run(operands)
        if not in_ranges:
            in_ranges.append(_Source(module, name, has_ranges=True).function())
        return in_ranges[0](operands)

    return Generated(either, plain.text)


class _Source:
    """The text of a function, and what it takes from outside.

    Args:
        module: The graph.
        name: Of the function.
        has_ranges: Does it tell torch's profiler whose calls follow?
    """

    def __init__(self, module: fx.GraphModule, name: str, *, has_ranges: bool = False) -> None:
        self._namespace: dict[str, Any] = {}
        self._names: dict[int, str] = {}
        self._taken = {node.name for node in module.graph.nodes} | {name, "_operands", "_range"}
        self._module = module
        self._name = name
        lines = [*self._head()]
        dead = dead_after(module.graph)
        place = owner = ""
        for node in module.graph.nodes:
            if node.op == "placeholder":
                continue
            if has_ranges and owner != (owner := owner_of(node) or owner):
                lines.append(f"_range = {self._held(_Range, 'Range')}({f'{name} of {owner}'!r})")
            if place != (place := place_of(node.meta.get("stack_trace")) or place):
                lines.append(f"# {place}")
            lines.append(self._line(node))
            names = [each.name for each in dead.get(node, ())]
            if names:
                lines.append(f"del {', '.join(names)}")
        body = "".join(f"    {line}\n" for line in lines)
        self.text = f"def {name}(_operands):\n{body}"

    def function(self) -> Run:
        """The function."""
        exec(compile(self.text, f"<erased {self._name}>", "exec"), self._namespace)
        run: Run = self._namespace[self._name]
        return run

    def _head(self) -> Iterator[str]:
        operands = [node.name for node in self._module.graph.find_nodes(op="placeholder")]
        if operands:
            yield f"{', '.join(operands)}, = _operands"
        yield "_operands.clear()"

    def _line(self, node: fx.Node) -> str:
        if node.op == "output":
            (made,) = node.args
            return f"return {self._text(tuple(made))}"  # type: ignore[arg-type]
        return f"{node.name} = {self._value(node)}{_shape_text(node)}"

    def _value(self, node: fx.Node) -> str:
        if node.op == "get_attr":
            return self._held(attrgetter(str(node.target))(self._module), str(node.target))
        if node.target is operator.getitem:
            whole, index = node.args
            return f"{self._text(whole)}[{self._text(index)}]"
        called = self._held(function_of_call(node), getattr(node.target, "__name__", "call"))
        named = [f"{name}={self._text(arg)}" for name, arg in node.kwargs.items()]
        return f"{called}({', '.join([*map(self._text, node.args), *named])})"

    def _text(self, item: Any) -> str:
        if isinstance(item, fx.Node):
            return item.name
        if type(item) is tuple:
            return f"({''.join(f'{self._text(each)}, ' for each in item)})"
        if isinstance(item, (list, tuple)):
            return f"[{', '.join(map(self._text, item))}]"
        if type(item) in _LITERALS:
            return repr(item)
        if type(item) is slice:
            parts = (item.start, item.stop, item.step)
            return f"slice({', '.join(map(self._text, parts))})"
        return self._held(item, str(item))

    def _held(self, thing: Any, name: str) -> str:
        """A name for something that is no literal."""
        if id(thing) not in self._names:
            stem = "_" + "".join(c if c.isalnum() else "_" for c in name).strip("_")
            taken = stem in self._taken
            self._names[id(thing)] = name = f"{stem}_{len(self._names)}_" if taken else stem
            self._taken.add(name)
            self._namespace[name] = thing
        return self._names[id(thing)]


class _Range(torch.autograd.profiler.record_function):
    """A range of torch's profiler, until it is let go of."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.__enter__()  # type: ignore[no-untyped-call]

    def __del__(self) -> None:
        self.__exit__(None, None, None)


def _shape_text(node: fx.Node) -> str:
    value = node.meta.get("val")
    if not isinstance(value, torch.Tensor):
        return ""
    return f"  # {str(value.dtype).removeprefix('torch.')}{[*value.shape]}"


def dead_after(graph: fx.Graph) -> dict[fx.Node, list[fx.Node]]:
    """By a node those values that none after it uses, its own too."""
    seen: set[fx.Node] = set()
    dead: dict[fx.Node, list[fx.Node]] = {}
    for node in reversed(graph.nodes):
        if node.op == "placeholder":
            break  # operands that nobody uses are let go of by the caller
        for each in dict.fromkeys((*node.all_input_nodes, node)):
            if each not in seen:
                seen.add(each)
                if node.op != "output":
                    dead.setdefault(node, []).append(each)
    return dead
