"""torch's prices and plans of redistributions, and how they are replaced."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch.distributed.tensor import _collective_utils, _redistribute, _utils
from torch.distributed.tensor import _sharding_prop as _prop
from torch.distributed.tensor._ops import utils as _ops_utils

from .compiling import hide_from_dynamo
from .types import DeviceMesh, DTensorSpec, Placement


def local_gigabytes(spec: DTensorSpec) -> Any:
    """What a rank holds of a tensor, as torch counts it: an expression where sizes are."""
    return _collective_utils.spec_to_bytes(spec) / spec.num_shards / 1024 / 1024 / 1024


def transition_cost(
    before: Placement, after: Placement, mesh: DeviceMesh, mesh_dim: int, gigabytes: Any
) -> tuple[Any, Any]:
    """Microseconds of one step of a plan, and the gigabytes after it."""
    topology = _collective_utils.MeshTopoInfo.build_from_mesh(mesh)
    return _collective_utils._compute_placement_transition_cost(
        before, after, topology, mesh_dim, gigabytes
    )


def index_of_least_cost(costs: list[Any]) -> int:
    """torch's choice among prices that may be expressions, with its guards."""
    return _prop._select_min_redistribute_cost(costs, [])


def mesh_topology(mesh: DeviceMesh) -> Any:
    """torch's prices of the links of a mesh."""
    return _collective_utils.MeshTopoInfo.build_from_mesh(mesh)


torch_redistribute_cost = _collective_utils.redistribute_cost
torch_gen_transform_infos = _redistribute._gen_transform_infos
torch_gen_transform_infos_non_cached = _redistribute._gen_transform_infos_non_cached
TransformInfo = _redistribute._TransformInfo


class UnmergedTransformInfo(TransformInfo):
    """A step that torch does not merge with its neighbours on a flattened mesh."""

    __slots__ = ()

    def _comm_type_key(self) -> None:
        return None


def install_plans(plan: Callable[..., Any], plan_non_cached: Callable[..., Any]) -> None:
    """Replace torch's plan of a redistribution."""
    for function in (plan, plan_non_cached):
        hide_from_dynamo(function)
    _set_plans(plan, plan_non_cached)


def install_cost(cost: Callable[..., float], communication: Callable[..., float]) -> None:
    """Replace torch's price of a redistribution.

    `communication` answers where torch asks whether anything is sent at all
    (``ExplicitRedistributionContext``).
    """
    for function in (cost, communication):
        hide_from_dynamo(function)
    for module in (_collective_utils, _ops_utils):
        module.redistribute_cost = cost  # type: ignore[attr-defined]
    _utils.redistribute_cost = communication  # type: ignore[attr-defined]


def uninstall_pricing() -> None:
    """Undo `install_plans` and `install_cost`."""
    for module in (_collective_utils, _utils, _ops_utils):
        module.redistribute_cost = torch_redistribute_cost  # type: ignore[attr-defined]
    _set_plans(torch_gen_transform_infos, torch_gen_transform_infos_non_cached)


def _set_plans(plan: Any, plan_non_cached: Any) -> None:
    _redistribute._gen_transform_infos = plan
    _redistribute._gen_transform_infos_non_cached = plan_non_cached
