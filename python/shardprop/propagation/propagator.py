"""The hook into DTensor: what asks the core, and what goes to torch's own code instead."""

from __future__ import annotations

import sys
from collections.abc import Hashable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING

from .. import _torch, clients, metadata
from .._torch import DTensorSpec, OpSchema, OutputSharding, has_strided
from ..errors import ShardpropError
from ..model.question import DECLINED
from ..redistribution.executor import uninstall as uninstall_executor
from ..redistribution.torch_plans import TorchPlanner
from ..rules.families.views import forget_dim_maps
from ..rules.rule import Origin
from ..rules.torch_registry import TorchsWay, has_stand_in
from ..support.cache import clear_maps, stats_of_maps
from ..support.folder import without_own_frames
from ..support.stats import Recorder, Stats, ThreadCounts
from . import logs
from .decision import decide, decide_by_torch, left_to_torch, read_out
from .handler_faults import fault_of_handler
from .hook import install, uninstall
from .observers import is_watched, observed
from .policy import Policy, TorchPolicy
from .policy_choice import HORIZON, forget_planners, make_policy
from .reading import warn_of_own_parts
from .route import Route, Who, decomposer, route
from .shard_orders import in_one_order
from .terms import Terms, TermsOfProcess
from .warning import warn_of_stand_in

if TYPE_CHECKING:
    from .output_prices import KnownConsumers
    from .policy_settings import TopologyLike

__all__ = [
    "clear_caches",
    "counters",
    "current_policy",
    "current_terms",
    "disable",
    "enable",
    "enabled",
    "is_enabled",
    "propagate_aside",
    "propagate_sharding",
    "reinstall",
    "reset_stats",
    "stats",
    "take_plan_correction",
    "torch_planner",
    "uncounted",
]

_recorder = Recorder()
# With torch's faults put right, and without.
_planners = {yes: TorchPlanner(_recorder, corrects=yes) for yes in (True, False)}
_as_torch = {yes: TorchPolicy(_planners[yes], _recorder, corrects=yes) for yes in (True, False)}
_not_enabled = Terms(_as_torch[True])
_terms = TermsOfProcess(_recorder, _not_enabled)
_enabled = False
_is_tested = False
# What it imports, programs that register no rules do without.
_WITHOUT_RULE = "shardprop.rules.without_rule"


def _strided_operands(schema: OpSchema) -> int:
    """Operands with strided shards, for the statistics."""
    strided = 0
    for arg in schema.args_schema:
        if isinstance(arg, DTensorSpec):
            strided += has_strided(arg.placements)
        elif isinstance(arg, (list, tuple)):
            strided += sum(has_strided(x.placements) for x in arg if isinstance(x, DTensorSpec))
    return strided


def propagate_sharding(schema: OpSchema) -> OutputSharding:
    """What torch's dispatcher calls while shardprop is enabled; the validator, at any time.

    Raises:
        Exception: torch refuses the op, in torch's words.
        ShardpropError: what torch has no words for, and under ``strict`` what the core declines.
    """
    _torch.bound_decisions()
    try:
        answer = observed(schema, _propagate, _recorder) if is_watched() else _propagate(schema)
        _torch.watch_moved_views(schema, answer)
        return answer
    except Exception as error:
        error.__traceback__ = without_own_frames(error.__traceback__)
        if sys.version_info < (3, 11):  # a bare raise takes the traceback that was caught
            raise error.with_traceback(error.__traceback__) from error.__cause__
        raise


def propagate_aside(schema: OpSchema) -> OutputSharding:
    """The same decision, counted nowhere and told to nobody; raises what `propagate_sharding`
    does."""
    with _recorder.aside():
        return _propagate(schema)


def uncounted() -> AbstractContextManager[None]:
    """Decisions of this thread in the block are counted nowhere."""
    return _recorder.aside()


