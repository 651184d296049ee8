"""Reads a topology from JSON values and checks everything that needs no mesh."""

from __future__ import annotations

from ...support.json_path import Spot
from ..cost_model import COLLECTIVES
from .compute import ALWAYS_LISTED, Compute, is_dtype_name
from .links import Link, Measured, PerCollective
from .nodes import Between, Node
from .topology import Group, Memory, Topology

__all__ = ["topology_at"]

_KEYS = (
    "name",
    "sources",
    "launch_us",
    "memory",
    "compute",
    "all_to_all_gathers",
    "node",
    "groups",
)
_LINK = ("latency_us", "bandwidth_gb_s")
_ANY_LINK = ("latency_us", "fixed_us", "bandwidth_gb_s")


def topology_at(spot: Spot, name: str, origin: str = "") -> Topology:
    """The topology that a document holds.

    Args:
        spot: The root of the document.
        name: What it is called if the document does not say so.
        origin: The file.

    Raises:
        ShardpropError: with the path to the first fault.
    """
    spot.check_keys(_KEYS)
    node, groups = spot.member("node"), spot.member("groups")
    if node.is_missing() and groups.is_missing():
        raise spot.fault("a node part or groups", "neither")
    own_name, sources = spot.member("name"), spot.member("sources")
    gathers, compute = spot.member("all_to_all_gathers"), spot.member("compute")
    return Topology(
        name=name if own_name.is_missing() else own_name.text(),
        launch_us=spot.member("launch_us").not_negative(),
        memory=_memory(spot.member("memory")),
        node=None if node.is_missing() else _node(node),
        groups=() if groups.is_missing() else _groups(groups),
        all_to_all_gathers=False if gathers.is_missing() else gathers.flag(),
        compute=None if compute.is_missing() else _compute(compute),
        sources=() if sources.is_missing() else tuple(item.text() for item in sources.items()),
        origin=origin,
    )


def _memory(spot: Spot) -> Memory:
    spot.check_keys(("kernel_us", "bandwidth_gb_s"))
    return Memory(spot.member("kernel_us").not_negative(), spot.member("bandwidth_gb_s").positive())


def _compute(spot: Spot) -> Compute:
    spot.check_keys(("peak_tflops", "efficiency"))
    peaks, efficiency = spot.member("peak_tflops"), spot.member("efficiency")
    names = peaks.keys()
    for name in names:
        if not is_dtype_name(name):
            raise peaks.fault("names of torch dtypes such as float32 and bfloat16", repr(name))
    if ALWAYS_LISTED not in names:
        raise peaks.fault(f"an entry for {ALWAYS_LISTED}, which stands for types without", "none")
    return Compute(
        {name: peaks.member(name).positive() for name in names},
        1.0 if efficiency.is_missing() else efficiency.share(),
    )


def _node(spot: Spot) -> Node:
    spot.check_keys(("within", "between"))
    within, between = spot.member("within"), spot.member("between")
    within.check_keys((*_LINK, *COLLECTIVES))
    return Node(_hop_links(within), None if between.is_missing() else _between(between))


def _between(spot: Spot) -> Between:
    spot.check_keys(("devices", *_LINK, *COLLECTIVES))
    return Between(spot.member("devices").count(1), _hop_links(spot))


def _groups(spot: Spot) -> tuple[Group, ...]:
    groups: list[Group] = []
    for item in spot.items():
        item.check_keys(("mesh_dims", *_ANY_LINK, *COLLECTIVES))
        dims = _mesh_dims(item.member("mesh_dims"))
        for number, other in enumerate(groups):
            if set(other.mesh_dims) == set(dims):
                raise item.member("mesh_dims").fault(
                    "a group that no other entry has", f"that of groups[{number}]"
                )
        groups.append(Group(dims, _any_links(item)))
    return tuple(groups)


def _mesh_dims(spot: Spot) -> tuple[int | str, ...]:
    dims: list[int | str] = []
    for item in spot.items():
        dim = item.text() if isinstance(item.value, str) else item.count(0)
        if dim in dims:
            raise item.fault("each mesh dim once", f"{dim!r} again")
        dims.append(dim)
    if not dims:
        raise spot.fault("at least one mesh dim", "none")
    return tuple(dims)


# --- links ------------------------------------------------------------------------------------

# An object has a link for all collectives, or links for some, or both: then these override it.


def _hop_links(spot: Spot) -> PerCollective[Link]:
    usual = _link(spot) if _has_link(spot, _LINK) else None

    def read(collective: str) -> Link:
        own = spot.member(collective)
        if own.is_missing() and usual is not None:
            return usual
        own.check_keys(_LINK)
        return _link(own)

    return PerCollective.each(read)


def _any_links(spot: Spot) -> PerCollective[Link | Measured]:
    usual = _any_link(spot) if _has_link(spot, _ANY_LINK) else None

    def read(collective: str) -> Link | Measured:
        own = spot.member(collective)
        if own.is_missing() and usual is not None:
            return usual
        own.check_keys(_ANY_LINK)
        return _any_link(own)

    return PerCollective.each(read)


def _has_link(spot: Spot, keys: tuple[str, ...]) -> bool:
    return any(not spot.member(key).is_missing() for key in keys)


def _link(spot: Spot) -> Link:
    return Link(spot.member("latency_us").not_negative(), spot.member("bandwidth_gb_s").positive())


def _any_link(spot: Spot) -> Link | Measured:
    latency, fixed = spot.member("latency_us"), spot.member("fixed_us")
    if fixed.is_missing():
        return _link(spot)
    if not latency.is_missing():
        raise spot.fault("latency_us or fixed_us", "both")
    return Measured(fixed.not_negative(), spot.member("bandwidth_gb_s").positive())
