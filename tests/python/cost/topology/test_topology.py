"""What a topology says of the groups of a mesh."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch._subclasses import FakeTensorMode
from torch.distributed._local_tensor import LocalTensorMode
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh

from shardprop.cost.cost_model import COLLECTIVES, CostModel, LinearPrice
from shardprop.cost.topology import (
    Between,
    Group,
    Link,
    Measured,
    Memory,
    Node,
    PerCollective,
    Topology,
    load_topology,
)
from shardprop.errors import ShardpropError

from .documents import FULL, changed

LAUNCH, WITHIN_US, WITHIN_GB_S, BETWEEN_US, BETWEEN_GB_S = 5.0, 1.0, 100.0, 3.0, 10.0

NODES_OF_4 = Topology(
    name="nodes of 4",
    launch_us=LAUNCH,
    memory=Memory(kernel_us=2.0, bandwidth_gb_s=1000.0),
    node=Node(
        PerCollective.same(Link(WITHIN_US, WITHIN_GB_S)),
        Between(4, PerCollective.same(Link(BETWEEN_US, BETWEEN_GB_S))),
    ),
)


def lines(model: CostModel, *dims: int) -> dict[str, LinearPrice]:
    """The lines of one group by collective."""
    (group,) = (group for group in model.groups if group.mesh_dims == dims)
    straight = [line for line in group.lines if isinstance(line, LinearPrice)]
    return dict(zip(COLLECTIVES, straight, strict=True))


def line(fixed_us: float, gb_s: float) -> LinearPrice:
    return LinearPrice(pytest.approx(fixed_us, rel=1e-12), pytest.approx(1e-3 / gb_s, rel=1e-12))  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def named(process_group: None) -> DeviceMesh:
    return init_device_mesh("cpu", (2, 4), mesh_dim_names=("dp", "tp"))


# --- what the model has -----------------------------------------------------------------------


def test_memory_and_sizes_are_those_of_topology_and_mesh(mesh_of: Any) -> None:
    model = NODES_OF_4.on(mesh_of(2, 4))
    assert model.sizes == (2, 4)
    assert (model.kernel_us, model.memory_us_per_byte) == (2.0, 1e-6)
    assert not model.all_to_all_gathers
    assert model.callback is None


def test_mesh_dims_of_size_1_have_no_group(mesh_of: Any) -> None:
    mesh = mesh_of(2, 1, 4)
    model = NODES_OF_4.on(mesh, [(0, 1), (0, 2), (0, 1, 2), (0, 2)])
    assert [group.mesh_dims for group in model.groups] == [(0,), (2,), (0, 2)]


@pytest.mark.parametrize("dims", [(1, 0), (0, 0), (0, 2), (-1, 0)])
def test_flattened_groups_are_ascending_mesh_dims(mesh_of: Any, dims: tuple[int, ...]) -> None:
    with pytest.raises(ShardpropError, match=r"flattened\[0\]: Expected mesh dims from 0 to 1 in"):
        NODES_OF_4.on(mesh_of(2, 4), [dims])


# --- nodes ------------------------------------------------------------------------------------


def test_a_group_within_a_node_uses_its_links(mesh_of: Any) -> None:
    found = lines(NODES_OF_4.on(mesh_of(2, 4)), 1)
    assert found["all_gather"] == line(LAUNCH + 3 * WITHIN_US, WITHIN_GB_S)
    assert found["reduce_scatter"] == found["all_gather"] == found["all_to_all"]
    assert found["all_reduce"] == line(LAUNCH + 6 * WITHIN_US, WITHIN_GB_S)
    assert found["permute"] == line(LAUNCH + WITHIN_US, WITHIN_GB_S)


def test_a_group_with_one_rank_on_each_node_has_one_network_card(mesh_of: Any) -> None:
    found = lines(NODES_OF_4.on(mesh_of(4, 4)), 0)  # ranks 0, 4, 8, 12
    assert found["all_gather"] == line(LAUNCH + 3 * BETWEEN_US, BETWEEN_GB_S)
    assert found["all_reduce"] == line(LAUNCH + 6 * BETWEEN_US, BETWEEN_GB_S)
    # Each of the three others is on another node.
    assert found["all_to_all"] == line(LAUNCH + 3 * BETWEEN_US, BETWEEN_GB_S)
    assert found["permute"] == line(LAUNCH + BETWEEN_US, BETWEEN_GB_S)


def test_a_ring_over_whole_nodes_uses_all_their_cards(mesh_of: Any) -> None:
    found = lines(NODES_OF_4.on(mesh_of(2, 4), [(0, 1)]), 0, 1)  # ranks 0 to 7
    assert found["all_gather"] == line(LAUNCH + 6 * WITHIN_US + BETWEEN_US, 4 * BETWEEN_GB_S)
    assert found["all_reduce"] == line(LAUNCH + 12 * WITHIN_US + 2 * BETWEEN_US, 4 * BETWEEN_GB_S)
    # 4 of the 7 others are on the other node.
    assert found["all_to_all"] == line(LAUNCH + 6 * WITHIN_US + BETWEEN_US, BETWEEN_GB_S * 7 / 4)
    assert found["permute"] == line(LAUNCH + BETWEEN_US, BETWEEN_GB_S)


def test_an_all_to_all_that_gathers_is_a_ring(mesh_of: Any) -> None:
    gathers = Topology(**{**vars(NODES_OF_4), "all_to_all_gathers": True})
    model = gathers.on(mesh_of(2, 4), [(0, 1)])
    assert model.all_to_all_gathers
    found = lines(model, 0, 1)
    assert found["all_to_all"] == found["all_gather"]


def test_the_network_makes_nothing_faster_than_the_links_within(mesh_of: Any) -> None:
    fast = Between(4, PerCollective.same(Link(BETWEEN_US, 80.0)))
    topology = Topology("", LAUNCH, NODES_OF_4.memory, Node(NODES_OF_4.node.within, fast))  # type: ignore[union-attr]
    found = lines(topology.on(mesh_of(2, 4), [(0, 1)]), 0, 1)
    assert found["all_gather"].us_per_byte == pytest.approx(1e-3 / WITHIN_GB_S)


def test_global_ranks_tell_the_nodes_whatever_the_mesh_dims(process_group: None) -> None:
    # Columns are nodes here: mesh dim 0 stays within one, mesh dim 1 crosses.
    mesh = DeviceMesh("cpu", torch.arange(8).reshape(2, 4).t().contiguous())
    model = NODES_OF_4.on(mesh)
    assert lines(model, 0)["all_gather"] == line(LAUNCH + 3 * WITHIN_US, WITHIN_GB_S)
    assert lines(model, 1)["all_gather"] == line(LAUNCH + BETWEEN_US, BETWEEN_GB_S)


def test_the_worst_group_of_a_mesh_dim_counts(process_group: None) -> None:
    # [0, 1, 2, 3] is one node; [4, 5, 6, 8] has one rank on another.
    ranks = torch.tensor([[0, 1, 2, 3], [4, 5, 6, 8]])
    found = lines(NODES_OF_4.on(DeviceMesh("cpu", ranks)), 1)
    assert found["all_gather"] == line(LAUNCH + 2 * WITHIN_US + BETWEEN_US, BETWEEN_GB_S)


def test_a_mode_that_is_on_does_not_see_how_ranks_are_looked_up(mesh_of: Any) -> None:
    mesh = mesh_of(2, 4)
    expected = NODES_OF_4.on(mesh, [(0, 1)])
    with FakeTensorMode():
        assert NODES_OF_4.on(mesh, [(0, 1)]) == expected
    with LocalTensorMode(8):
        assert NODES_OF_4.on(mesh, [(0, 1)]) == expected


def test_without_a_network_all_ranks_are_on_one_node(mesh_of: Any) -> None:
    alone = Topology("", LAUNCH, NODES_OF_4.memory, Node(NODES_OF_4.node.within))  # type: ignore[union-attr]
    found = lines(alone.on(mesh_of(8, 8)), 0)
    assert found["all_gather"] == line(LAUNCH + 7 * WITHIN_US, WITHIN_GB_S)


# --- entries for groups -----------------------------------------------------------------------


def test_entries_override_the_node_part(named: DeviceMesh) -> None:
    model = load_topology(FULL).on(named, [(0, 1)])
    tp = lines(model, 1)
    assert tp["all_gather"] == line(5.0 + 3 * 0.25, 200.0)
    assert tp["permute"] == line(5.0 + 0.25, 200.0)
    both = lines(model, 0, 1)
    assert both["all_gather"] == line(40.0, 16.0)  # measured: the launch is in it
    assert both["all_reduce"] == line(5.0 + 14 * 2.0, 20.0)
    assert lines(model, 0)["all_reduce"] == line(5.0 + 2 * 3.0, 10.0)  # of the node part


def test_a_group_of_which_nothing_is_known_has_the_worst_of_its_mesh_dims(mesh_of: Any) -> None:
    measured = Measured(fixed_us=5.0 + 3 * 4.0, bandwidth_gb_s=30.0)  # 4 us a hop
    topology = Topology(
        "",
        5.0,
        Memory(0.0, 1.0),
        groups=(
            Group((0,), PerCollective.same(Link(1.0, 10.0))),
            Group((1,), PerCollective.same(measured)),
        ),
    )
    found = lines(topology.on(mesh_of(2, 4), [(0, 1)]), 0, 1)
    assert found["all_gather"] == line(5.0 + 7 * 4.0, 10.0)
    assert found["all_reduce"] == line(5.0 + 14 * 2.0, 10.0)


def test_entries_with_a_mesh_dim_of_size_1_are_left_out(process_group: None) -> None:
    mesh = init_device_mesh("cpu", (2, 1), mesh_dim_names=("dp", "tp"))
    model = load_topology(FULL).on(mesh)
    assert [group.mesh_dims for group in model.groups] == [(0,)]


@pytest.mark.parametrize(
    ("mesh_dims", "message"),
    [
        (
            ["pp"],
            "$.groups[0].mesh_dims[0]: Expected a mesh dim from 0 to 1 or one of 'dp', 'tp', ",
        ),
        (
            [2],
            "$.groups[0].mesh_dims[0]: Expected a mesh dim from 0 to 1 or one of 'dp', 'tp', got",
        ),
        (["tp", 1], '$.groups[0].mesh_dims: Expected each mesh dim once, got ["tp", 1].'),
        (
            ["tp", "dp"],
            "$.groups[1].mesh_dims: Expected a group that no other entry has, got [0, 1]",
        ),
    ],
    ids=["unknown name", "unknown index", "one dim twice", "one group twice"],
)
def test_entries_that_do_not_fit_the_mesh_are_refused(
    named: DeviceMesh, tmp_path: Path, mesh_dims: list[object], message: str
) -> None:
    topology = load_topology(changed("groups.0.mesh_dims", mesh_dims))
    with pytest.raises(ShardpropError) as caught:
        topology.on(named, [(0, 1)])
    assert str(caught.value).startswith(f"two nodes: {message}")


def test_a_group_that_the_mesh_does_not_have_is_refused(named: DeviceMesh) -> None:
    with pytest.raises(ShardpropError) as caught:
        load_topology(FULL).on(named)
    assert str(caught.value) == (
        "two nodes: $.groups[1].mesh_dims: Expected a group that the mesh has a process group for, "
        "got [0, 1]; flatten these mesh dims or leave the entry out."
    )


def test_a_mesh_dim_of_which_nothing_is_known_is_refused(named: DeviceMesh, mesh_of: Any) -> None:
    links: PerCollective[Link | Measured] = PerCollective.same(Link(1.0, 1.0))
    topology = Topology("half", 1.0, Memory(0.0, 1.0), groups=(Group((1,), links),))
    with pytest.raises(ShardpropError) as caught:
        topology.on(named)
    expected = "or a node part, got neither."
    assert (
        str(caught.value) == f"half: $.groups: Expected an entry for mesh dim 0 ('dp'), {expected}"
    )
    with pytest.raises(ShardpropError, match="an entry for mesh dim 0, or"):
        topology.on(mesh_of(2, 4))


def test_errors_about_a_mesh_name_the_file(named: DeviceMesh, tmp_path: Path) -> None:
    file = tmp_path / "cluster.json"
    saved = load_topology(changed("groups.0.mesh_dims", ["pp"]))
    assert isinstance(saved, Topology)
    saved.save(file)
    with pytest.raises(ShardpropError) as caught:
        load_topology(file).on(named, [(0, 1)])
    assert str(caught.value).startswith(f"{file}: $.groups[0].mesh_dims[0]: ")


# --- round trip -------------------------------------------------------------------------------


def test_a_saved_topology_is_read_back_the_same(tmp_path: Path) -> None:
    file = tmp_path / "topology.json"
    for topology in (load_topology(FULL), NODES_OF_4):
        assert isinstance(topology, Topology)
        topology.save(file)
        assert load_topology(file) == topology


def test_a_topology_can_be_a_key() -> None:
    assert len({NODES_OF_4, load_topology(NODES_OF_4)}) == 1


@pytest.mark.parametrize("speed", [Link(1.0, 10.0), Measured(4.0, 10.0)], ids=["link", "measured"])
def test_a_price_is_found_under_its_former_name_for_one_release(speed: Link | Measured) -> None:
    now = speed.linear_price("all_gather", 4, LAUNCH)
    with pytest.warns(DeprecationWarning, match="is now linear_price") as warned:
        assert speed.line("all_gather", 4, LAUNCH) == now
    assert warned[0].filename == __file__
