"""Rows and decisions that are held, each with the sizes for which it is the answer.

With lengths that change from step to step every op is a miss in torch's cache, though nothing about
its decision changes. So what is held here has no sizes in its key. The first question of a kind is
only noted. The second says that sizes do change: then it is found out what the rule function reads
of them (see size_probe.py) and between which sizes the core's choice stays what it is
(`_core.region`), and from then on the answer is looked up.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from .. import _core, _torch
from .._torch import (
    DeviceMesh,
    OpOverload,
    Partial,
    Replicate,
    Shard,
    ShardingPlaceholder,
    StridedShard,
)
from ..model.question import Choice, Question
from ..rules.rule import RowsRule
from ..support.cache import BoundedMap
from .core_call import Arguments, Prepared, answer, choose, options, prepare
from .size_probe import Reads, watched

__all__ = ["DecisionCache"]

_KINDS_HELD = 4096
# Of one kind of question: sets of rows, and regions. A region takes up to milliseconds to find.
_VARIANTS = 8

_SCALARS = (bool, int, float, str, type(None))
_VALUES = {Replicate, Shard, StridedShard, Partial, ShardingPlaceholder, type(None)}


class _Rows(NamedTuple):
    """Rows of a rule, and for which sizes and floats: those of `reads`, or the very same ones."""

    rows: Sequence[Any]
    sizes: bytes
    floats: bytes
    reads: Reads | None

    def hold(self, question: Question, sizes: bytes, floats: bytes) -> bool:
        """Are they the rows of this question?"""
        reads = self.reads
        if reads is None:
            return sizes == self.sizes and floats == self.floats
        if reads.floats and floats != self.floats:
            return False
        return reads.hold([spec.shape for spec in question.operands])


class _RowsOfRule(NamedTuple):
    # Held so that their addresses stay their own.
    rule: RowsRule
    op: OpOverload
    variants: tuple[_Rows, ...]


class _Decided(NamedTuple):
    """A choice and where it holds. Meshes are held so that their addresses stay their own."""

    region: _core.Region
    choice: Choice
    meshes: list[DeviceMesh]


class _Decisions(NamedTuple):
    # Held so that their addresses stay their own.
    rows: Sequence[Any]
    op: OpOverload
    tries: int
    variants: tuple[_Decided, ...]


def _are_values(rows: Sequence[Any]) -> bool:
    """Are the placements nothing but values? (A _MaskPartial keeps what its own op has masked.)"""
    return {type(cell) for row in rows for cell in row} <= _VALUES


def _outline(question: Question) -> object:
    """Which outputs there are."""
    meta = question.meta
    if meta is None or isinstance(meta, _torch.TensorMeta):
        return meta is None
    return (type(meta), *(item is None for item in meta))


class DecisionCache:
    """Answers questions as `core_call.choose` does, from what is held where that is the answer."""

    def __init__(self) -> None:
        self._rows: BoundedMap[_RowsOfRule] = BoundedMap("rows of rules", _KINDS_HELD)
        self._decisions: BoundedMap[_Decisions] = BoundedMap("decisions", _KINDS_HELD)

    def clear(self) -> None:
        """Forget all."""
        self._rows.clear()
        self._decisions.clear()

    def choose(self, question: Question, rule: RowsRule, at_its_price: bool = False) -> Choice:
        """`core_call.choose`; costs are those of the sizes that were decided for.

        `at_its_price`: a choice that moves something is not looked up, so that costs are those of
        the question.

        Raises:
            As `core_call.choose` does.
        """
        if not rule.has_fixed_code or _torch.in_local_tensor_mode():
            return choose(question, rule)
        signature = _core.signature(question.args, question.kwargs)
        if signature is None:
            return choose(question, rule)
        visible, layouts, sizes, floats = signature
        key = id(rule), id(question.rule_op), visible
        known = self._rows.get(key)
        variants = () if known is None else known.variants
        for variant in variants:
            if variant.hold(question, sizes, floats):
                return self._choose(question, rule, variant.rows, None, layouts, at_its_price)
        arguments = Arguments(question, rule)
        # A list of our own: what the rule gave may be another's, and its address is a key below.
        rows: Sequence[Any] = [*arguments.rows()]
        if not _are_values(rows):
            return answer(prepare(question, rule, rows, arguments))
        reads = _reads(arguments, rows) if variants else None
        # The same rows stay one object, for decisions are held by it.
        rows = next((v.rows for v in variants if _are_equal(v.rows, rows)), rows)
        kept = (v for v in variants if v.reads is not None)
        newest = _Rows(rows, sizes, floats, reads)
        self._rows.put(key, _RowsOfRule(rule, question.rule_op, (newest, *kept)[:_VARIANTS]))
        return self._choose(question, rule, rows, arguments, layouts, at_its_price)

    def _choose(
        self,
        question: Question,
        rule: RowsRule,
        rows: Sequence[Any],
        arguments: Arguments | None,
        layouts: bytes,
        at_its_price: bool,
    ) -> Choice:
        """The choice among rows that are held."""
        key = id(rows), id(question.op), layouts, options(question, rule), _outline(question)
        known = self._decisions.get(key)
        if known is not None:
            for decided in known.variants:
                if decided.region.contains(question.operands):
                    if at_its_price and any(decided.choice.operand_costs):
                        return answer(prepare(question, rule, rows, arguments))
                    return decided.choice
        prepared = prepare(question, rule, rows, arguments)
        choice = answer(prepared)
        self._decisions.put(key, _next(known, rows, prepared, choice, question))
        return choice


def _reads(arguments: Arguments, rows: Sequence[Any]) -> Reads | None:
    """What the rule function reads; None if it does not take sizes that note that."""
    if sum(not isinstance(value, _SCALARS) for value in arguments.kwargs_meta.values()) > 1:
        return None  # torch may count keyword tensors in another order than they come in
    reads = Reads()
    try:
        asked = arguments.rows(lambda args, kwargs: watched(args, kwargs, reads))
    except Exception:  # whatever an unusual int may make it raise: then it is not watched
        return None
    return reads if _are_equal(asked, rows) and not reads.strides else None


def _are_equal(rows: Sequence[Any], others: Sequence[Any]) -> bool:
    """Do they say the same? (A placeholder is equal to none but itself.)"""

    def values(rows: Sequence[Any]) -> list[list[object]]:
        return [[(c.dim,) if isinstance(c, ShardingPlaceholder) else c for c in r] for r in rows]

    return values(rows) == values(others)


def _next(
    known: _Decisions | None,
    rows: Sequence[Any],
    prepared: Prepared,
    choice: Choice,
    question: Question,
) -> _Decisions:
    """What to hold once a question has been decided."""
    if known is None:
        return _Decisions(rows, question.op, 0, ())
    if known.tries == _VARIANTS:
        return known
    region = _core.region(prepared.problem)
    if region is None:
        return known._replace(tries=_VARIANTS)
    decided = _Decided(region, choice, [spec.mesh for spec in question.operands])
    return known._replace(tries=known.tries + 1, variants=(decided, *known.variants))
