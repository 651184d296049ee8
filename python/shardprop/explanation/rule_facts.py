"""Where the rule of an op is to be found."""

from __future__ import annotations

import functools
import inspect
from pathlib import Path
from typing import Any

import torch

from .. import _torch, registry, rules
from .._torch import OpOverload
from ..decision import ReadOut
from ..engine import GivenRows
from ..notation import Notation
from ..registered import RegisteredRule
from ..rules import FollowRule, RowRule, follow
from ..rules import rows as row_rules
from .model import RuleFacts

__all__ = ["facts_of_rule", "function_place"]

_OURS = Path(__file__).parents[1]
_TORCHS = Path(torch.__file__).parent
# What merely wraps the function of a rule.
_WRAPPERS = frozenset(map(str, (follow.__file__, row_rules.__file__)))


def facts_of_rule(op: OpOverload, rule: Any) -> RuleFacts:
    """What is known of the rule of an op; `rule` is None where torch's own code decides it."""
    handler = _torch.handlers_instead_of_propagation().get(op)
    if isinstance(rule, ReadOut):
        return RuleFacts("reads a number out", "torch", "torch's dispatcher")
    if handler is not None:
        return RuleFacts("custom handler", "torch", function_place(handler))
    if isinstance(rule, RegisteredRule):
        return RuleFacts("rows", "registered", _registration(rule))
    if isinstance(rule, GivenRows):
        return RuleFacts("decomposition", "torch", function_place(_torch.decomposition_of(op)))
    if isinstance(rule, (FollowRule, RowRule)):
        kind = "rows" if isinstance(rule, RowRule) else "follows operands"
        return RuleFacts(kind, "shardprop", _own_place(op, rule))
    if rule is not None:
        return RuleFacts("rows", "torch", function_place(rule.func))
    how = registry.why_no_single_dim_rule(op)
    if how == "decomposition":
        traced = _decomposition(op)
        if traced is None:
            return RuleFacts("none", "torch", registry.way_to_a_rule(op))
        return RuleFacts(how, "torch", function_place(traced))
    kind = (
        "torch's full-mesh strategy" if how == "full-mesh strategy" else "torch's propagation rule"
    )
    function = registry.rule_function(op)
    origin = "torch" if registry.has_own_full_mesh_strategy(op) else "registered"
    return RuleFacts(kind, origin, function_place(function))


def _decomposition(op: OpOverload) -> Any:
    try:
        return _torch.decomposition_of(op)
    except RuntimeError:  # torch does not know the op
        return None


def _registration(rule: RegisteredRule) -> str:
    if rule.notation is not None:
        how = f"register_rule({str(rule.notation)!r})"
    else:
        name = getattr(rule.function, "__qualname__", "a function")
        how = f"register_single_dim_rule above {name}"
    variant = "" if rule.derived_from is None else f", for {rule.derived_from}"
    return f"{_short(rule.place)} {how}{variant}"


def _own_place(op: OpOverload, rule: FollowRule | RowRule) -> str:
    """The function of a rule of ours; the module and the notation where there is none."""
    function = rule.rows if isinstance(rule, RowRule) else rule.function
    inner = _innermost(function)
    if isinstance(inner, Notation):
        home = next((m for m in rules.FAMILIES if op in m.RULES), rules)
        return f"{_short(str(home.__file__))} {str(inner)!r}"
    return function_place(inner)


def _innermost(function: Any) -> Any:
    """What the functions of `rules.follow` and `rules.rows` wrap."""
    while isinstance(function, functools.partial):
        function = function.func
    code = getattr(function, "__code__", None)
    if code is None or code.co_filename not in _WRAPPERS:
        return function
    held = [cell.cell_contents for cell in function.__closure__ or ()]
    inner = [each for each in held if callable(each) or isinstance(each, Notation)]
    return _innermost(inner[0]) if inner else function


def function_place(function: Any) -> str:
    """``file:line name``, the file from torch or shardprop on if it is of these."""
    while isinstance(function, functools.partial):
        # torch's `register_sharding` binds the program's function to one of its own.
        function = next((a for a in function.args if callable(a)), function.func)
    function = inspect.unwrap(function)
    name = getattr(function, "__qualname__", None) or type(function).__qualname__
    code = getattr(function, "__code__", None)
    if code is None:
        return f"{getattr(function, '__module__', None) or 'built in'} {name}"
    return f"{_short(code.co_filename)}:{code.co_firstlineno} {name.rpartition('.')[2]}"


def _short(place: str) -> str:
    for home in (_OURS, _TORCHS):
        if place.startswith(f"{home}/"):
            return place[len(str(home.parent)) + 1 :]
    return place
