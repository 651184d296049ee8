"""The plan of a redistribution that was seen, made after the fact, and what it costs."""

from __future__ import annotations

from dataclasses import dataclass

from ... import _core
from ..._torch import DTensorSpec, Partial, Placement, Replicate, is_partial, make_spec
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
        if _is_pending_alone(src, dst):
            return Planned(None, "a local step: what is pending is set, nothing is sent", False)
        try:
            if not isinstance(policy, OptimalPolicy):
                return self._torchs(src, dst)
            steps = policy.planner.steps(src, dst)
            if steps is not None:
                return _found(Plan(src, dst, tuple(steps), "optimal"))
            return Planned(None, "no plan of policy 'optimal' reaches the target: torch moved it")
        except _core.Unsupported as reason:
            return Planned(None, f"the core does not model it: {reason}")
        except Exception as error:  # a process group that is gone, sizes that are no numbers, ...
            return Planned(None, str(error).partition("\n")[0] or type(error).__name__)

    def _torchs(self, src: DTensorSpec, dst: DTensorSpec) -> Planned:
        """torch's plan as a fresh planner of torch would make it."""
        merged = torch_planner().merged(src, dst)
        # To set a mask is a local step without a price, and leaves the tensor as long as it was.
        unmasked = tuple(
            Replicate() if isinstance(a, Replicate) and _is_mask(b) else b
            for a, b in zip(src.placements, dst.placements, strict=True)
        )
        if unmasked != dst.placements:
            dst = make_spec(dst.mesh, unmasked, dst.tensor_meta)
            merged = [step for step in merged if not _is_mask(step[1])]
        try:
            steps = self._as_torch.priced(src, dst, merged)
        except ShardpropError as error:
            return Planned(None, f"torch's plan has no price: {error}")
        return _found(Plan(src, dst, tuple(steps), "torch"))


def _found(plan: Plan) -> Planned:
    return Planned(plan, sends=plan.collectives > 0)


def _is_pending_alone(src: DTensorSpec, dst: DTensorSpec) -> bool:
    """Does nothing but become pending what was replicated, in a way that has no price: a mask?"""
    changes = [(a, b) for a, b in zip(src.placements, dst.placements, strict=False) if a != b]
    return bool(changes) and all(isinstance(a, Replicate) and _is_mask(b) for a, b in changes)


def _is_mask(placement: Placement) -> bool:
    """A partial of torch's own that is more than one: of an embedding whose rows are sharded."""
    return is_partial(placement) and type(placement) is not Partial


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
