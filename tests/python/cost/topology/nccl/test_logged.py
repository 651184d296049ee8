"""Latencies and bandwidths against what NCCL's tuner said on real machines."""

from __future__ import annotations

import pytest

from shardprop.cost.topology.nccl import Machine, Wiring
from shardprop.cost.topology.nccl.bandwidths import bandwidth_gb_s
from shardprop.cost.topology.nccl.latencies import latency_us
from shardprop.cost.topology.nccl.tables import Algorithm, Protocol

from .logged import ALL_GATHER_RING, ALL_REDUCE_RING, ALL_REDUCE_TREE, Logged


@pytest.mark.parametrize(
    ("collective", "algorithm", "logged"),
    [
        ("all_gather", Algorithm.RING, ALL_GATHER_RING),
        ("reduce_scatter", Algorithm.RING, ALL_GATHER_RING),
        ("all_reduce", Algorithm.RING, ALL_REDUCE_RING),
        ("all_reduce", Algorithm.TREE, ALL_REDUCE_TREE),
    ],
    ids=["all_gather ring", "reduce_scatter ring", "all_reduce ring", "all_reduce tree"],
)
def test_the_tuner_said_so(collective: str, algorithm: Algorithm, logged: Logged) -> None:
    """To the one digit after the point that logs have."""
    assert len(logged) == 20
    for (nodes, local), by_protocol in logged.items():
        wiring = Wiring(Machine("hopper"), nodes * local, nodes, local, 370.8, local, 50.0)
        for protocol, said in zip(Protocol, by_protocol, strict=True):
            ours = (
                latency_us(wiring, collective, algorithm, protocol),
                bandwidth_gb_s(wiring, collective, algorithm, protocol),
            )
            assert ours == pytest.approx(said, abs=0.051, rel=0), (nodes, local, protocol)
