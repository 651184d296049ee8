"""Which sets of mesh dims are flattened."""

from __future__ import annotations

import gc

import pytest
import torch
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor._redistribute import (
    disable_redistribute_transform_optimization as no_merging,
)

from shardprop import _torch
from shardprop._torch import flattened


def mesh_over(*sizes: int) -> DeviceMesh:
    count = int(torch.tensor(sizes).prod())
    names = tuple("abcde"[: len(sizes)])
    return DeviceMesh("cpu", torch.arange(count).reshape(sizes), mesh_dim_names=names)


def test_a_group_is_there_once_it_is_flattened() -> None:
    mesh = mesh_over(2, 2, 2)
    assert _torch.flattened_groups(mesh) == ()
    pair = _torch.flatten_dims(mesh, (0, 2))
    assert _torch.flattened_groups(mesh) == ((0, 2),)
    assert pair.mesh.tolist() == [0, 1, 4, 5]
    assert _torch.flattened_mesh(mesh, (0, 2)) is pair
    assert _torch.flattened_mesh(mesh, (0, 1)) is None
    mesh._flatten()
    assert _torch.flattened_groups(mesh) == ((0, 2), (0, 1, 2))


def test_what_is_flattened_is_not_flattened_again() -> None:
    mesh = mesh_over(2, 2)
    by_program = mesh._flatten("everything")
    assert _torch.flatten_dims(mesh, (0, 1)) is by_program


def test_dims_of_size_one_are_in_no_group() -> None:
    mesh = mesh_over(2, 1, 2)
    mesh._flatten()
    assert _torch.flattened_groups(mesh) == ((0, 2),)


def test_a_part_of_a_mesh_has_the_groups_of_its_own_dims() -> None:
    mesh = mesh_over(2, 2, 2)
    part = mesh["b", "c"]
    _torch.flatten_dims(mesh, (0, 1))
    assert _torch.flattened_groups(part) == ()
    _torch.flatten_dims(part, (0, 1))
    assert _torch.flattened_groups(part) == ((0, 1),)
    assert _torch.flattened_groups(mesh) == ((0, 1), (1, 2))


def test_where_a_name_is_taken_another_is_found() -> None:
    mesh = DeviceMesh("cpu", torch.arange(8).reshape(2, 2, 2), mesh_dim_names=("a", "b", "a_b"))
    pair = _torch.flatten_dims(mesh, (0, 1))
    assert pair.mesh_dim_names == ("a_b_2",)
    assert _torch.flattened_mesh(mesh, (0, 1)) is pair


def test_another_group_of_the_same_name_stays() -> None:
    mesh = mesh_over(2, 2, 2)
    other = mesh["b", "c"]._flatten("a_b")
    pair = _torch.flatten_dims(mesh, (0, 1))
    assert pair.mesh_dim_names == ("a_b_2",)
    assert _torch.flattened_mesh(mesh, (1, 2)) is other


@pytest.mark.slow
def test_nothing_is_held_of_a_mesh_that_is_gone() -> None:
    mesh = mesh_over(2, 2)
    mesh._flatten()
    assert _torch.flattened_groups(mesh)
    key = id(mesh)
    assert key in flattened._flattened
    del mesh
    gc.collect()
    assert key not in flattened._flattened


def test_the_programs_wish_not_to_merge_is_known() -> None:
    assert not _torch.merging_disabled()
    with no_merging():
        assert _torch.merging_disabled()
