"""Rules that a program registers: which there are, and what torch had in their place.

They stand in torch's own registry of single-dim rules, where all that look for a rule find them:
the core at the moment of use, torch's own code while shardprop is disabled, decompositions that
call the op. What was there before is kept, and comes back when a rule goes.

The rules of variants (in-place, ``out=``) are no state of their own: they follow from the rules
that were registered, and are found anew whenever those change.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from .. import _torch
from .._torch import OpOverload
from ..errors import ShardpropError
from ..support.cache import clear_maps
from . import torch_registry
from .notation.rule_text import Notation
from .registered import RegisteredRule, RuleFunction
from .targets import as_ops, calling_place, check_op, schema_info_of, where_is
from .variants import rule_of_variant, variants_of

__all__ = [
    "register_rule",
    "register_single_dim_rule",
    "remove_stand_ins",
    "stand_in",
    "temporary_rules",
    "unregister",
]

_logger = logging.getLogger("shardprop")


@dataclass(frozen=True)
class _Registration:
    """A rule and what was asked for with it."""

    rule: RegisteredRule
    override: bool
    variants: bool


class _Registry:
    """All registrations of the process. Changes wait for each other; who reads, reads torch's."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._registrations: dict[OpOverload, _Registration] = {}
        self._derived: dict[OpOverload, RegisteredRule] = {}
        self._before: dict[OpOverload, torch_registry.Entries] = {}
        # Variants for which torch was given a rule after ours was derived.
        self._left_to_torch: set[OpOverload] = set()
        self._watching = False

    def add(self, new: Mapping[OpOverload, _Registration]) -> None:
        """Register rules, all of them or none."""
        with self._lock:
            for op, registration in new.items():
                if not registration.override:
                    self._check_free(op)
            self._watch()
            self._left_to_torch.difference_update(new)
            self._apply({**self._registrations, **new})

    def stand_in(self, op: OpOverload, rule: RegisteredRule) -> None:
        """Register a rule for an op that nobody has one for, if nobody has."""
        with self._lock:
            if not torch_registry.has_rule(op):
                self.add({op: _Registration(rule, override=False, variants=False)})

    def remove_stand_ins(self) -> None:
        """Remove those rules again."""
        with self._lock:
            kept = {op: r for op, r in self._registrations.items() if not r.rule.stands_in}
            if len(kept) < len(self._registrations):
                self._apply(kept)

    def remove(self, ops: list[OpOverload]) -> None:
        """Undo registrations, all of them or none."""
        with self._lock:
            for op in ops:
                self._check_registered(op)
            gone = set(ops)
            self._apply({op: r for op, r in self._registrations.items() if op not in gone})

    @contextmanager
    def restored(self) -> Iterator[None]:
        """What is registered now is so again after the block, and nothing else."""
        with self._lock:
            before = {op: r for op, r in self._registrations.items() if not r.rule.stands_in}
            left_to_torch = set(self._left_to_torch)
        try:
            yield
        finally:
            with self._lock:
                self._left_to_torch = left_to_torch
                self._apply(before)

    def _check_free(self, op: OpOverload) -> None:
        known = self._registrations.get(op)
        if known is not None and known.rule.stands_in:
            return
        if known is not None:
            raise ShardpropError(
                f"{op}: Expected an op without a registered rule, got one that was registered at "
                f"{known.rule.registered_at}. Pass override=True to put the new rule in its place, "
                "or call shardprop.unregister first."
            )
        if op in self._derived:
            return
        torchs = torch_registry.rule_function(op)
        if torchs is not None:
            raise ShardpropError(
                f"{op}: Expected an op without a rule, got one that torch decides by "
                f"{where_is(torchs)}. Pass override=True to put the new rule in its place."
            )

    def _check_registered(self, op: OpOverload) -> None:
        known = self._registrations.get(op)
        if known is not None and not known.rule.stands_in:
            return
        rule = self._derived.get(op)
        if rule is not None:
            raise ShardpropError(
                f"{op}: Expected an op with a rule of its own, got a variant of "
                f"{rule.derived_from}, whose rule was registered at {rule.registered_at}. "
                "Unregister that, or register it with variants=False."
            )
        torchs = torch_registry.rule_function(op)
        whose = "" if torchs is None else f" (torch decides it by {where_is(torchs)})"
        raise ShardpropError(
            f"{op}: Expected an op with a rule registered by shardprop, got one without{whose}."
        )

    def _apply(self, registrations: dict[OpOverload, _Registration]) -> None:
        """Make these the registrations, with what follows from them, and forget old decisions."""
        derived = self._derive(registrations)
        wanted = {**derived, **{op: r.rule for op, r in registrations.items()}}
        for op in [op for op in self._before if op not in wanted]:
            torch_registry.restore(op, self._before.pop(op))
        for op, rule in wanted.items():
            if op not in self._before:
                self._before[op] = torch_registry.entries(op)
            torch_registry.put(op, rule, schema_info_of(op))
        self._registrations, self._derived = registrations, derived
        clear_maps()
        _torch.forget_decisions()

    def _derive(
        self, registrations: Mapping[OpOverload, _Registration]
    ) -> dict[OpOverload, RegisteredRule]:
        """The rules of variants."""
        derived: dict[OpOverload, RegisteredRule] = {}
        for op, registration in registrations.items():
            for variant in variants_of(op) if registration.variants else ():
                other = variant.op
                is_taken = other in registrations or other in self._left_to_torch
                if is_taken or (not registration.override and self._torch_had_one(other)):
                    continue
                derived[other] = RegisteredRule(
                    rule_of_variant(op, registration.rule.function, variant),
                    registration.rule.registered_at,
                    allow_uneven_sharding=registration.rule.allow_uneven_sharding,
                    derived_from=op,
                )
        return derived

    def _torch_had_one(self, op: OpOverload) -> bool:
        before = self._before.get(op)
        return (torch_registry.entries(op) if before is None else before).has_rule

    def _watch(self) -> None:
        if not self._watching:
            _torch.before_registrations(self._give_way)
            self._watching = True

    def _give_way(self, op: OpOverload) -> None:
        """torch is about to register a rule for an op: the last registration counts.

        Where torch has rules of two kinds it would go on asking the single-dim one, which is ours.
        """
        with self._lock:
            known = self._registrations.get(op)
            if known is not None:
                _logger.warning(
                    "%s: its rule, registered at %s, gives way to one that torch is given now.",
                    op,
                    known.rule.registered_at,
                )
                self._apply({o: r for o, r in self._registrations.items() if o != op})
            elif op in self._derived:
                self._left_to_torch.add(op)
                self._apply(self._registrations)


