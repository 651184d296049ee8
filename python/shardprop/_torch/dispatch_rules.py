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
# Those of ops for which a rule for DTensors was registered.
_with_rules: list[Any] = []


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
    handle = _torchs_register(self, torch_dispatch_class, func)
    if torch_dispatch_class is DTensor:
        _with_rules.append(self)
    return handle


class _DispatchRules:
    """Finds rules in one function of Python, not three, and notes when one is registered."""

    def __init__(self) -> None:
        self._finding = _held.with_code_of(_find)

    def install(self) -> None:
        self._finding.install()
        if _Rules.register is _torchs_register:
            _Rules.register = _register  # type: ignore[method-assign]
        every = [entry.torch_dispatch_rules for entry in [*_entries.values()]]
        _with_rules[:] = [rules for rules in every if rules.find(DTensor)]

    def uninstall(self) -> None:
        self._finding.uninstall()
        if _Rules.register is _register:
            _Rules.register = _torchs_register  # type: ignore[method-assign]


DISPATCH_RULES = _DispatchRules()


def has_dispatch_rules() -> bool:
    """Does anybody have an op of DTensors run in another way?"""
    return any(rules.find(DTensor) for rules in _with_rules)
