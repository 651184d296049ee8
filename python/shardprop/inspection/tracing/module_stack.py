"""Which module is running, and of which module's forward a backward is.

Modules are followed by hooks that are there only while a trace is open. A node of autograd has a
sequence number, counted up in the thread that ran the forward; the number at each entry of and
exit from a module tells whose forward a node is from.
"""

from __future__ import annotations

import bisect
import re
import threading
import warnings
from contextlib import suppress
from typing import Any

import torch

from ... import _torch
from .source_lines import Line, user_line

__all__ = ["Spot", "Whereabouts"]

# Of one thread: entries of and exits from modules, and lines of ops. Steps long gone have no
# backward to come.
_MARKS_HELD = 200_000
_LINES_HELD = 200_000

# Numbers from here on are no forward's (AccumulateGrad has the largest there is).
_NO_FORWARD = 1 << 62

# A module that was compiled as a whole warns of hooks, as they are called for its wrapper, too.
_HOOKS_AND_COMPILE = (
    "ignore",
    re.compile(r"Using `torch\.compile\(module\)` when there are global hooks on modules"),
    UserWarning,
    None,
    0,
)

# module, the user's line, of a backward, thread
Spot = tuple[str, Line | None, bool, int]


class _Thread:
    """One thread: the modules that are running, and what its forwards left for a backward."""

    def __init__(self) -> None:
        self.ident = threading.get_ident()
        self.running: list[tuple[int, str]] = []  # the address of a module, its path
        self.numbers: list[int] = []  # ascending, each with the module from there on
        self.modules: list[str] = []
        self.lines: dict[int, tuple[object, Line]] = {}  # per number: the op that asked, and where

    @property
    def module(self) -> str:
        """The innermost module that is running."""
        return self.running[-1][1] if self.running else ""

    def mark(self) -> None:
        """From the next node on, nodes are of the module that is running now."""
        number = _torch.next_autograd_number()
        if self.numbers and self.numbers[-1] >= number:
            self.modules[-1] = self.module
            return
        if len(self.numbers) >= _MARKS_HELD:
            del self.numbers[: _MARKS_HELD // 2], self.modules[: _MARKS_HELD // 2]
        self.numbers.append(number)
        self.modules.append(self.module)

    def note_line(self, op: object, line: Line) -> None:
        """An op that may have made the latest node was called there.

        The first to say so: what comes later with the same number made no node.
        """
        lines = self.lines
        if len(lines) >= _LINES_HELD:
            for number in [*lines][: _LINES_HELD // 2]:
                del lines[number]
        lines.setdefault(_torch.next_autograd_number() - 1, (op, line))

    def module_of(self, number: int) -> str | None:
        """Whose forward made a node; None if it was not in this thread while a trace was open."""
        place = bisect.bisect_right(self.numbers, number) - 1
        return None if place < 0 else self.modules[place]


class Whereabouts:
    """Follows modules of all threads from `start` to `stop`."""

    def __init__(self) -> None:
        self._threads: list[_Thread] = []
        self._of_thread = threading.local()
        self._names: dict[int, str] = {}
        self._held: list[torch.nn.Module] = []  # while it is held, no other has its address
        self._hooks: list[Any] = []
        self._same: dict[tuple[int, str], bool] = {}

    def start(self) -> None:
        """Put the hooks in; numbers from now on are of no module."""
        module = torch.nn.modules.module
        self._mine().mark()
        warnings.filters.insert(0, _HOOKS_AND_COMPILE)  # type: ignore[attr-defined]
        self._hooks = [
            module.register_module_forward_pre_hook(self._enter),
            module.register_module_forward_hook(self._leave, always_call=True),
        ]

    def stop(self) -> None:
        """Take the hooks away, and let go of the modules."""
        for hook in self._hooks:
            hook.remove()
        self._hooks.clear()
        with suppress(ValueError):  # the program has other filters by now
            warnings.filters.remove(_HOOKS_AND_COMPILE)  # type: ignore[attr-defined]
        self._held.clear()
        self._names.clear()

    def learn(self, root: torch.nn.Module, prefix: str) -> None:
        """Call the modules of `root` by their paths in it; those known keep their names."""
        for long_path, module in root.named_modules():
            path = ".".join(part for part in long_path.split(".") if part != _torch.COMPILED_MODULE)
            if id(module) not in self._names:
                self._held.append(module)
                dotted = f"{prefix}.{path}" if prefix and path else prefix or path
                self._names[id(module)] = dotted or _kind(module)

    def here(self, op: object) -> Spot:
        """Where this thread is; `op` is the overload that it runs, None for no op."""
        thread = self._mine()
        node = _torch.autograd_node()
        if node is None:
            line = user_line(3)
            if line is not None:
                thread.note_line(op or "redistribute", line)
            return thread.module, line, False, thread.ident
        if thread.running:  # a forward that a backward runs again
            return thread.module, user_line(3), True, thread.ident
        module, line = self._forward_of(node, thread)
        return module, line or user_line(3), True, thread.ident

    def _mine(self) -> _Thread:
        try:
            thread: _Thread = self._of_thread.it
        except AttributeError:
            thread = self._of_thread.it = _Thread()
            self._threads.append(thread)
        return thread

    def _forward_of(self, node: Any, here: _Thread) -> tuple[str, Line | None]:
        """Module and line of the forward that made a node.

        Threads count for themselves, so a number may be of several: then that of this thread, or
        else of the one that came last.
        """
        number = _torch.autograd_number(node)
        if number >= _NO_FORWARD:
            return "", None
        module = here.module_of(number)
        if module is not None:
            return module, self._line_of(here, node, number)
        for thread in reversed(self._threads):
            module = thread.module_of(number)
            if module is not None:
                return module, self._line_of(thread, node, number)
        return "", None

    def _line_of(self, thread: _Thread, node: Any, number: int) -> Line | None:
        """Where the op was called that made a node, if it is known."""
        noted = thread.lines.get(number)
        if noted is None or not self._made(noted[0], node.name()):
            return None
        return noted[1]

    def _made(self, op: object, node: str) -> bool:
        """Is the node of this op's backward? ``aten.mm.default`` makes ``MmBackward0``."""
        key = (id(op), node)  # overloads stay; one takes half a microsecond to hash
        same = self._same.get(key)
        if same is None:
            _, _, packet = str(op).partition(".")
            name = packet.partition(".")[0] if packet else str(op)
            same = self._same[key] = _letters(node.partition("Backward")[0]) == _letters(name)
        return same

    def _enter(self, module: torch.nn.Module, _: Any) -> None:
        if torch.compiler.is_compiling():
            return
        thread = self._mine()
        name = self._names.get(id(module))
        if name is None:
            kind = _kind(module)
            if thread.running:  # made on the fly, or no child of what runs it
                name = f"{thread.module}.{kind}"
            else:
                self.learn(module, kind)
                name = self._names[id(module)]
        thread.running.append((id(module), name))
        thread.mark()

    def _leave(self, module: torch.nn.Module, *_: Any) -> None:
        if torch.compiler.is_compiling():
            return
        thread = self._mine()
        address = id(module)
        running = thread.running
        if running and running[-1][0] == address:
            running.pop()
        elif any(address == entered for entered, _ in running):
            while running.pop()[0] != address:
                pass  # left by an exception that no hook saw
        else:
            return  # it was entered before the trace began
        thread.mark()


def _kind(module: torch.nn.Module) -> str:
    """The class of a module, or of the one in torch.compile's wrapper."""
    return type(_torch.without_compile_wrapper(module)).__name__


def _letters(name: str) -> str:
    return name.replace("_", "").lower()