_registry = _Registry()


def register_single_dim_rule(
    op_or_ops: object,
    *,
    override: bool = False,
    variants: bool = True,
    allow_uneven_sharding: bool = False,
) -> Callable[[RuleFunction], RuleFunction]:
    """A decorator that makes a function the sharding rule of an op: for torch's own propagation
    too, so also where shardprop is not enabled.

    It counts from the next op of every thread on, whatever ops ran before.

    The function gets the op, its arguments and its keyword arguments, with ``TensorMeta(shape,
    stride, dtype)`` in place of tensors, and returns what the op allows on **one** mesh dim, row by
    row: a placement for each output, then for each tensor that was given, in the order of the op's
    schema, keyword arguments last. A cell is a ``Placement``, a `ShardingPlaceholder`, or None for
    an output that is absent. The row in which all is replicated is understood.

    Args:
        op_or_ops: An overload such as ``torch.ops.mylib.gemm.default``, an op that has one, what
            ``torch.library.custom_op`` returned, or a list of these.
        override: Take the place of a rule that the op has already, torch's or ours.
        variants: Give the op's in-place and ``out=`` forms rules that follow from this one; forms
            that have a rule keep it, unless `override` says otherwise.
        allow_uneven_sharding: An operand that stays where it is may have more pieces than elements.

    Raises:
        ShardpropError: no such op, one that has a rule, or one whose outputs torch knows nothing of
            without running it.
    """
    ops = as_ops(op_or_ops)
    place = calling_place()

    def register(function: RuleFunction) -> RuleFunction:
        if not callable(function):
            raise ShardpropError(
                f"{ops[0]}: Expected a function (op, args, kwargs) that returns rows, got "
                f"{function!r}. Write @shardprop.register_single_dim_rule(op) above the function."
            )
        _register(
            ops, function, place, override, variants, allow_uneven_sharding=allow_uneven_sharding
        )
        return function

    return register


def register_rule(
    op_or_ops: object, rule: str, *, override: bool = False, variants: bool = True
) -> None:
    """Give an op a sharding rule in the compact notation, such as ``"m k, k n -> m n"``.

    Args:
        op_or_ops: As in `register_single_dim_rule`, and so are `override` and `variants`.
        rule: Operands, ``->``, outputs (docs/notation.md).

    Raises:
        ShardpropError: as `register_single_dim_rule`, or a rule that cannot be read or does not fit
            the op.
    """
    ops = as_ops(op_or_ops)
    notation = Notation(rule)
    for op in ops:
        notation.check(op)
    _register(ops, notation.rows, calling_place(), override, variants, takes_outputs=True)


def _register(
    ops: list[OpOverload],
    function: RuleFunction,
    place: str,
    override: bool,
    variants: bool,
    allow_uneven_sharding: bool = False,
    takes_outputs: bool = False,
) -> None:
    for op in ops:
        check_op(op)
    _registry.add(
        {
            op: _Registration(
                RegisteredRule(
                    function,
                    place,
                    allow_uneven_sharding=allow_uneven_sharding,
                    takes_outputs=takes_outputs,
                ),
                override,
                variants,
            )
            for op in ops
        }
    )


def stand_in(op: OpOverload, rule: RegisteredRule) -> None:
    """Register a rule that stands in for that of an op which nobody has one for, if nobody has."""
    _registry.stand_in(op, rule)


def remove_stand_ins() -> None:
    """Remove what `stand_in` has registered."""
    _registry.remove_stand_ins()


def unregister(op_or_ops: object) -> None:
    """Undo a registration: what torch had for the op before is there again, or nothing.

    The variants that got their rules from this one lose them.

    Raises:
        ShardpropError: an op that was not registered.
    """
    _registry.remove(as_ops(op_or_ops))


@contextmanager
def temporary_rules() -> Iterator[None]:
    """Undo after a block what was registered and unregistered inside, by whichever thread."""
    with _registry.restored():
        yield
