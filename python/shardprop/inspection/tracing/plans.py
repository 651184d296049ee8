"""The plan of a redistribution that was seen, made after the fact, and what it costs."""

from __future__ import annotations

from dataclasses import dataclass

from ... import _core
from ..._torch import DTensorSpec
from ...errors import ShardpropError
from ...propagation.optimal_policy import OptimalPolicy
from ...propagation.policy import Policy
from ...propagation.policy_settings import TopologyLike, planner_for_plans
from ...propagation.propagator import torch_planner
from ...redistribution.plan import Plan

__all__ = ["Planned", "Plans", "spec_identity"]


@dataclass(frozen=True)
class Planned:
    """A plan, or why there is none to show.

    Attributes:
        plan: The plan with its prices.
        note: Why there is none; empty where there is one.
        sends: Something is sent, or it is not known whether.
    """

    plan: Plan | None
    note: str = ""
    sends: bool = True


class Plans:
    """Plans by what they are for; each is made once.

    Args:
        topology: What torch's plans are priced under; None: torch's own ring model.
    """

    def __init__(self, topology: TopologyLike | None = None) -> None:
        self._as_torch = planner_for_plans("torch" if topology is None else topology, None)
        self._known: dict[object, Planned] = {}

    def of(self, policy: Policy, src: DTensorSpec, dst: DTensorSpec) -> Planned:
        """The plan from `src` to `dst` as `policy` has it carried out."""
        key = (id(policy), spec_identity(src), spec_identity(dst))
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = self._make(policy, src, dst)
        return known

    def _make(self, policy: Policy, src: DTensorSpec, dst: DTensorSpec) -> Planned:
        try:
            if not isinstance(policy, OptimalPolicy):
                return self._torchs(src, dst)
            steps = policy.planner.steps(src, dst)
            if steps is not None:
                return _found(Plan(src, dst, tuple(steps), "optimal", policy.planner))
            return Planned(None, "no plan of policy 'optimal' reaches the target: torch moved it")
        except _core.Unsupported as reason:
            return Planned(None, f"the core does not model it: {reason}")
        except Exception as error:  # a process group that is gone, sizes that are no numbers, ...
            return Planned(None, str(error).partition("\n")[0] or type(error).__name__)

    def _torchs(self, src: DTensorSpec, dst: DTensorSpec) -> Planned:
        """torch's plan as a fresh planner of torch would make it."""
        merged = torch_planner().merged(src, dst)
        try:
            steps = self._as_torch.priced(src, dst, merged)
        except ShardpropError as error:
            return Planned(None, f"torch's plan has no price: {error}")
        return _found(Plan(src, dst, tuple(steps), "torch"))


def _found(plan: Plan) -> Planned:
    return Planned(plan, sends=plan.collectives > 0)


def spec_identity(spec: DTensorSpec) -> tuple[object, ...]:
    """What tells two specs apart, in values that hash, whatever sizes and placements are."""
    meta = spec.tensor_meta
    return (
        id(spec.mesh),
        tuple(map(str, spec.placements)),
        None if meta is None else (tuple(map(str, meta.shape)), str(meta.dtype)),
        str(spec.shard_order),
        spec.use_strided_shard_as_shard_order,
    )
