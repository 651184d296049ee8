"""Which module each traced node belongs to."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from torch.autograd.graph import Node

from ... import _torch

__all__ = ["ModuleSpans"]


class ModuleSpans:
    """The stretches of a trace that ran inside each module, in the backward pass too: there a
    module's are those in which autograd runs what the module has recorded.

    Args:
        position: How many nodes have been traced so far.

    Attributes:
        end: How many there were when the outermost module had ended.
    """

    def __init__(self, position: Callable[[], int]) -> None:
        self.end = 0
        self._position = position
        self._open: list[str] = []
        # From which node on which module is the innermost.
        self._changes: list[tuple[int, str]] = []
        self._claimed: set[Node] = set()

    @contextmanager
    def watching(self, model: nn.Module) -> Iterator[None]:
        """Note where the modules of `model` begin and end in the block."""
        handles = []
        for path, module in model.named_modules():
            enter = self._enter(path)
            handles.append(module.register_forward_pre_hook(enter, prepend=True, with_kwargs=True))
            handles.append(module.register_forward_hook(self._leave, always_call=True))
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()

    def paths(self, count: int) -> list[str]:
        """Per node of the first `count` the path of its innermost module."""
        paths: list[str] = []
        current = ""
        for start, path in [*self._changes, (count, "")]:
            paths += [current] * (start - len(paths))
            current = path
        return paths[:count]

    def _enter(self, path: str) -> Callable[..., None]:
        def enter(module: nn.Module, args: Any, kwargs: Any) -> None:
            self._claim((args, kwargs), self._innermost())
            self._open.append(path)
            self._note(path)

        return enter

    def _leave(self, module: nn.Module, args: Any, output: Any) -> None:
        self._claim(output, self._open.pop())
        self._note(self._innermost())
        if not self._open:
            self.end = self._position()

    def _innermost(self) -> str:
        return self._open[-1] if self._open else ""

    def _note(self, path: str) -> None:
        self._changes.append((self._position(), path))

    def _claim(self, item: Any, path: str) -> None:
        """What autograd has recorded for these tensors belongs to a module, but for what belongs
        to one that has ended before."""
        tensors = [leaf for leaf in _torch.tree_leaves(item) if isinstance(leaf, torch.Tensor)]
        found = [tensor.grad_fn for tensor in tensors]
        while found:
            recorded = found.pop()
            if recorded is None or recorded in self._claimed:
                continue
            self._claimed.add(recorded)
            recorded.register_prehook(lambda _: self._note(path))
            found += [before for before, _ in recorded.next_functions]
