"""The hook into DTensor: what asks the core, and what goes to torch's own code instead."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from . import _core, _torch, metadata, registry
from ._torch import DTensorSpec, OpSchema, OutputSharding
from .bounded import stats_of_maps
from .decision import decide, refuse_misfit, rule_of
from .decomposition import Declined, Decomposer
from .decomposition.knowing import torch_propagate_knowing
from .engine import NoStrategyError, OutputMeta
from .errors import ShardpropError
from .held import HeldDecisions
from .hook import install, uninstall
from .kinds import has_strided
from .redistribution import Redistribution
from .registered import RegisteredRule
from .rules.views import forget_dim_maps
from .stats import Recorder, Stats

__all__ = [
    "clear_caches",
    "disable",
    "enable",
    "enabled",
    "is_enabled",
    "propagate_sharding",
    "redistribution",
    "reset_stats",
    "stats",
]

_logger = logging.getLogger("shardprop")
_recorder = Recorder()
redistribution = Redistribution(_recorder)
_held = HeldDecisions()
_lock = threading.Lock()
_enabled = False
_strict = False

# What an op is left to torch for.
_DECLINED = (_core.Unsupported, _core.RuleError, NoStrategyError)


def _strided_operands(schema: OpSchema) -> int:
    """Operands with strided shards, for the statistics."""
    strided = 0
    for arg in schema.args_schema:
        if isinstance(arg, DTensorSpec):
            strided += has_strided(arg.placements)
        elif isinstance(arg, (list, tuple)):
            strided += sum(has_strided(x.placements) for x in arg if isinstance(x, DTensorSpec))
    return strided


def _rule_for(schema: OpSchema) -> Any | None:
    """The op's rule, or the rows of its decomposition; None where torch is to decide."""
    rule = rule_of(schema.op)
    if rule is None and registry.why_no_single_dim_rule(schema.op) == "decomposition":
        try:
            return decomposer.rows(schema)
        except Declined as declined:
            _logger.debug("torch decomposes %s: %s", schema.op, declined)
    return rule


def propagate_sharding(schema: OpSchema) -> OutputSharding:
    """What torch's dispatcher calls while shardprop is enabled; the validator, at any time."""
    with _recorder.mine() as counts:
        rule = _rule_for(schema)
        if rule is None:
            with redistribution.one_decision():
                answer = _torch.torch_propagate(schema)
            # Only now: most of what is left to torch here, torch refuses.
            why = registry.why_no_single_dim_rule(schema.op)
            counts.left_to_torch(why, _strided_operands(schema))
            return answer
        try:
            decision = decide(schema, rule, redistribution, _held)
        except _DECLINED as declined:
            if isinstance(rule, RegisteredRule):
                refuse_misfit(schema, declined)
            return _fall_back(schema, declined)
        counts.decided(_strided_operands(schema))
        return decision


def _decide_inside(schema: OpSchema, meta: OutputMeta) -> OutputSharding:
    """The decision of a call inside a decomposition, where rows alone do not decide it."""
    rule = _rule_for(schema)
    if rule is not None:
        try:
            return decide(schema, rule, redistribution, _held, lambda _: meta)
        except _DECLINED as declined:
            _logger.debug("torch decides %s inside a decomposition: %s", schema.op, declined)
    with redistribution.one_decision():
        return torch_propagate_knowing(schema, meta)


decomposer = Decomposer(_decide_inside)


def _fall_back(schema: OpSchema, declined: Exception) -> OutputSharding:
    """torch's own path, counted by reason; an error under ``strict``."""
    reason = (
        f"malformed rule: {declined}" if isinstance(declined, _core.RuleError) else str(declined)
    )
    _logger.debug("fallback to torch for %s: %s", schema.op, reason)
    if _strict and not isinstance(declined, NoStrategyError):
        raise ShardpropError(f"{schema.op}: {reason} (strict: no fallback to torch).") from None
    _recorder.mine().fell_back(reason, _strided_operands(schema))
    with redistribution.one_decision():
        return _torch.torch_propagate(schema)


def enable(*, policy: str = "torch", strict: bool = False) -> None:
    """Let the core decide for every DTensor op of this process.

    Clears torch's caches of decisions, so that what follows is decided by the core.

    Args:
        policy: ``"torch"``: the decision is torch's own, bit for bit, where its values are right.
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
        install(propagate_sharding)
        _enabled = True


def disable() -> None:
    """Give every decision back to torch, and clear its caches of decisions."""
    global _enabled
    with _lock:
        _torch.uninstall_pricing()
        uninstall()
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
    return _recorder.snapshot(stats_of_maps())


def reset_stats() -> None:
    """Start the counters of `stats` again from zero."""
    _recorder.reset()


def clear_caches() -> None:
    """Forget plans and decisions, ours and torch's."""
    redistribution.clear()
    _held.clear()
    decomposer.clear()
    metadata.forget()
    forget_dim_maps()
    _torch.forget_plans()
    _torch.forget_decisions()
