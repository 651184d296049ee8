"""What a topology file holds, and the topology that it says; all that needs no mesh is checked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Generic, TypeVar, get_args

from pydantic import AfterValidator, model_validator

from ...support.json_document import (
    Count,
    Expected,
    Flag,
    Index,
    NotNegative,
    Part,
    Positive,
    Share,
    Text,
    fault,
)
from ..cost_model import COLLECTIVES
from .compute import ALWAYS_LISTED, Compute, is_dtype_name
from .links import Link, Measured, PerCollective
from .nccl import Architecture, Cpu, LinkKind, Machine
from .nodes import Between, Node
from .topology import Group, Memory, Topology

__all__ = ["TopologyFile"]


def _dtype_name(name: str) -> str:
    if not is_dtype_name(name):
        raise ValueError
    return name


def _with_the_last_resort(peaks: Mapping[str, float]) -> Mapping[str, float]:
    if ALWAYS_LISTED not in peaks:
        raise fault(f"an entry for {ALWAYS_LISTED}, which stands for types without", "none")
    return peaks


def _each_once(dims: tuple[int | str, ...]) -> tuple[int | str, ...]:
    for number, dim in enumerate(dims):
        if dim in dims[:number]:
            raise fault("each mesh dim once", f"{dim!r} again")
    if not dims:
        raise fault("at least one mesh dim", "none")
    return dims


_MeshDim = Annotated[Index | Text, Expected("a name, or a whole number of at least 0")]
_DtypeName = Annotated[
    str,
    AfterValidator(_dtype_name),
    Expected("the name of a torch dtype such as float32 and bfloat16"),
]


class _Memory(Part):
    kernel_us: NotNegative
    bandwidth_gb_s: Positive


class _Compute(Part):
    peak_tflops: Annotated[dict[_DtypeName, Positive], AfterValidator(_with_the_last_resort)]
    efficiency: Share = 1.0


class _Hop(Part):
    latency_us: NotNegative
    bandwidth_gb_s: Positive


class _HopOrMeasured(Part):
    latency_us: NotNegative | None = None
    fixed_us: NotNegative | None = None
    bandwidth_gb_s: Positive

    @model_validator(mode="after")
    def _has_one_time(self) -> _HopOrMeasured:
        if (self.latency_us is None) == (self.fixed_us is None):
            raise fault("latency_us or fixed_us", "neither" if self.fixed_us is None else "both")
        return self


LinkPart = TypeVar("LinkPart", _Hop, _HopOrMeasured)


class _Links(Part, Generic[LinkPart]):
    """A link for all collectives, links for some, or both: then these override it."""

    latency_us: NotNegative | None = None
    bandwidth_gb_s: Positive | None = None
    all_gather: LinkPart | None = None
    reduce_scatter: LinkPart | None = None
    all_reduce: LinkPart | None = None
    all_to_all: LinkPart | None = None
    permute: LinkPart | None = None

    @model_validator(mode="after")
    def _has_one_for_each(self) -> _Links[LinkPart]:
        times = [key for key in ("latency_us", "fixed_us") if getattr(self, key, None) is not None]
        without = [name for name in COLLECTIVES if getattr(self, name) is None]
        if len(times) > 1:
            raise fault("latency_us or fixed_us", "both")
        if times and self.bandwidth_gb_s is None:
            raise fault(f"bandwidth_gb_s, a number above 0, beside {times[0]}", "nothing")
        if self.bandwidth_gb_s is not None and not times:
            raise fault("latency_us, a number of at least 0, beside bandwidth_gb_s", "nothing")
        if without and not times:
            raise fault(f"a link for all collectives, or one for {', '.join(without)}", "neither")
        return self

    def links(self) -> PerCollective[Any]:
        return PerCollective.each(lambda name: _link(getattr(self, name) or self))


def _link(part: Part) -> Link | Measured:
    keys = {"latency_us", "fixed_us", "bandwidth_gb_s"}
    values = part.model_dump(include=keys, exclude_none=True)
    return Measured(**values) if "fixed_us" in values else Link(**values)


class _Between(_Links[_Hop]):
    devices: Count


def _one_of(kind: object) -> Expected:
    return Expected(f"one of {', '.join(get_args(kind))}")


class _Machine(Part):
    architecture: Annotated[Architecture, _one_of(Architecture)]
    link: Annotated[LinkKind, _one_of(LinkKind)] = "nvlink"
    nvswitch: Flag = True
    cards: Count | None = None
    cpu: Annotated[Cpu, _one_of(Cpu)] = "intel"
    sharp: Flag = False
    sync_us: NotNegative = 0.0
    sync_us_per_node: NotNegative = 0.0


class _Node(Part):
    within: _Links[_Hop]
    between: _Between | None = None
    nccl: _Machine | None = None

    def node(self) -> Node:
        between, nccl = self.between, self.nccl
        return Node(
            self.within.links(),
            None if between is None else Between(between.devices, between.links()),
            None if nccl is None else Machine(**nccl.model_dump()),
        )


class _Group(_Links[_HopOrMeasured]):
    mesh_dims: Annotated[tuple[_MeshDim, ...], AfterValidator(_each_once)]
    fixed_us: NotNegative | None = None


def _different(groups: tuple[_Group, ...]) -> tuple[_Group, ...]:
    numbers: dict[frozenset[int | str], int] = {}
    for number, group in enumerate(groups):
        first = numbers.setdefault(frozenset(group.mesh_dims), number)
        if first != number:
            raise fault("a group in no more than one entry", f"that of [{first}] in [{number}] too")
    return groups


class TopologyFile(Part):
    """The root of the document."""

    name: Text | None = None
    sources: tuple[Text, ...] = ()
    launch_us: NotNegative
    memory: _Memory
    compute: _Compute | None = None
    all_to_all_gathers: Flag = False
    node: _Node | None = None
    groups: Annotated[tuple[_Group, ...], AfterValidator(_different)] | None = None

    @model_validator(mode="after")
    def _has_links(self) -> TopologyFile:
        if self.node is None and self.groups is None:
            raise fault("a node part or groups", "neither")
        return self

    def topology(self, name: str, origin: str = "") -> Topology:
        """The topology that the document says.

        Args:
            name: What it is called if the document does not say so.
            origin: The file.
        """
        return Topology(
            name=self.name or name,
            launch_us=self.launch_us,
            memory=Memory(**self.memory.model_dump()),
            node=None if self.node is None else self.node.node(),
            groups=tuple(Group(each.mesh_dims, each.links()) for each in self.groups or ()),
            all_to_all_gathers=self.all_to_all_gathers,
            compute=None if self.compute is None else Compute(**self.compute.model_dump()),
            sources=self.sources,
            origin=origin,
        )
