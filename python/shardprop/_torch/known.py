"""Is this a torch whose private names are those that the adapter was written for?

Imports nothing of the adapter, which would fail under a torch where they are not.
"""

from __future__ import annotations

import importlib
import inspect
import json
from enum import Enum
from pathlib import Path
from typing import Any

import torch

from ..errors import ShardpropError

__all__ = ["KNOWN", "NAMES", "changes", "check_names", "is_known", "parameters_of", "resolved"]

KNOWN = ("2.13", "2.14", "2.15")
# Of the last of these: by dotted name what it takes, None for what is no function. Written by
# tools/torch_names.py.
NAMES = Path(__file__).with_name("known_names.json")


def is_known() -> bool:
    """Was shardprop tested with this version of torch?"""
    return release() in KNOWN


def release() -> str:
    """Of torch, without the patch: ``2.15``."""
    return ".".join(torch.__version__.split(".")[:2])


def check_names() -> None:
    """Look at the private names, under a torch that is not known.

    Raises:
        ShardpropError: some are not there, or take something else; says which.
    """
    found = [] if is_known() else changes()
    if found:
        raise ShardpropError(
            f"Expected torch {KNOWN[0]} to {KNOWN[-1]}, or one with the same private functions, "
            f"got {torch.__version__}: {'; '.join(found)}. Use a torch that is known, or a newer "
            "shardprop."
        )


def changes() -> list[str]:
    """What of the private names is not as it was."""
    names: dict[str, str | None] = json.loads(NAMES.read_text(encoding="utf-8"))
    found: list[str] = []
    for path, parameters in names.items():
        thing = resolved(path)
        if thing is None:
            found.append(f"{path} is not there")
        elif parameters is not None and not _may_take(thing, parameters):
            found.append(f"{path} takes {parameters_of(thing)}, not {parameters}")
    return found


def _may_take(thing: Any, parameters: str) -> bool:
    """May a function be called as one that takes these? What it takes more stands behind them, and
    may be left out."""
    known, now = (text.strip("()").split(", ") for text in (parameters, parameters_of(thing) or ""))
    more = now[len(known) :]
    return now[: len(known)] == known and all(
        one.endswith("=") or one.startswith("*") for one in more
    )


def resolved(path: str) -> Any:
    """The thing of this dotted name; None if there is none."""
    parts = path.split(".")
    for count in range(len(parts), 0, -1):
        try:
            thing: Any = importlib.import_module(".".join(parts[:count]))
        except Exception:
            continue
        for part in parts[count:]:
            thing = getattr(thing, part, None)
        return thing
    return None


def parameters_of(thing: Any) -> str | None:
    """What a function takes, without types: ``(self, schema, *, mesh=)``; None for anything else,
    and for functions of C++ that do not say."""
    is_class = inspect.isclass(thing) and not issubclass(thing, Enum)  # which is Python's, then
    if not inspect.isroutine(thing) and not is_class:
        return None
    try:
        signature = inspect.signature(thing)
    except (TypeError, ValueError):
        return None
    empty = inspect.Parameter.empty
    plain = [
        each.replace(annotation=empty, default=empty if each.default is empty else ...)
        for each in signature.parameters.values()
    ]
    made = signature.replace(parameters=plain, return_annotation=inspect.Signature.empty)
    return str(made).replace("=Ellipsis", "=")
