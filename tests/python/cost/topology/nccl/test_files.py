"""What a file says of NCCL, beside its links and entries."""

from __future__ import annotations

from typing import Any

import pytest

from shardprop.cost.cost_model import COLLECTIVES, CostModel, LinearPrice, PiecewisePrice
from shardprop.cost.topology import PRESETS, Topology, load_topology
from shardprop.cost.topology.groups import Span

TUNED = ("all_gather", "reduce_scatter", "all_reduce")


def document(**nccl: Any) -> dict[str, Any]:
    """Preset h100-nvlink with something else in `nccl`."""
    topology = PRESETS["h100-nvlink"]
    assert isinstance(topology, Topology)
    values: dict[str, Any] = topology.to_json()
    values["node"]["nccl"] |= nccl
    return values


def lines(model: CostModel, *dims: int) -> dict[str, LinearPrice | PiecewisePrice]:
    (group,) = (group for group in model.groups if group.mesh_dims == dims)
    return dict(zip(COLLECTIVES, group.lines, strict=True))


@pytest.mark.parametrize(
    "nccl",
    [
        {"architecture": "volta", "link": "pcie"},
        {"nvswitch": False, "cards": 4, "cpu": "amd"},
        {"sharp": True, "sync_us": 2.5, "sync_us_per_node": 0.0},
    ],
    ids=str,
)
def test_a_file_is_written_as_it_was_read(nccl: dict[str, Any]) -> None:
    topology = load_topology(document(**nccl))
    assert topology.node is not None and topology.node.nccl is not None
    for key, value in nccl.items():
        assert getattr(topology.node.nccl, key) == value
    assert load_topology(topology.to_json()) == topology


def test_what_is_not_said_is_not_written() -> None:
    assert document()["node"]["nccl"] == {"architecture": "hopper", "sync_us_per_node": 0.45}


def test_what_was_measured_overrides_the_tuner(mesh_of: Any) -> None:
    values = document()
    measured = {"fixed_us": 40.0, "bandwidth_gb_s": 16.0}
    values["groups"] = [{"mesh_dims": [0], **measured}]
    mesh = mesh_of(2, 8)
    model = load_topology(values).on(mesh, [(0, 1)])
    assert set(lines(model, 0).values()) == {LinearPrice(40.0, 1e-3 / 16)}
    expected = load_topology("h100-nvlink").on(mesh, [(0, 1)])
    assert lines(model, 1) == lines(expected, 1)
    assert lines(model, 0, 1) == lines(expected, 0, 1)


def test_sends_and_receives_are_priced_by_the_links(mesh_of: Any) -> None:
    values = document(sync_us_per_node=0.0)
    with_tuner = load_topology(values).on(mesh_of(2, 8), [(0, 1)])
    del values["node"]["nccl"]
    of_links = load_topology(values).on(mesh_of(2, 8), [(0, 1)])
    for dims in ((0,), (1,), (0, 1)):
        ours, links = lines(with_tuner, *dims), lines(of_links, *dims)
        assert {name for name in COLLECTIVES if ours[name] != links[name]} == set(TUNED)


def test_cards_are_shared_by_the_devices_of_a_node() -> None:
    """Half as many cards of twice the speed: the same for a whole node; one rank on each node has a
    card of its own, and so twice as much."""
    fewer = load_topology(document(architecture="blackwell", cards=4)).node
    same = load_topology(document(architecture="blackwell")).node
    assert fewer is not None and same is not None
    large = 2.0**32
    for lies, times in ((Span(64, 8, 8), 1.0), (Span(8, 8, 1), 2.0)):
        each = (
            line.price("all_gather", lies, 0.0, gathers=False).us(large) for line in (same, fewer)
        )
        assert next(each) == pytest.approx(times * next(each), rel=0.05)


@pytest.mark.parametrize("collective", TUNED)
def test_pcie_is_slower_at_every_size_for_its_hops_and_protocols(collective: str) -> None:
    """The links have the same bandwidth; LL128 and shorter hops are NVLink's."""
    lies = Span(8, 1, 8)
    pcie, nvlink = (
        load_topology(document(link=link, nvswitch=nvswitch)).node
        for link, nvswitch in (("pcie", True), ("nvlink", False))
    )
    assert pcie is not None and nvlink is not None
    slower = [
        pcie.price(collective, lies, 0.0, gathers=False).us(wire)
        > nvlink.price(collective, lies, 0.0, gathers=False).us(wire)
        for wire in (0.0, 2.0**16, 2.0**20)
    ]
    assert all(slower)
