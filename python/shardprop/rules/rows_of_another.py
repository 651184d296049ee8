"""A rule with other rows than the one that it is made of, and else like it."""

from __future__ import annotations

from .._torch import OpOverload, OpSchema
from ..model.question import OutputMeta, Question
from .rule import RowsRule, RuleFacts

__all__ = ["RowsOfAnother"]


class RowsOfAnother(RowsRule):
    """All but the rows of a rule, which a subclass says.

    Args:
        rule: The rule.
    """

    def __init__(self, rule: RowsRule) -> None:
        self.rule = rule
        self.origin = rule.origin
        self.outputs = rule.outputs
        self.different_mesh_args = rule.different_mesh_args
        self.allow_uneven_sharding = rule.allow_uneven_sharding
        self.allow_unbacked_sharding = rule.allow_unbacked_sharding
        self.accepts = rule.accepts
        self.keeps_written_in_place = rule.keeps_written_in_place
        self.leaves_written = rule.leaves_written
        self.leaves_unmovable = rule.leaves_unmovable
        self.has_fixed_code = rule.has_fixed_code

    def facts(self, op: OpOverload) -> RuleFacts:
        """Those of the rule itself."""
        return self.rule.facts(op)

    def check(self, schema: OpSchema, meta: OutputMeta) -> None:
        """See `Rule.check`."""
        self.rule.check(schema, meta)

    def question(self, schema: OpSchema, meta: OutputMeta) -> Question:
        """See `Rule.question`."""
        return self.rule.question(schema, meta)
