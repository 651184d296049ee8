"""A planner of whole graphs on shardprop's strategies: candidates and price matrices by node.

A planner such as AutoParallel chooses one strategy for each node of a graph so that all
redistributions together cost least. This one plans two linear layers with a GELU between them, by
going along the chain: enough to show where candidates and matrices come from. Public API only.

Run it: ``python examples/autoparallel_style.py``. It needs no other process and no accelerator.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import Replicate, Shard

import shardprop

aten = torch.ops.aten
TOPOLOGY = "h100-nvlink"

# What the program has: the batch over the first mesh dim, parameters over both, as FSDP keeps them.
GIVEN = {
    "x": ((8192, 1024), (Shard(0), Replicate())),
    "w1": ((1024, 4096), (Shard(0), Shard(1))),
    "w2": ((4096, 1024), (Shard(0), Shard(1))),
}
# Name, op, operands: of the nodes before or of what is given.
NODES = [
    ("hidden", aten.mm.default, ("x", "w1")),
    ("active", aten.gelu.default, ("hidden",)),
    ("result", aten.mm.default, ("active", "w2")),
]


@dataclass
class Node:
    """A node as a solver wants it.

    Attributes:
        name: Its name.
        operands: Names of what it takes.
        found: Its candidates and what each asks of its operands.
    """

    name: str
    operands: tuple[str, ...]
    found: shardprop.Strategies

    def column(self, operand: int, layout: int) -> int:
        """Of the operand's matrix the column of a producer's layout."""
        return self.found.sources[operand].tolist().index(layout)

    def prices(self, operand: int) -> np.ndarray:
        """What each candidate pays to have an operand moved, from each layout it may come in."""
        assert self.found.prices is not None
        return self.found.prices[operand]


def candidates(mesh: DeviceMesh) -> tuple[list[Node], shardprop.LayoutTable]:
    """Every node's strategies, from every layout that a strategy of its producer leaves."""
    table = shardprop.LayoutTable()
    planner = shardprop.ExactPlanner(shardprop.load_topology(TOPOLOGY))
    tensors = {name: torch.empty(shape, device="meta") for name, (shape, _) in GIVEN.items()}
    sources: dict[str, list[Any]] = {name: [layout] for name, (_, layout) in GIVEN.items()}
    nodes = []
    for name, op, operands in NODES:
        found = shardprop.strategies(
            op,
            [tensors[each] for each in operands],
            mesh=mesh,
            sources=[sources[each] for each in operands],
            prices=planner,
            layouts=table,
        )
        (meta,) = found.output_metas
        assert meta is not None
        tensors[name] = torch.empty(meta.shape, device="meta")
        sources[name] = [table[i] for i in np.unique(found.outputs[:, 0])]
        nodes.append(Node(name, operands, found))
    return nodes, table


def least(nodes: list[Node]) -> tuple[float, list[int]]:
    """The least price in microseconds, and which strategy of each node it takes.

    Going along the chain: what the best way to each strategy costs.
    """
    costs: list[np.ndarray] = []
    before: list[np.ndarray] = []
    for place, node in enumerate(nodes):
        cost = np.zeros(len(node.found))
        for k, operand in enumerate(node.operands):
            prices = node.prices(k)
            if operand in GIVEN:
                cost += prices[:, 0]
                continue
            producer = nodes[place - 1]
            columns = [node.column(k, layout) for layout in producer.found.outputs[:, 0]]
            ways = prices[:, columns] + costs[-1]
            before.append(ways.argmin(axis=1))
            cost += ways.min(axis=1)
        costs.append(cost)
    chosen = [int(costs[-1].argmin())]
    for links in reversed(before):
        chosen.insert(0, int(links[chosen[0]]))
    return float(costs[-1].min()), chosen


def repriced(nodes: list[Node], chosen: list[int], mesh: DeviceMesh) -> float:
    """The same price, from the plan of each redistribution by itself."""
    total = 0.0
    layouts: dict[str, Any] = {name: layout for name, (_, layout) in GIVEN.items()}
    for node, index in zip(nodes, chosen, strict=True):
        strategy = node.found[index]
        for meta, operand, wanted in zip(
            node.found.operand_metas, node.operands, strategy.operands, strict=True
        ):
            src, dst = (
                shardprop.make_spec(mesh, each, meta) for each in (layouts[operand], wanted)
            )
            total += shardprop.plan(src, dst, policy="optimal", topology=TOPOLOGY).cost_us
        layouts[node.name] = strategy.outputs[0]
    return total


def tried(nodes: list[Node]) -> float:
    """The least price of all combinations of strategies."""
    one, two, _ = (node.found for node in nodes)
    first = nodes[0].prices(0)[:, 0] + nodes[0].prices(1)[:, 0]
    last = nodes[2].prices(1)[:, 0]
    best = float("inf")
    for i, j in itertools.product(range(len(one)), range(len(two))):
        to_second = nodes[1].prices(0)[j, nodes[1].column(0, one.outputs[i, 0])]
        to_third = nodes[2].prices(0)[:, nodes[2].column(0, two.outputs[j, 0])]
        best = min(best, float((first[i] + to_second + to_third + last).min()))
    return best


def main() -> None:
    """Plans, checks the plan, and prints it."""
    mesh = init_device_mesh("cpu", (4, 4))
    nodes, _ = candidates(mesh)
    price, chosen = least(nodes)
    for node, index in zip(nodes, chosen, strict=True):
        outputs, operands = node.found[index]
        print(f"{node.name}: {operands} -> {outputs[0]}, of {len(node.found)} strategies")
    print(f"{price:.3f} us of redistribution")
    if abs(repriced(nodes, chosen, mesh) - price) > 1e-6 or abs(tried(nodes) - price) > 1e-6:
        raise SystemExit("The plan is not what its prices say.")
    print("checked against single plans and all combinations")


if __name__ == "__main__":
    dist.init_process_group("fake", rank=0, world_size=16)
    main()
    dist.destroy_process_group()
