"""A DTensor that is squeezed or transposed in place has the shape of what its ranks hold."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Partial, Placement, distribute_tensor

import shardprop
from shardprop import _torch
from shardprop.corrections.reshaped_in_place import RESHAPED_IN_PLACE

from ..narrow import sharded
from ..specs import R, S

MeshOf = Callable[..., DeviceMesh]

CALLS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "all": lambda x: x.squeeze_(),
    "one": lambda x: x.squeeze_(1),
    "from the end": lambda x: x.squeeze_(-3),
    "several": lambda x: x.squeeze_((1, 2)),
    "none": lambda x: x.squeeze_(0),
}


def _placed(mesh: DeviceMesh, placement: Placement) -> DTensor:
    return distribute_tensor(torch.ones(4, 1, 1, 6), mesh, [placement], src_data_rank=None)


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("placement", [R, S(0), S(3)], ids=str)
def test_the_shape_follows(mesh_of: MeshOf, call: str, placement: Placement) -> None:
    right = CALLS[call](torch.ones(4, 1, 1, 6))
    x = _placed(mesh_of(2), placement)
    moves = placement == S(3) and call != "none"
    with shardprop.enabled():
        shardprop.reset_stats()
        made = sharded(CALLS[call](x))
    assert made is x
    assert x.shape == right.shape and x.stride() == right.stride()
    assert x.ndim == x.to_local().ndim
    assert x.placements == ((S(right.ndim - 1),) if moves else (placement,))
    # torch alone takes over what was decided where a shard has another dim.
    is_put_right = call != "none" and not moves
    assert shardprop.stats().corrections == ({RESHAPED_IN_PLACE.name: 1} if is_put_right else {})


def test_without_corrections_it_is_torchs_own(mesh_of: MeshOf) -> None:
    with shardprop.enabled(corrections=False):
        x = _placed(mesh_of(2), R)
        x.squeeze_()
    assert (x.ndim, x.to_local().ndim) == (4, 2)


def test_what_is_sharded_is_not_squeezed(mesh_of: MeshOf) -> None:
    """In the words of torch, and nothing is changed."""
    x = distribute_tensor(torch.ones(1, 6), mesh_of(1), [S(0)], src_data_rank=None)
    for corrections in (False, True):
        with shardprop.enabled(corrections=corrections):
            with pytest.raises(RuntimeError, match=r"^This operation would remove or reshape"):
                x.squeeze_(0)
            assert x.shape == x.to_local().shape == (1, 6)


@pytest.mark.skipif(not _torch.IS_215_OR_LATER, reason="torch 2.13 does not know how to place it")
@pytest.mark.parametrize("placement", [R, Partial("sum"), Partial("max")], ids=str)
def test_a_transpose(mesh_of: MeshOf, placement: Placement) -> None:
    with shardprop.enabled():
        shardprop.reset_stats()
        x = DTensor.from_local(torch.ones(2, 3), mesh_of(2), [placement], run_check=False)
        assert x.t_() is x
    assert x.shape == x.to_local().shape == (3, 2)
    assert x.stride() == (1, 3)
    assert x.placements == (placement,)
    assert shardprop.stats().corrections == {RESHAPED_IN_PLACE.name: 1}