def _propagate(schema: OpSchema) -> OutputSharding:
    with _recorder.mine() as counts:
        terms = counts.terms
        if terms is not _terms.current:
            terms = _terms.of_decision(counts)
        policy = terms.policy
        refused = terms.refusals.of(schema)
        if refused is not None:
            return _decide_by_torch(schema, refused, terms, counts)
        found = route(schema, policy)
        if found.who is Who.READ_OUT:
            answer = read_out(schema, policy)
            if policy.corrects:
                warn_of_own_parts(schema)
            counts.decided(0)
            return answer
        if found.rule is None:
            return _decide_by_torch(schema, found, terms, counts)
        try:
            answer = decide(found.reordered or schema, found.rule, policy)
            if found.reordered is not None:
                answer = in_one_order(schema, answer)
        except DECLINED as error:
            declined = error.with_traceback(None)
        except ShardpropError:
            raise
        except Exception as error:
            if found.rule.origin is not Origin.REGISTERED:  # of the op: torch alone raises it, too
                counts.refused_by_torch(f"{type(error).__name__} in the op or its rule")
            raise
        else:
            counts.decided(_strided_operands(schema))
            if found.correction is not None:
                counts.corrected(found.correction.name)
            if found.rule.stands_in:
                _tell_of_stand_in(schema, counts)
            return answer
        # No longer in the handler: what is raised from here on has no error of ours before it.
        left = left_to_torch(schema, found, declined, terms.strict)
        logs.fell_back(schema.op, left.reason)
        return _decide_by_torch(schema, left, terms, counts)


def _decide_by_torch(
    schema: OpSchema, found: Route, terms: Terms, counts: ThreadCounts
) -> OutputSharding:
    """torch's own path, counted."""

    def decided(terms: Terms) -> OutputSharding:
        return decide_by_torch(schema, found, terms.policy)

    try:
        answer = _terms.under_one(decided, counts)
    except Exception:
        counts.refused_by_torch(found.reason)
        # The rows of a decomposition depend on more rules than the op's own, and are held.
        if found.way is not TorchsWay.DECOMPOSITION:
            terms.refusals.remember(schema, found)
        raise
    terms.refusals.forget(schema)  # torch knows a way by now, and the core may know one
    if has_stand_in(schema.op):
        counts.decided(_strided_operands(schema))
        _tell_of_stand_in(schema, counts)
    elif found.rule is None:
        counts.left_to_torch(found.reason, _strided_operands(schema))
    else:
        counts.fell_back(found.reason, _strided_operands(schema))
    return answer


def _tell_of_stand_in(schema: OpSchema, counts: ThreadCounts) -> None:
    counts.ran_without_rule(str(schema.op))
    warn_of_stand_in(schema.op)


@contextmanager
def _noted(fault: str) -> Iterator[None]:
    """Decisions of this thread in the block are part of what a handler puts right."""
    counts = _recorder.mine()
    counts.handler_corrects(fault)
    try:
        yield
    finally:
        counts.handler_correction = None


def take_plan_correction() -> str | None:
    """The fault of torch's that plans of this thread have put right since the last call of this, by
    its name; of several the latest."""
    counts = _recorder.mine()
    fault, counts.plan_correction = counts.plan_correction, None
    return fault


