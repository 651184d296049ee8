"""Which module each traced node belongs to."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from torch import nn

__all__ = ["ModuleSpans"]


class ModuleSpans:
    """The stretches of a trace that ran inside each module.

    Args:
        position: How many nodes have been traced so far.
    """

    def __init__(self, position: Callable[[], int]) -> None:
        self._position = position
        self._open: list[str] = []
        # From which node on which module is the innermost.
        self._changes: list[tuple[int, str]] = []

    @contextmanager
    def watching(self, model: nn.Module) -> Iterator[None]:
        """Note where the modules of `model` begin and end in the block."""
        handles = []
        for path, module in model.named_modules():
            handles.append(module.register_forward_pre_hook(self._enter(path), prepend=True))
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

    @property
    def end(self) -> int:
        """The first node that was traced after the outermost module had ended."""
        return self._changes[-1][0] if self._changes else 0

    def _enter(self, path: str) -> Callable[..., None]:
        def enter(module: nn.Module, args: Any) -> None:
            self._open.append(path)
            self._note()

        return enter

    def _leave(self, module: nn.Module, args: Any, output: Any) -> None:
        self._open.pop()
        self._note()

    def _note(self) -> None:
        self._changes.append((self._position(), self._open[-1] if self._open else ""))
