"""How torch's dispatcher in C++ finds who has an op of a class of tensors run in another way.

It asks at each op of each class, and nearly never is there anybody.
"""

from __future__ import annotations

from typing import Any

from torch._library import simple_registry

from .held_functions import HeldFunction

__all__ = ["DISPATCH_RULES"]

_held = HeldFunction(simple_registry.find_torch_dispatch_rule)


def _find(
    op: Any,
    torch_dispatch_class: type,
    entries: dict[str, Any] = simple_registry.singleton._data,
    otherwise: Any = _held.torchs,
) -> Any:
    try:
        rules = entries[op.__qualname__].torch_dispatch_rules._data
    except KeyError:  # torch makes an entry
        return otherwise(op, torch_dispatch_class)
    return rules.get(torch_dispatch_class) if rules else None


DISPATCH_RULES = _held.with_code_of(_find)
