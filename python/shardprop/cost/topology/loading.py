"""From whatever names a topology to the topology."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ...errors import ShardpropError
from ...support.json_path import Spot, parse
from ..cost_model import Price
from .callback import CallbackTopology
from .groups import CostSource
from .presets import PRESETS
from .reading import topology_at
from .topology import Topology

__all__ = ["load_topology"]


def load_topology(
    topology: str | os.PathLike[str] | Mapping[str, Any] | CostSource | Price,
) -> CostSource:
    """The topology that is meant, checked.

    Args:
        topology: The name of a preset; the path of a JSON file; what such a file holds; a topology;
            or a function (collective, mesh dims, ranks, wire bytes) -> microseconds.

    Raises:
        ShardpropError: there is no such preset or file, or it has a fault; the message has the
            path to it, such as ``topology.json: groups[1].all_gather.bandwidth_gb_s``.
    """
    if isinstance(topology, str) and topology in PRESETS:
        return PRESETS[topology]
    if isinstance(topology, (str, os.PathLike)):
        return _from_file(Path(topology))
    if isinstance(topology, Topology):
        document = topology.origin or topology.name or "topology"
        # Through the checks of a file, since the values may have been made by hand.
        return topology_at(Spot(document, "", topology.to_json()), topology.name, topology.origin)
    if isinstance(topology, Mapping):
        return topology_at(Spot("topology", "", topology), "topology")
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
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise ShardpropError(
            f"{path}: Expected a preset ({', '.join(PRESETS)}) or the path of a file, got neither."
        ) from None
    except OSError as error:
        raise ShardpropError(
            f"{path}: Expected a file that can be read, got: {error.strerror}."
        ) from None
    except UnicodeDecodeError:
        raise ShardpropError(f"{path}: Expected JSON in UTF-8, got bytes that are not.") from None
    return topology_at(parse(text, str(path)), path.stem, str(path))
