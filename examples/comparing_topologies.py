"""One model on three machines: how each wants it sharded, and what the wrong plan would cost.

A plan is the cheapest under a topology. The same MLP is planned for 32 GPUs on one NVLink switch,
for four nodes of eight, and for processes on one host that talk gloo. Then the placements that are
best on one machine are priced on the others.

Run it: ``python examples/comparing_topologies.py``. It needs no other process and no accelerator.
"""

from __future__ import annotations

import dataclasses

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh

import shardprop
from shardprop import graph

TOKENS, DIM, HIDDEN = 8192, 2048, 8192


def machines() -> dict[str, shardprop.Topology]:
    """The topologies that are compared; a preset is a value, of which parts can be replaced."""
    nodes = shardprop.load_topology("h100-nvlink")
    assert nodes.node is not None
    switch = dataclasses.replace(nodes.node, between=None)
    return {
        "one switch": dataclasses.replace(nodes, node=switch),
        "four nodes": nodes,
        "gloo": shardprop.load_topology("cpu-gloo"),
    }


def planned(
    mesh: DeviceMesh, topology: shardprop.Topology, like: graph.ModelPlan | None = None
) -> graph.ModelPlan:
    """The cheapest plan under a topology; with `like`, of those that place what it places so."""
    with torch.device("meta"):
        model = nn.Sequential(nn.Linear(DIM, HIDDEN), nn.GELU(), nn.Linear(HIDDEN, DIM))
        tokens = torch.empty(TOKENS, DIM)
    found = None if like is None else like.placements()
    return graph.capture(
        model,
        (tokens,),
        mesh,
        topology=topology,
        inputs=None if found is None else found.inputs,
        parameters=None if found is None else found.parameters,
    ).solve()


def main() -> None:
    """Plans for each machine, and prices each plan on all of them."""
    mesh = init_device_mesh("cpu", (4, 8), mesh_dim_names=("across", "within"))
    plans = {name: planned(mesh, topology) for name, topology in machines().items()}
    for name, plan in plans.items():
        found = plan.placements()
        print(f"{name}: tokens {found.inputs[0]}, first weight {found.parameters['0.weight']}")
    costs = {
        name: [planned(mesh, on, like=plan).cost_us for on in machines().values()]
        for name, plan in plans.items()
    }
    print("\nmicroseconds of a step, planned for the machine of the row, run on that of the column")
    print(" " * 12, *(f"{name:>12}" for name in plans))
    for name, row in costs.items():
        print(f"{name:>12}", *(f"{cost:12.1f}" for cost in row))
    for place, (name, plan) in enumerate(plans.items()):
        cheapest = min(row[place] for row in costs.values())
        if not plan.cost_us * (1 - 1e-9) <= cheapest <= plan.cost_us * (1 + 1e-9):
            raise SystemExit(f"The cheapest plan on {name} is not the one made for it.")
    print("\nno plan is cheaper on a machine than the one that was made for it")


if __name__ == "__main__":
    dist.init_process_group("fake", rank=0, world_size=32)
    main()
    dist.destroy_process_group()
