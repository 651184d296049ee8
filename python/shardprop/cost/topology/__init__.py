"""Topologies: from what the machines can do to what a plan costs on one mesh.

A topology is a value; ``topology.on(mesh, flattened)`` makes a `CostModel` of it. There are three
kinds: `Topology` (latencies and bandwidths, the presets and users' files among them),
`TorchTopology` (torch's own ring model) and `CallbackTopology` (a Python function). What their
figures mean, and where those of the presets come from, is told in docs/cost-models.md.
"""

from .callback import CallbackTopology
from .compute import Compute
from .groups import CostSource
from .links import Link, Measured, PerCollective
from .loading import load_topology
from .nccl import Machine
from .presets import PRESETS
from .sources import cost_model_on
from .topology import Between, Group, Memory, Node, Topology
from .torch_model import TorchTopology

__all__ = [
    "PRESETS",
    "Between",
    "CallbackTopology",
    "Compute",
    "CostSource",
    "Group",
    "Link",
    "Machine",
    "Measured",
    "Memory",
    "Node",
    "PerCollective",
    "Topology",
    "TorchTopology",
    "cost_model_on",
    "load_topology",
]
