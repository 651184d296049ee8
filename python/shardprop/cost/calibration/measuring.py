"""Measures the collectives of a mesh and makes a topology of them."""

from __future__ import annotations

import itertools
import platform
from collections.abc import Callable, Sequence

import torch
import torch.distributed as dist

from ... import _torch
from ..._torch import DeviceMesh
from ...errors import ShardpropError
from ..cost_model import COLLECTIVES
from ..topology import Compute, Group, Link, Measured, Memory, PerCollective, Topology
from ..topology.groups import groups_of
from .fit import Fit, Point, fit_line
from .result import Calibration, Fitted
from .settings import Settings
from .timing import medians_us
from .workloads import (
    PRODUCT_DTYPES,
    MeasuredGroup,
    Workload,
    copy_workload,
    product_workload,
    workload,
)

__all__ = ["calibrate"]

# The file wants a bandwidth, and times that do not grow with the bytes have none: call it 1 PB/s.
_LEAST_US_PER_BYTE = 1e-9

_DEFAULTS = Settings()


def calibrate(
    mesh: DeviceMesh,
    settings: Settings = _DEFAULTS,
    begin: Callable[[str], None] = lambda _: None,
) -> Calibration:
    """Measure every mesh dim and every flattened group of a mesh, and fit.

    Every rank of the mesh must call it, at the same time; all get the same answer.

    Args:
        mesh: With real process groups. Groups of several mesh dims are measured where the program
            has flattened them.
        settings: What sizes, how often.
        begin: Called before each round, warmups too, with its name.

    Raises:
        ShardpropError: the mesh has no mesh dim of size 2 and more, or its processes are not there.
    """
    each = [*itertools.product(_groups(mesh), COLLECTIVES)]
    calls = [[copy_workload(mesh.device_type, size) for size in settings.sizes]]
    calls += [[workload(name, group, size) for size in settings.sizes] for group, name in each]
    products = _products(mesh.device_type)
    calls.append([*products.values()])
    times = iter(medians_us(mesh, [*itertools.chain(*calls)], settings, begin))
    copies, *collectives, multiplied = [[(call, next(times)) for call in one] for one in calls]
    copy = _fit(copies)
    fitted = [Fitted("copy", (), 1, copy)]
    for (group, name), points in zip(each, collectives, strict=True):
        fitted.append(Fitted(name, group.mesh_dims, group.ranks, _fit(points, copy)))
    return Calibration(_topology(mesh, fitted, _compute([*products], multiplied)), tuple(fitted))


def _groups(mesh: DeviceMesh) -> list[MeasuredGroup]:
    """Each mesh dim of size 2 and more, then the flattened groups.

    Raises:
        ShardpropError: there is none, or its processes are not there.
    """
    groups = [
        MeasuredGroup(dims, mesh, dims[0])
        if len(dims) == 1
        else MeasuredGroup(dims, _torch.flatten_dims(mesh, dims), 0)
        for dims in groups_of(mesh, _torch.flattened_groups(mesh))
    ]
    if not groups:
        raise ShardpropError(
            f"Expected a mesh dim of size 2 and more, got a mesh of {tuple(mesh.shape)}."
        )
    if any(dist.get_backend(group.mesh.get_group(group.mesh_dim)) == "fake" for group in groups):
        raise ShardpropError("Expected real process groups, got the fake backend.")
    return groups


def _fit(measured: Sequence[tuple[Workload, float]], copy: Fit | None = None) -> Fit:
    """The line of calls of several sizes; over their memory traffic if it is no collective.

    Local kernels that come with a collective are priced on their own, so what they take by the
    line of copies is not the collective's.
    """
    points = []
    for call, us in measured:
        if copy is None:
            points.append(Point(call.traffic, us))
        else:
            local = call.kernels * copy.fixed_us + call.traffic * copy.us_per_byte
            points.append(Point(call.wire_bytes, us, local))
    return fit_line(points)


def _products(device: str) -> dict[torch.dtype, Workload]:
    """The products that a device has; the devices of a mesh are alike."""
    found = {}
    for dtype in PRODUCT_DTYPES:
        try:
            found[dtype] = product_workload(device, dtype)
        except RuntimeError:
            if dtype is torch.float32:
                raise
    return found


def _compute(dtypes: Sequence[torch.dtype], measured: Sequence[tuple[Workload, float]]) -> Compute:
    """The rates of products; what is measured is what is reached."""
    return Compute(
        {
            str(dtype).removeprefix("torch."): _rounded(1e-6 * product.flops / us)
            for dtype, (product, us) in zip(dtypes, measured, strict=True)
        }
    )


def _topology(mesh: DeviceMesh, fitted: list[Fitted], compute: Compute) -> Topology:
    copy, *collectives = fitted
    names = mesh.mesh_dim_names
    groups = []
    for dims, ones in itertools.groupby(collectives, lambda one: one.mesh_dims):
        links: dict[str, Link | Measured] = {
            one.what: Measured(_rounded(one.fit.fixed_us), _gb_s(one.fit)) for one in ones
        }
        called = tuple(names[dim] if names else dim for dim in dims)
        groups.append(Group(called, PerCollective(**links)))
    backend = dist.get_backend(mesh.get_group(collectives[0].mesh_dims[0]))
    shape = "x".join(map(str, mesh.shape))
    return Topology(
        name=f"{backend} {shape} on {platform.node()}",
        # No collective takes less; what flattened groups that were not measured are derived from.
        launch_us=min(_rounded(one.fit.fixed_us) for one in collectives),
        memory=Memory(_rounded(copy.fit.fixed_us), _gb_s(copy.fit)),
        groups=tuple(groups),
        all_to_all_gathers=mesh.device_type == "cpu",
        sources=(
            f"shardprop calibrate, torch {torch.__version__}, {backend}, mesh {shape}, "
            f"{platform.machine()} {platform.system()}",
        ),
        compute=compute,
    )


def _gb_s(fit: Fit) -> float:
    return _rounded(1e-3 / max(fit.us_per_byte, _LEAST_US_PER_BYTE))


def _rounded(value: float) -> float:
    """To digits that people can read; a fit is never that exact."""
    return float(f"{value:.5g}")
