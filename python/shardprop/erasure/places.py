"""Lines and modules of a program."""

from __future__ import annotations

import re

from torch import fx

from ..inspection.tracing.source_lines import is_users

__all__ = ["owner_of", "place_of"]

# How torch.compile names a module: L['function'].__self__.layers[0].attention
_ROOT = re.compile(r"^L\['\w+'\](\.__self__)?\.?")
_CHILD = re.compile(r"\._modules\['(\w+)'\]|\[['\"]?(\w+)['\"]?\]")
_FRAME = re.compile(r'File "(.*?)", line (\d+)')


def place_of(trace: str | None) -> str:
    """The innermost line of a stack trace that is the user's, as ``file:line``; empty if none is
    known."""
    frames = _FRAME.findall(trace or "")
    return next((f"{file}:{line}" for file, line in reversed(frames) if is_users(file)), "")


def owner_of(node: fx.Node) -> str:
    """The module that makes a call in its forward, or in the backward of that; empty for the
    outermost one."""
    stack = node.meta.get("nn_module_stack") or node.meta.get("fwd_nn_module_stack")
    if not stack:
        return ""
    path, _ = next(reversed(stack.values()))
    return _CHILD.sub(r".\1\2", _ROOT.sub("", path))
