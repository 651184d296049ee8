"""The presets: torch's own prices as they are, and machines."""

from __future__ import annotations

from typing import Any

import pytest
from torch.distributed.tensor import Partial, Placement, Replicate, Shard
from torch.distributed.tensor._collective_utils import (
    MeshTopoInfo,
    _compute_placement_transition_cost,
)

from shardprop.cost.cost_model import COLLECTIVES
from shardprop.cost.topology import PRESETS, Topology, load_topology

# What a rank holds, and the collective with its wire bytes for n ranks.
MOVES: dict[str, tuple[Placement, Placement, Any]] = {
    "all_gather": (Shard(0), Replicate(), lambda b, n: (n - 1) * b),
    "reduce_scatter": (Partial("sum"), Shard(0), lambda b, n: (n - 1) * b / n),
    "all_reduce": (Partial("sum"), Replicate(), lambda b, n: 2 * (n - 1) * b / n),
    "all_to_all": (Shard(0), Shard(1), lambda b, n: (n - 1) * b / n),
}


@pytest.mark.parametrize("shape", [(2,), (8,), (2, 4), (4, 2, 8)], ids=str)
@pytest.mark.parametrize("collective", MOVES)
def test_torch_preset_prices_as_torch_does(
    mesh_of: Any, shape: tuple[int, ...], collective: str
) -> None:
    mesh = mesh_of(*shape)
    topology = MeshTopoInfo.build_from_mesh(mesh)
    before, after, wire = MOVES[collective]
    for group in load_topology("torch").on(mesh).groups:
        (dim,) = group.mesh_dims
        line = group.lines[COLLECTIVES.index(collective)]
        for held in (64, 4096 * 64, 3 * 2**30):
            theirs, _ = _compute_placement_transition_cost(
                before, after, topology, dim, held / 1024**3
            )
            assert line.us(wire(held, mesh.size(dim))) == pytest.approx(theirs, rel=1e-9)


def test_torch_preset_has_no_local_costs(mesh_of: Any) -> None:
    model = load_topology("torch").on(mesh_of(2, 4))
    assert (model.kernel_us, model.memory_us_per_byte) == (0.0, 0.0)
    assert not model.all_to_all_gathers


def test_torch_preset_takes_the_worst_of_flattened_mesh_dims(mesh_of: Any) -> None:
    mesh = mesh_of(4, 2, 8)
    topology = MeshTopoInfo.build_from_mesh(mesh)
    *_, flat = load_topology("torch").on(mesh, [(0, 2)]).groups
    assert flat.mesh_dims == (0, 2)
    slowest = min(topology.mesh_dim_bandwidth[0], topology.mesh_dim_bandwidth[2])
    latency = max(topology.mesh_dim_latency[0], topology.mesh_dim_latency[2])
    (gather,) = flat.lines[0].pieces
    assert gather.us_per_byte == pytest.approx(1e6 / 1024**3 / slowest)
    assert gather.fixed_us == pytest.approx(6.6 + 31 * latency)


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_prices_any_mesh(mesh_of: Any, name: str) -> None:
    model = load_topology(name).on(mesh_of(2, 4, 8), [(0, 1), (0, 1, 2)])
    assert [group.mesh_dims for group in model.groups] == [(0,), (1,), (2,), (0, 1), (0, 1, 2)]
    for group in model.groups:
        for piece in (piece for line in group.lines for piece in line.pieces):
            assert piece.fixed_us > 0
            assert piece.us_per_byte > 0


@pytest.mark.parametrize("name", [name for name in PRESETS if name != "torch"])
def test_a_preset_tells_its_sources_and_passes_the_checks_of_a_file(name: str) -> None:
    topology = load_topology(name)
    assert isinstance(topology, Topology)
    assert topology.name == name
    assert topology.sources
    assert load_topology(topology.to_json()) == topology


def test_faster_machines_are_faster(mesh_of: Any) -> None:
    mesh = mesh_of(2, 8)
    models = [load_topology(name).on(mesh) for name in ("a100-nvlink", "h100-nvlink")]
    models.append(load_topology("b200-nvlink").on(mesh))
    large = 2.0**30
    within = [model.groups[1].lines[0].us(large) for model in models]
    assert within == sorted(within, reverse=True)
    for model in models:
        between, inside = (group.lines[0].us(large) for group in model.groups)
        assert between > 4 * inside


def test_only_gloo_makes_an_all_to_all_of_an_all_gather(mesh_of: Any) -> None:
    gathers = [n for n in PRESETS if load_topology(n).on(mesh_of(2)).all_to_all_gathers]
    assert gathers == ["cpu-gloo"]
