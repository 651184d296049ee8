"""The hook into DTensor: what asks the core, and what goes to torch's own code instead."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from . import _core, _torch
from ._torch import DTensorSpec, OpSchema, OutputSharding, StridedShard
from .decomposition import Declined, Decomposer
from .engine import NoStrategyError, Question, choose
from .errors import ShardpropError
from .lists import Elements, decide_list_op, is_tensor_list
from .op_facts import op_facts
from .outputs import output_sharding
from .redistribution import Redistribution
from .stats import Recorder, Stats

__all__ = [
    "clear_caches",
    "disable",
    "enable",
    "enabled",
    "is_enabled",
    "redistribution",
    "reset_stats",
    "stats",
]

_logger = logging.getLogger("shardprop")
_recorder = Recorder()
redistribution = Redistribution(_recorder)
_lock = threading.Lock()
_enabled = False
_strict = False


def _strided_operands(schema: OpSchema) -> int:
    """Operands with strided shards, for the statistics."""
    specs = [
        spec for spec in _torch.tree_leaves(schema.args_schema) if isinstance(spec, DTensorSpec)
    ]
    return sum(any(isinstance(p, StridedShard) for p in spec.placements) for spec in specs)


def question_of(schema: OpSchema, meta: object) -> Question:
    """The question that an op which is no list op puts to the core."""
    positional = schema.args_spec
    pytree = schema.schema_info is not None and schema.schema_info.needs_pytree
    values = _torch.tree_leaves(schema.kwargs_schema) if pytree else schema.kwargs_schema.values()
    keywords = [value for value in values if isinstance(value, DTensorSpec)]
    return Question(
        op=schema.op,
        rule_op=schema.op,
        args=schema.args_schema,
        kwargs=schema.kwargs_schema,
        operands=[*positional, *keywords],
        positional=len(positional),
        meta=meta,  # type: ignore[arg-type]
        mesh=_torch.mesh_of(schema),
    )


def _decide(schema: OpSchema, rule: object) -> OutputSharding:
    """The core's decision.

    Raises:
        _core.Unsupported, _core.RuleError, NoStrategyError: as `choose` does.
        Exception: what torch raises while it computes the output's metadata or asks the rule.
    """
    propagate_meta = _torch.propagator()._propagate_tensor_meta_non_cached
    if op_facts(schema.op).is_list_op and any(map(is_tensor_list, schema.args_schema)):
        elements = Elements(schema)
        meta = elements.meta(propagate_meta)
        _torch.validate_meta_count(schema, meta)
        return decide_list_op(schema, elements, meta, rule)
    meta = propagate_meta(schema)
    _torch.validate_meta_count(schema, meta)
    return output_sharding(schema, choose(question_of(schema, meta), rule), meta)


def _decide_decomposed(schema: OpSchema) -> OutputSharding:
    """The core's decision on the rows of a decomposition.

    Raises:
        Declined, and as `_decide` does.
    """
    meta = _torch.propagator()._propagate_tensor_meta_non_cached(schema)
    rows = decomposer.rows(schema)
    return output_sharding(schema, choose(question_of(schema, meta), rows), meta)


def _propagate(schema: OpSchema) -> OutputSharding:
    """What torch's dispatcher calls while shardprop is enabled."""
    with _recorder.timed():
        rule = _torch.single_dim_rule(schema.op)
        if rule is None:
            why = _torch.why_no_single_dim_rule(schema.op)
            if why == "decomposition":
                try:
                    decision = _decide_decomposed(schema)
                except (Declined, _core.Unsupported, _core.RuleError, NoStrategyError) as declined:
                    _logger.debug("torch decides %s: %s", schema.op, declined)
                else:
                    _recorder.decided(_strided_operands(schema))
                    return decision
            _recorder.delegated(why, _strided_operands(schema))
            with redistribution.one_decision():
                return _torch.torch_propagate(schema)
        try:
            decision = _decide(schema, rule)
        except (_core.Unsupported, _core.RuleError, NoStrategyError) as declined:
            return _fall_back(schema, declined)
        _recorder.decided(_strided_operands(schema))
        return decision


def _decide_inside(schema: OpSchema, meta: object) -> OutputSharding:
    """The decision of a call inside a decomposition, where rows alone do not decide it."""
    if _torch.why_no_single_dim_rule(schema.op) == "full-mesh strategy":
        with redistribution.one_decision():
            return _torch.torch_propagate_knowing(schema, meta)
    return _propagate(schema)


decomposer = Decomposer(_decide_inside)


def _fall_back(schema: OpSchema, declined: Exception) -> OutputSharding:
    """torch's own path, counted by reason; an error under ``strict``."""
    reason = (
        f"malformed rule: {declined}" if isinstance(declined, _core.RuleError) else str(declined)
    )
    _logger.debug("fallback to torch for %s: %s", schema.op, reason)
    if _strict and not isinstance(declined, NoStrategyError):
        raise ShardpropError(f"{schema.op}: {reason} (strict: no fallback to torch).") from None
    _recorder.fell_back(reason, _strided_operands(schema))
    with redistribution.one_decision():
        return _torch.torch_propagate(schema)


def enable(*, policy: str = "torch", strict: bool = False) -> None:
    """Let the core decide for every DTensor op of this process.

    Clears torch's caches of decisions, so that what follows is decided by the core.

    Args:
        policy: ``"torch"``: the decision is torch's own, bit for bit.
        strict: Raise instead of going to torch's code where the core declines an op that has a
            single-dim rule.

    Raises:
        ShardpropError: an unknown policy.
    """
    global _enabled, _strict
    if policy != "torch":
        raise ShardpropError(f"Expected policy 'torch', got {policy!r}.")
    with _lock:
        _strict = strict
        redistribution.install()
        _torch.install(_propagate)
        _enabled = True


def disable() -> None:
    """Give every decision back to torch, and clear its caches of decisions."""
    global _enabled
    with _lock:
        _torch.uninstall_pricing()
        _torch.uninstall()
        _enabled = False


def is_enabled() -> bool:
    """Does the core decide now?"""
    return _enabled


@contextmanager
def enabled(*, policy: str = "torch", strict: bool = False) -> Iterator[None]:
    """`enable` for a block, and what was before after it."""
    before, before_strict = _enabled, _strict
    enable(policy=policy, strict=strict)
    try:
        yield
    finally:
        if before:
            enable(strict=before_strict)
        else:
            disable()


def stats() -> Stats:
    """What decided so far, and why when it was not the core."""
    return _recorder.snapshot(redistribution.entries, redistribution.held_bytes)


def reset_stats() -> None:
    """Start the counters of `stats` again from zero."""
    _recorder.reset()


def clear_caches() -> None:
    """Forget plans and decisions, ours and torch's."""
    redistribution.clear()
    decomposer.clear()
    _torch.forget_plans()
    _torch.forget_decisions()
