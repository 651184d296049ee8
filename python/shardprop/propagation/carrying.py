"""Prices and plans each redistribution under the policy that decided its op.

A thread that is still inside an op when the policy changes finishes it under the old one: the
decision may want a move that no other policy can carry out. torch has one place for each of these
functions, which all threads share, so what is put there asks which policy the thread is under.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from .. import _torch
from .._torch import DeviceMesh, DTensorSpec
from ..errors import ShardpropError
from ..model.plan_steps import Step
from ..redistribution.hook import redistribute_with
from ..support.stats import Recorder

if TYPE_CHECKING:
    from .policy import Policy

__all__ = ["decides_for_thread", "install_carrier", "install_prices"]


def install_prices(policy: Policy, recorder: Recorder) -> None:
    """Have redistributions priced by `policy`, save in ops that began before."""

    def cost(source: DTensorSpec, target: DTensorSpec) -> float:
        decides = _policy_of_thread(policy, recorder)
        price = _torch.torch_redistribute_cost if decides is None else decides.cost
        return price(source, target)

    def communication(source: DTensorSpec, target: DTensorSpec) -> float:
        decides = _policy_of_thread(policy, recorder)
        price = _torch.torch_redistribute_cost if decides is None else decides.communication
        return price(source, target)

    _torch.install_cost(cost, communication)


def install_carrier(
    policy: Policy, recorder: Recorder, between_ops: Callable[[DeviceMesh], None] | None = None
) -> None:
    """Have redistributions carried out by the plans of `policy`, save in ops that began before.

    torch's own function is put back where neither `policy` nor any thread needs another. A thread
    that does may never run an op again, so that is looked at with each change only.
    """
    if not policy.has_own_plans and not any(
        terms.policy.has_own_plans for terms in recorder.terms_of_threads()
    ):
        if _torch.installed_redistribute() is not _torch.torch_redistribute:
            _torch.uninstall_redistribute()
        return

    def plan_of(source: DTensorSpec, target: DTensorSpec) -> Sequence[Step] | None:
        decides = _policy_of_thread(policy, recorder)
        if decides is policy:
            return policy.steps(source, target)
        try:
            return None if decides is None else decides.steps(source, target)
        except ShardpropError:
            # It has become torch's decision meanwhile, which may be past a memory limit.
            return None

    _torch.install_redistribute(redistribute_with(plan_of, between_ops))


def decides_for_thread(policy: Policy, recorder: Recorder) -> Callable[[], bool]:
    """What says whether the thread that asks is under `policy`, which is installed."""
    # Not kept alive: what it is for belongs to the policy.
    installed = weakref.ref(policy)

    def decides() -> bool:
        now = installed()
        return now is not None and _policy_of_thread(now, recorder) is now

    return decides


def _policy_of_thread(installed: Policy, recorder: Recorder) -> Policy | None:
    """The policy that is installed; in an op that this thread began before that, the one which
    decided it. None: torch alone."""
    terms = recorder.mine().terms
    if (terms is not None and terms.policy is installed) or not _torch.is_in_op():
        return installed
    return None if terms is None else terms.policy
