"""The hook into DTensor: what asks the core, and what goes to torch's own code instead."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from . import _core, _torch, logs, metadata, registry
from ._torch import DTensorSpec, OpSchema, OutputSharding
from .bounded import clear_maps, stats_of_maps
from .counting import Recorder, Stats, ThreadCounts
from .decision import decide, refuse_misfit, rule_of
from .decomposition import Declined, Decomposer
from .decomposition.knowing import torch_propagate_knowing
from .engine import NoStrategyError, OutputMeta
from .errors import ShardpropError
from .hook import install, uninstall
from .kinds import has_strided
from .observation import is_watched, observed
from .policy import Policy, TorchPolicy
from .policy_choice import forget_planners, make_policy
from .redistribution import Redistribution
from .registered import RegisteredRule
from .rules.views import forget_dim_maps
from .terms import Terms, TermsOfProcess

if TYPE_CHECKING:
    from .policy_settings import TopologyLike

__all__ = [
    "clear_caches",
    "counters",
    "current_policy",
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
_as_torch = TorchPolicy(redistribution, _recorder)
_not_enabled = Terms(_as_torch)
_terms = TermsOfProcess(_recorder, _not_enabled)
_enabled = False

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
    if is_watched():
        return observed(schema, _propagate, _recorder)
    return _propagate(schema)


def _propagate(schema: OpSchema) -> OutputSharding:
    with _recorder.mine() as counts:
        terms = counts.terms
        if terms is not _terms.current:
            terms = _terms.of_decision(counts)
        rule = _rule_for(schema)
        if rule is None:
            answer = _decided_by_torch(schema, counts)
            # Only now: most of what is left to torch here, torch refuses.
            why = registry.why_no_single_dim_rule(schema.op)
            counts.left_to_torch(why, _strided_operands(schema))
            return answer
        try:
            decision = decide(schema, rule, terms.policy)
        except _DECLINED as declined:
            if isinstance(rule, RegisteredRule):
                refuse_misfit(schema, declined)
            return _fall_back(schema, declined, terms, counts)
        counts.decided(_strided_operands(schema))
        return decision


def _decided_by_torch(schema: OpSchema, counts: ThreadCounts) -> OutputSharding:
    """torch's decision of an op without a single-dim rule. Its error, where it knows no way at all,
    is told the way to a rule (a note, which Python 3.10 has none of)."""
    try:
        return _by_torchs_function(schema, counts)
    except NotImplementedError as error:
        unknown = registry.why_no_single_dim_rule(schema.op) == "decomposition"
        if unknown and sys.version_info >= (3, 11):
            error.add_note(f"shardprop: {registry.way_to_a_rule(schema.op)}")
        raise


def _by_torchs_function(schema: OpSchema, counts: ThreadCounts) -> OutputSharding:
    def decided(terms: Terms) -> OutputSharding:
        with terms.policy.one_decision():
            return _torch.torch_propagate(schema)

    return _terms.under_one(decided, counts)


def _decide_inside(schema: OpSchema, meta: OutputMeta) -> OutputSharding:
    """The decision of a call inside a decomposition, where rows alone do not decide it."""
    policy = _terms.here().policy
    rule = _rule_for(schema)
    if rule is not None:
        try:
            return decide(schema, rule, policy, lambda _: meta)
        except _DECLINED as declined:
            _logger.debug("torch decides %s inside a decomposition: %s", schema.op, declined)
    with policy.one_decision():
        return torch_propagate_knowing(schema, meta)


decomposer = Decomposer(_decide_inside, under=_terms.here)


def _fall_back(
    schema: OpSchema, declined: Exception, terms: Terms, counts: ThreadCounts
) -> OutputSharding:
    """torch's own path, counted by reason; an error under ``strict``."""
    reason = (
        f"malformed rule: {declined}" if isinstance(declined, _core.RuleError) else str(declined)
    )
    logs.fell_back(schema.op, reason)
    if terms.strict and not isinstance(declined, NoStrategyError):
        raise ShardpropError(f"{schema.op}: {reason} (strict: no fallback to torch).") from None
    counts.fell_back(reason, _strided_operands(schema))
    return _by_torchs_function(schema, counts)


