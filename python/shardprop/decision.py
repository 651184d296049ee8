"""The decision of one op: its rule, its question, and the answer as torch executes it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from . import _core, _torch, engine, registry
from ._torch import DeviceMesh, DTensorSpec, OpOverload, OpSchema, OutputSharding
from .engine import Choice, GivenRows, NoStrategyError, OutputMeta, Question
from .errors import ShardpropError
from .lists import Choose, Elements, decide_list_op, is_tensor_list
from .metadata import output_meta
from .op_facts import op_facts
from .operands import operands_of
from .outputs import output_sharding
from .policy import Policy
from .rules import FollowRule, RowRule, own_rule

__all__ = [
    "ReadOut",
    "ask",
    "decide",
    "is_list_op",
    "is_own",
    "question_of",
    "refuse_misfit",
    "rule_of",
]

# What the body of a rule of ours raises on arguments that it does not expect.
_UNEXPECTED = (LookupError, TypeError, ValueError, AttributeError)


class ReadOut:
    """The rule of an op that reads a number out of a tensor: nothing is placed, nothing moves."""


_READ_OUT = ReadOut()


def rule_of(op: OpOverload) -> Any | None:
    """torch's single-dim rule for an op, or else ours; None if neither has one."""
    if registry.is_read_out(op):
        return _READ_OUT
    return registry.single_dim_rule(op) or own_rule(op)


def is_own(rule: Any) -> bool:
    """Is it a rule of ours, or the rows of a decomposition?"""
    return isinstance(rule, (FollowRule, RowRule, GivenRows))


def question_of(schema: OpSchema, meta: OutputMeta, rule: Any) -> Question:
    """The question that an op which is no list op puts to the core."""
    operands = list(schema.args_spec)
    positional = len(operands)
    kwargs = schema.kwargs_schema
    if kwargs:
        pytree = schema.schema_info is not None and schema.schema_info.needs_pytree
        values = _torch.tree_leaves(kwargs) if pytree else kwargs.values()
        operands += [value for value in values if isinstance(value, DTensorSpec)]
    return Question(
        op=schema.op,
        rule_op=schema.op,
        args=schema.args_schema,
        kwargs=kwargs,
        operands=operands,
        positional=positional,
        meta=meta,
        # torch raises where there is none; the rules of its own that ours stand for do not look.
        mesh=None if is_own(rule) else _mesh_of(schema),
    )


def _mesh_of(schema: OpSchema) -> DeviceMesh:
    first = schema.args_schema[0] if schema.args_schema else None
    return first.mesh if isinstance(first, DTensorSpec) else _torch.mesh_of(schema)


def ask(
    rule: Any,
    policy: Policy,
    choose: Callable[[Question, Any], Choice] | None = None,
) -> Choose:
    """How `rule` answers a question under a policy; `choose`, if given, stands in for the policy's.

    The function raises what `choose` raises, and _core.Unsupported where a rule of ours does not
    know what to make of the arguments: torch then decides, or says what is wrong with them.
    """
    choose = choose or policy.choose
    if not is_own(rule):
        return lambda question: choose(question, rule)

    def choose_by_own_rule(question: Question) -> Choice:
        try:
            if not isinstance(rule, FollowRule):
                return choose(question, rule)
            with policy.one_decision():
                return rule.choose(question, policy.cost)
        except (_core.RuleError, ShardpropError):
            raise
        except _UNEXPECTED as error:
            reason = f"arguments that our rule does not expect ({type(error).__name__})"
            raise _core.Unsupported(reason) from error

    return choose_by_own_rule


def decide(
    schema: OpSchema,
    rule: Any,
    policy: Policy,
    meta_of: Callable[[OpSchema], OutputMeta] | None = None,
) -> OutputSharding:
    """The decision of a rule, looked up if it is held; `meta_of` gives the metadata of the outputs
    (`output_meta` unless something else does).

    Raises:
        _core.Unsupported, _core.RuleError, NoStrategyError: as `choose` does.
        Exception: what torch raises while it computes the output's metadata or asks the rule.
    """
    if rule is _READ_OUT:
        return OutputSharding(None, schema)
    choose_one = ask(rule, policy)
    meta_of = meta_of or output_meta
    if is_list_op(schema) and not isinstance(rule, GivenRows):
        elements = Elements(schema)
        meta = elements.meta(meta_of)
        if not is_own(rule):
            _torch.validate_meta_count(schema, meta)
        return decide_list_op(schema, elements, meta, choose_one)
    meta = meta_of(schema)
    if not is_own(rule):
        _torch.validate_meta_count(schema, meta)
    question = question_of(schema, meta, rule)
    return output_sharding(schema, question, choose_one(question))


def refuse_misfit(schema: OpSchema, declined: Exception) -> None:
    """Raise where torch's own code would not know what is wrong with a registered rule.

    Raises:
        ShardpropError: rows that are malformed, or none of which leaves an operand where it is that
            torch's dispatcher does not move.
    """
    if isinstance(declined, _core.RuleError):
        raise ShardpropError(f"{schema.op}: {declined}") from None
    if not isinstance(declined, NoStrategyError):
        return
    operands = operands_of(schema.op, schema.args_schema, schema.kwargs_schema)
    staying = engine.staying_operands(question_of(schema, None, None))
    if staying:
        names = ", ".join(repr(operands[index].name) for index in staying)
        raise ShardpropError(
            f"{schema.op}: Expected operands that the op can work on where they are, got no row of "
            f"its rule that leaves {names} there. torch moves no keyword arguments, and no operand "
            "that is written into: redistribute before the call."
        ) from None


def is_list_op(schema: OpSchema) -> bool:
    """Does torch decide it element by element?"""
    return op_facts(schema.op).is_list_op and any(map(is_tensor_list, schema.args_schema))
