"""From whatever names a topology to the topology."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, overload

from ...errors import ShardpropError
from ..cost_model import Price
from .callback import CallbackTopology
from .groups import CostSource
from .presets import PRESETS
from .topology import Topology

__all__ = ["load_topology"]


@overload
def load_topology(
    topology: str | os.PathLike[str] | Mapping[str, Any] | Topology,
) -> Topology: ...


@overload
def load_topology(
    topology: str | os.PathLike[str] | Mapping[str, Any] | CostSource | Price,
) -> CostSource: ...


def load_topology(
    topology: str | os.PathLike[str] | Mapping[str, Any] | CostSource | Price,
) -> CostSource:
    """The topology that is meant, checked.

    Args:
        topology: The name of a preset; the path of a JSON file; what such a file holds; a topology;
            or a function (collective, mesh dims, ranks, wire bytes) -> microseconds.

    Raises:
        ShardpropError: there is no such preset or file, or it has faults; the message has the
            path to each, such as ``topology.json: $.groups[1].all_gather.bandwidth_gb_s``.
    """
    if isinstance(topology, str) and topology in PRESETS:
        return PRESETS[topology]
    if isinstance(topology, (str, os.PathLike)):
        return _from_file(Path(topology))
    if isinstance(topology, Topology):
        document = topology.origin or topology.name or "topology"
        # Through the checks of a file, since the values may have been made by hand.
        return _checked(topology.to_json(), document, topology.name, topology.origin)
    if isinstance(topology, Mapping):
        return _checked(topology, "topology", "topology")
    if isinstance(topology, type):
        raise ShardpropError(
            f"Expected a topology or a function, got the class {topology.__name__}: make one of it."
        )
    if hasattr(topology, "on"):
        return topology
    if callable(topology):
        return CallbackTopology(topology)
    raise ShardpropError(
        f"Expected a preset ({', '.join(PRESETS)}), the path of a file, a topology or a function, "
        f"got {topology!r}."
    )


def _from_file(path: Path) -> Topology:
    from ...support.json_document import read_json

    if not path.exists():
        raise ShardpropError(
            f"{path}: Expected a preset ({', '.join(PRESETS)}) or the path of a file, got neither."
        )
    return _checked(read_json(path), str(path), path.stem, str(path))


def _checked(values: object, document: str, name: str, origin: str = "") -> Topology:
    from ...support.json_document import checked
    from .schema import TopologyFile  # 0.1 s that presets and functions need not wait for

    return checked(TopologyFile, values, document).topology(name, origin)