def enable(
    *,
    policy: str = "torch",
    topology: TopologyLike | None = None,
    memory_limit: float | None = None,
    create_groups: bool = False,
    output_weight: float = 0.0,
    rules: str = "complete",
    consumers: KnownConsumers | None = None,
    horizon: int = HORIZON,
    strict: bool = False,
    corrections: bool = True,
    executor: bool = True,
    without_rule: str | None = None,
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
            yet, when a mesh is first met. Collective: every rank of its root mesh must do so.
        output_weight: For ``"optimal"``: what part of the price of reducing an output's pending
            partials (1.0: all of it; at most 1e6) is counted with a decision that leaves them.
        rules: For ``"optimal"``: ``"complete"`` takes rows that torch's rules lack from the rule
            book (docs/rule-book.md); ``"torch"`` does not.
        consumers: For ``"optimal"``: what became of outputs in a step that `watch_consumers`
            watched. A decision then counts what its outputs cost at their consumers with what its
            operands cost. All ranks have to have watched the same.
        horizon: With `consumers`: how many ops ahead that looks, at most 64.
        strict: Raise instead of going to torch's code where the core declines an op that has a
            single-dim rule, and where policy ``"optimal"`` has no answer.
        corrections: For ``"torch"``: decide rightly where torch's decision would silently give
            wrong values, and ops that torch refuses where an answer is provably right
            (docs/corrections.md). False: torch bit for bit, its faults and refusals too.
        executor: Carry out redistributions that were carried out before, and wrap local tensors
            (``from_local``, what ops return), by what was found out then: the same collectives and
            bits, in less time.
        without_rule: ``"replicate"``: an op that nobody has a rule for, which torch refuses, runs
            on replicated operands, with a warning once for each op and a count in `stats`; but for
            those that write into operands or return views of them, take lists, draw, or make
            results of sizes that are not known beforehand. None: it is refused.

    Raises:
        ShardpropError: an unknown policy or topology, a topology with a fault, or settings of
            one policy that are out of range or given with the other; a torch that is not known
            (later than 2.15), and has other private functions or decides otherwise.
    """
    if without_rule not in (None, "replicate"):
        raise ShardpropError(f"without_rule: Expected 'replicate' or None, got {without_rule!r}.")
    settings = {
        "topology": topology,
        "memory_limit": memory_limit,
        "create_groups": create_groups,
        "output_weight": output_weight,
        "rules": rules,
        "consumers": consumers,
        "horizon": horizon,
    }
    made = make_policy(
        policy, _as_torch, _recorder, strict=strict, corrections=corrections, **settings
    )
    if not (_torch.is_known() or _is_tested):
        _test_this_torch()
    _install(Terms(made, strict, executor=executor, without_rule=without_rule))


def _let_run_replicated(yes: bool) -> None:
    """Have ops without a rule run on replicated operands, or no longer."""
    if yes or _WITHOUT_RULE in sys.modules:
        from ..rules.without_rule import let_run_replicated

        let_run_replicated(yes)


def _test_this_torch() -> None:
    """Compare decisions with those of a torch that is not known.

    Raises:
        ShardpropError: they differ.
    """
    global _is_tested
    from .self_test import check_decisions

    before, terms_before = _enabled, _terms.current
    _install(Terms(_as_torch[False]))
    try:
        check_decisions(propagate_aside)
    finally:
        if before:
            _install(terms_before)
        else:
            disable()
    _is_tested = True


def _install(terms: Terms) -> None:
    global _enabled
    with _terms.changing():
        uninstall_executor()
        _terms.change_to(terms)
        if terms.executor:
            terms.policy.executor.install(over=terms.policy.has_own_plans)
        if terms.policy.corrects:
            _torch.put_right(_noted, fault_of_handler, _recorder.plan_corrected)
        else:
            _torch.put_back()
        _let_run_replicated(terms.without_rule is not None)
        install(propagate_sharding)
        clients.install()
        _enabled = True
        # Rows that were decided inside a decomposition were decided under a policy.
        decomposer.clear()


def reinstall() -> None:
    """Put all that belongs to the terms in force in torch's places again."""
    _install(_terms.current)


def disable() -> None:
    """Give every decision back to torch, and clear its caches of decisions: for all threads, as
    `enable` does."""
    global _enabled
    with _terms.changing():
        uninstall_executor()
        _terms.change_to(_not_enabled)
        _torch.uninstall_pricing()
        _torch.put_back()
        uninstall()
        _let_run_replicated(False)
        clients.uninstall()
        _enabled = False
        decomposer.clear()


def is_enabled() -> bool:
    """Does the core decide now?"""
    return _enabled


def current_terms() -> Terms:
    """What decides, and how strictly."""
    return _terms.current


def torch_planner() -> TorchPlanner:
    """torch's prices and plans: its faults are put right, unless the policy leaves them in."""
    return _planners[_terms.current.policy.corrects]


def current_policy() -> Policy:
    """What decides; policy ``torch`` while shardprop is not enabled."""
    return _terms.current.policy


def decided_under() -> Hashable:
    """What decides now; the same object, or equal, as long as that decides alike. Rules that are
    registered are not in it: with each of them all that is held of decisions is forgotten."""
    return _enabled, _terms.current.policy


@contextmanager
def enabled(
    *,
    policy: str = "torch",
    topology: TopologyLike | None = None,
    memory_limit: float | None = None,
    create_groups: bool = False,
    output_weight: float = 0.0,
    rules: str = "complete",
    consumers: KnownConsumers | None = None,
    horizon: int = HORIZON,
    strict: bool = False,
    corrections: bool = True,
    executor: bool = True,
    without_rule: str | None = None,
) -> Iterator[None]:
    """`enable` for a block, and what was before after it."""
    before, terms_before = _enabled, _terms.current
    enable(
        policy=policy,
        topology=topology,
        memory_limit=memory_limit,
        create_groups=create_groups,
        output_weight=output_weight,
        rules=rules,
        consumers=consumers,
        horizon=horizon,
        strict=strict,
        corrections=corrections,
        executor=executor,
        without_rule=without_rule,
    )
    try:
        yield
    finally:
        if before:
            _install(terms_before)
        else:
            disable()


def stats() -> Stats:
    """What decided so far, and why when it was not the core.

    To measure what the caches hold takes tens of milliseconds: once a step is too often.
    """
    return _recorder.snapshot(stats_of_maps())


def counters() -> Stats:
    """`stats` without what the caches hold."""
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
