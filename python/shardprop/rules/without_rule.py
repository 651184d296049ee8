"""Ops that nobody has a rule for, on replicated operands: ``enable(without_rule="replicate")``.

Such an op gets a rule without rows when torch first refuses it: the row in which all is replicated
is the only one. It stands among the rules that programs register, and goes with the setting.
"""

from __future__ import annotations

import torch

from .. import _torch
from .._torch import OpOverload
from ..errors import ShardpropError
from . import torch_registry
from .registered import RegisteredRule
from .registration import remove_stand_ins, stand_in
from .rule import Rule, rule_of_entry
from .targets import check_op

__all__ = ["let_run_replicated", "stand_in_for"]

_WHERE = 'enable(without_rule="replicate")'
# What such an op makes is not the same on ranks that are given the same, or not known beforehand.
_UNFIT_TAGS = {
    torch.Tag.data_dependent_output,
    torch.Tag.dynamic_output_shape,
    torch.Tag.nondeterministic_seeded,
}
_COLLECTIVES = (
    *("c10d", "c10d_functional", "_c10d_functional", "_c10d_functional_autograd"),
    *("_dtensor", "symm_mem"),
)

_is_let = False


def let_run_replicated(yes: bool) -> None:
    """Have ops that nobody has a rule for run on replicated operands from now on; or no longer."""
    global _is_let
    _is_let = yes
    if not yes:
        remove_stand_ins()


def stand_in_for(op: OpOverload) -> Rule | None:
    """Give an op a rule that torch has refused for lack of one, if that is asked for and right. It
    is not for an op that writes into operands or returns views of them, takes lists of tensors,
    draws random numbers, speaks to other ranks, or whose results' sizes are not known before."""
    if not _is_let or not _is_fit(op):
        return None
    stand_in(op, RegisteredRule(_no_rows, _WHERE, stands_in=True))
    return rule_of_entry(op, torch_registry.single_dim_entry(op))


def _no_rows(*_: object) -> list[list[object]]:
    return []


def _is_fit(op: OpOverload) -> bool:
    schema = _torch.function_schema(op)
    shares = any(each.alias_info is not None for each in (*schema.arguments, *schema.returns))
    makes_tensors = all(str(each.type) == "Tensor" for each in schema.returns)
    # torch has looked into lists, or not, before it asks.
    takes_lists = any(str(each.type).endswith("Tensor]]") for each in schema.arguments)
    takes_lists |= any(str(each.type) == "List[Tensor]" for each in schema.arguments)
    if shares or takes_lists or not schema.returns or not makes_tensors:
        return False
    if op.namespace in _COLLECTIVES or not _UNFIT_TAGS.isdisjoint(op.tags):
        return False
    try:
        check_op(op)
    except ShardpropError:
        return False
    return True