def enable(
    *,
    policy: str = "torch",
    topology: TopologyLike | None = None,
    memory_limit: float | None = None,
    create_groups: bool = False,
    output_weight: float = 0.0,
    strict: bool = False,
) -> None:
    """Let the core decide for every DTensor op of this process.

    Clears torch's caches of decisions, so that what follows is decided by the core: every op that a
    thread, autograd's own included, starts after this returns. An op that is under way in another
    thread is finished under what it was decided under. All ranks have to enable the same.

    While torch is half imported (in a hook of the import system) it does nothing, and the log says
    so.

    Args:
        policy: ``"torch"``: the decision is torch's own, bit for bit, where its values are right.
            ``"optimal"``: the decision of least total price under `topology`, and each operand is
            moved by the very plan that was priced.
        topology: For ``"optimal"``, and needed there: the name of a preset (``"h100-nvlink"``), a
            JSON file (docs/cost-models.md), a topology, or a function (collective, mesh dims,
            ranks, wire bytes) -> microseconds.
        memory_limit: For ``"optimal"``: bytes that a rank may hold at once during a step of a plan.
            Where no plan keeps to it, an op or a redistribution raises.
        create_groups: For ``"optimal"``: flatten every set of mesh dims that has no process group
            yet, when a mesh is first met. All ranks of its root mesh have to come by.
        output_weight: For ``"optimal"``: what part of the price of reducing an output's pending
            partials (1.0: all of it; at most 1e6) is counted with a decision that leaves them.
        strict: Raise instead of going to torch's code where the core declines an op that has a
            single-dim rule, and where policy ``"optimal"`` has no answer.

    Raises:
        ShardpropError: an unknown policy or topology, a topology with a fault, or settings of
            policy ``"optimal"`` that are out of range or given with another policy.
    """
    settings = {
        "topology": topology,
        "memory_limit": memory_limit,
        "create_groups": create_groups,
        "output_weight": output_weight,
    }
    made = make_policy(policy, _as_torch, _recorder, strict=strict, **settings)
    _install(Terms(made, strict))


def _install(terms: Terms) -> None:
    global _enabled
    with _terms.changing():
        _terms.change_to(terms)
        install(propagate_sharding)
        _enabled = True
        # Rows that were decided inside a decomposition were decided under a policy.
        decomposer.clear()


def disable() -> None:
    """Give every decision back to torch, and clear its caches of decisions: for all threads, as
    `enable` does."""
    global _enabled
    with _terms.changing():
        _terms.change_to(_not_enabled)
        _torch.uninstall_pricing()
        uninstall()
        _enabled = False
        decomposer.clear()


def is_enabled() -> bool:
    """Does the core decide now?"""
    return _enabled


def current_policy() -> Policy:
    """What decides; policy ``torch`` while shardprop is not enabled."""
    return _terms.current.policy


@contextmanager
def enabled(
    *,
    policy: str = "torch",
    topology: TopologyLike | None = None,
    memory_limit: float | None = None,
    create_groups: bool = False,
    output_weight: float = 0.0,
    strict: bool = False,
) -> Iterator[None]:
    """`enable` for a block, and what was before after it."""
    before, terms_before = _enabled, _terms.current
    enable(
        policy=policy,
        topology=topology,
        memory_limit=memory_limit,
        create_groups=create_groups,
        output_weight=output_weight,
        strict=strict,
    )
    try:
        yield
    finally:
        if before:
            _install(terms_before)
        else:
            disable()


def stats() -> Stats:
    """What decided so far, and why when it was not the core."""
    return _recorder.snapshot(stats_of_maps())


def counters() -> Stats:
    """`stats` without what the caches hold, which takes milliseconds to measure."""
    return _recorder.snapshot({})


def reset_stats() -> None:
    """Start the counters of `stats` again from zero."""
    _recorder.reset()


def clear_caches() -> None:
    """Forget plans, prices and decisions, ours and torch's."""
    clear_maps()
    _terms.current.policy.clear()
    forget_planners()
    decomposer.clear()
    metadata.forget()
    forget_dim_maps()
    _torch.forget_plans()
    _torch.forget_decisions()
