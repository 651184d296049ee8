"""A topology as JSON values, the inverse of schema.py."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import TYPE_CHECKING, TypeVar

from ..cost_model import COLLECTIVES
from .compute import Compute
from .links import Link, Measured, PerCollective
from .nccl import Machine
from .nodes import Node

if TYPE_CHECKING:
    from .topology import Topology

__all__ = ["json_values"]

AnyLink = TypeVar("AnyLink", Link, Measured, Link | Measured)


def json_values(topology: Topology) -> dict[str, object]:
    """What `schema.TopologyFile` reads; parts that say nothing are left out."""
    values: dict[str, object] = {"name": topology.name}
    if topology.sources:
        values["sources"] = list(topology.sources)
    values["launch_us"] = topology.launch_us
    values["memory"] = asdict(topology.memory)
    if topology.compute is not None:
        values["compute"] = _compute(topology.compute)
    if topology.all_to_all_gathers:
        values["all_to_all_gathers"] = True
    if topology.node is not None:
        values["node"] = _node(topology.node)
    if topology.groups:
        values["groups"] = [
            {"mesh_dims": list(group.mesh_dims), **_links(group.links)} for group in topology.groups
        ]
    return values


def _compute(compute: Compute) -> dict[str, object]:
    values: dict[str, object] = {"peak_tflops": compute.peak_tflops}
    if isinstance(compute.peak_tflops, Mapping):
        values["peak_tflops"] = dict(compute.peak_tflops)
    if compute.efficiency != 1:
        values["efficiency"] = compute.efficiency
    return values


def _node(node: Node) -> dict[str, object]:
    values: dict[str, object] = {"within": _links(node.within)}
    if node.between is not None:
        values["between"] = {"devices": node.between.devices, **_links(node.between.links)}
    if node.nccl is not None:
        values["nccl"] = _machine(node.nccl)
    return values


def _machine(machine: Machine) -> dict[str, object]:
    """What is not as it is where nothing is said."""
    values = {
        field.name: (getattr(machine, field.name), field.default) for field in fields(machine)
    }
    return {name: value for name, (value, default) in values.items() if value != default}


def _links(links: PerCollective[AnyLink]) -> dict[str, object]:
    """One link where all are the same."""
    if links.all_equal():
        return asdict(links.all_gather)
    return {collective: asdict(links.of(collective)) for collective in COLLECTIVES}
