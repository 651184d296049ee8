"""Which entries of a file apply to meshes cut from the one it names, or flattened in it."""

from __future__ import annotations

import json
from typing import Any

import pytest
import torch
from torch.distributed.device_mesh import DeviceMesh

from shardprop import _torch
from shardprop.cost.cost_model import CostModel
from shardprop.cost.topology import Topology, load_topology
from shardprop.errors import ShardpropError

from .test_topology import lines


def entry(fixed_us: float, *mesh_dims: int | str) -> dict[str, Any]:
    return {"mesh_dims": list(mesh_dims), "fixed_us": fixed_us, "bandwidth_gb_s": 1.0}


def topology(*groups: dict[str, Any]) -> Topology:
    memory = {"kernel_us": 0.0, "bandwidth_gb_s": 1.0}
    made = load_topology({"launch_us": 0.0, "memory": memory, "groups": list(groups)})
    assert isinstance(made, Topology)
    return made


CALIBRATED = topology(entry(10.0, "dp"), entry(20.0, "tp"), entry(30.0, "dp", "tp"))


def cube(sizes: tuple[int, ...] = (2, 2, 2)) -> DeviceMesh:
    """A root mesh of its own for each test: what is flattened in it stays there."""
    ranks = torch.arange(torch.tensor(sizes).prod().item()).reshape(sizes)
    return DeviceMesh("cpu", ranks, mesh_dim_names=("pp", "dp", "tp"))


def square() -> DeviceMesh:
    return DeviceMesh("cpu", torch.arange(4).reshape(2, 2), mesh_dim_names=("dp", "tp"))


def fixed(model: CostModel, *dims: int) -> float:
    """What a permutation costs beside its bytes."""
    return lines(model, *dims)["permute"].fixed_us


def on(mesh: DeviceMesh, of: Topology = CALIBRATED) -> CostModel:
    return of.on(mesh, _torch.flattened_groups(mesh))


def test_the_mesh_itself_and_meshes_cut_from_it(process_group: None) -> None:
    mesh = square()
    mesh._flatten()
    assert [fixed(on(mesh), *dims) for dims in ((0,), (1,), (0, 1))] == [10.0, 20.0, 30.0]
    assert fixed(on(mesh["dp"]), 0) == 10.0
    assert fixed(on(mesh["tp"]), 0) == 20.0


@pytest.mark.parametrize("name", [None, "world"])
def test_a_flattened_mesh_takes_the_entry_of_the_dims_it_was_made_of(
    process_group: None, name: str | None
) -> None:
    assert fixed(on(square()._flatten(name)), 0) == 30.0


def test_a_mesh_dim_flattened_under_another_name_is_that_mesh_dim(process_group: None) -> None:
    assert fixed(on(square()["tp"]._flatten("columns")), 0) == 20.0


def test_dims_of_size_1_that_were_flattened_too_do_not_matter(process_group: None) -> None:
    mesh = cube((1, 2, 2))
    of_tp = topology(entry(5.0, "pp"), entry(10.0, "dp"), entry(20.0, "tp"))
    assert fixed(on(mesh["pp", "dp"]._flatten(), of_tp), 0) == 10.0


def test_a_mesh_with_a_flattened_dim_among_others(process_group: None) -> None:
    mesh = cube()
    data = mesh["pp", "dp"]._flatten("data")
    mesh["pp", "dp", "tp"]._flatten("all")
    of_all = topology(
        entry(5.0, "pp"),
        entry(10.0, "dp"),
        entry(20.0, "tp"),
        entry(25.0, "pp", "dp"),
        entry(40.0, "tp", "dp", "pp"),
    )
    model = on(DeviceMesh._concatenate([data, mesh["tp"]]), of_all)
    assert [fixed(model, 0), fixed(model, 1)] == [25.0, 20.0]
    assert [group.mesh_dims for group in model.groups] == [(0,), (1,), (0, 1)]
    assert fixed(model, 0, 1) == 40.0


def test_a_flattened_mesh_without_an_entry_has_the_worst_of_its_parts(process_group: None) -> None:
    flat = square()._flatten()
    model = on(flat, topology(entry(10.0, "dp"), entry(20.0, "tp")))
    assert fixed(model, 0) == 20.0
    with pytest.raises(ShardpropError, match=r"groups: Expected an entry for mesh dim 0 \('dp_tp'"):
        on(flat, topology(entry(10.0, "dp")))


def test_an_entry_may_name_the_flattened_mesh(process_group: None) -> None:
    mesh = square()
    world = mesh._flatten("world")
    named = topology(entry(10.0, "dp"), entry(20.0, "tp"), entry(30.0, "world"))
    assert fixed(on(mesh, named), 0, 1) == fixed(on(world, named), 0) == 30.0


def test_indices_count_the_dims_of_the_root(process_group: None) -> None:
    mesh = square()
    by_index = topology(entry(10.0, 0), entry(20.0, 1))
    assert fixed(on(mesh["tp"], by_index), 0) == 20.0


def test_parts_that_the_mesh_lacks_are_not_refused_for_want_of_a_group(process_group: None) -> None:
    mesh = square()  # dp and tp are not flattened
    assert fixed(on(mesh["tp"]), 0) == 20.0
    with pytest.raises(ShardpropError, match=r"groups\[2\].mesh_dims: Expected a group that"):
        on(mesh)


@pytest.mark.parametrize("part", ["dp", "tp"])
def test_a_name_that_neither_has_is_refused_with_its_path(process_group: None, part: str) -> None:
    wrong = topology(entry(10.0, "dp"), entry(20.0, "tp"), entry(30.0, "tp", "ep"))
    with pytest.raises(ShardpropError) as caught:
        on(square()[part], wrong)
    assert str(caught.value).startswith(
        "topology: $.groups[2].mesh_dims[1]: Expected a mesh dim from 0 to 1 or one of 'dp', 'tp', "
    )


def test_a_mesh_of_one_rank_needs_no_entry(process_group: None) -> None:
    """torch has one, without names, on which it decides what an op decomposes into."""
    inside = _torch.decomposition_mesh("cpu")
    assert inside.mesh_dim_names is None
    assert on(inside).groups == ()


def test_a_name_and_the_dims_that_it_stands_for_are_one_group(process_group: None) -> None:
    mesh = square()
    mesh._flatten("world")
    twice = topology(
        entry(1.0, "dp"), entry(2.0, "tp"), entry(3.0, "dp", "tp"), entry(4.0, "world")
    )
    with pytest.raises(ShardpropError) as caught:
        on(mesh, twice)
    assert json.dumps(["world"]) in str(caught.value) and "groups[2] has" in str(caught.value)
