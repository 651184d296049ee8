"""How torch's dispatcher in C++ finds who has an op of a class of tensors run in another way
(``torch.library.register_torch_dispatch``).

It asks at each op of each class, and nearly never is there anybody.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch._library import simple_registry

from .held_functions import HeldFunction
from .types import DTensor

__all__ = ["DISPATCH_RULES", "has_dispatch_rules"]

_held = HeldFunction(simple_registry.find_torch_dispatch_rule)
_entries: dict[str, Any] = simple_registry.singleton._data
_Rules = simple_registry.GenericTorchDispatchRuleHolder
_torchs_register = _Rules.register
_is_any_registered = False


def _find(
    op: Any,
    torch_dispatch_class: type,
    entries: dict[str, Any] = _entries,
    otherwise: Any = _held.torchs,
) -> Any:
    try:
        rules = entries[op.__qualname__].torch_dispatch_rules._data
    except KeyError:  # torch makes an entry
        return otherwise(op, torch_dispatch_class)
    return rules.get(torch_dispatch_class) if rules else None


def _register(self: Any, torch_dispatch_class: type, func: Callable[..., Any]) -> Any:
    global _is_any_registered
    handle = _torchs_register(self, torch_dispatch_class, func)
    _is_any_registered |= torch_dispatch_class is DTensor
    return handle


class _DispatchRules:
    """Finds rules in one function of Python, not three, and notes when one is registered."""

    def __init__(self) -> None:
        self._finding = _held.with_code_of(_find)

    def install(self) -> None:
        global _is_any_registered
        self._finding.install()
        if _Rules.register is _torchs_register:
            _Rules.register = _register  # type: ignore[method-assign]
        rules = [entry.torch_dispatch_rules for entry in [*_entries.values()]]
        _is_any_registered |= any(each.find(DTensor) for each in rules)

    def uninstall(self) -> None:
        self._finding.uninstall()
        if _Rules.register is _register:
            _Rules.register = _torchs_register  # type: ignore[method-assign]


DISPATCH_RULES = _DispatchRules()


def has_dispatch_rules() -> bool:
    """Did anybody ever have an op of DTensors run in another way?"""
    return _is_any_registered
