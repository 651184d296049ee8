"""Losses on simulated ranks against one device: right, and wrong without corrections."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch.distributed._local_tensor import LocalTensorMode
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import distribute_tensor

import shardprop
from shardprop.corrections.local_sizes import LOCAL_SIZES

from ..narrow import known, per_rank, sharded
from ..specs import S

RANKS = 4
MeshOf = Callable[..., DeviceMesh]
Loss = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]

WRONG_WITH_TORCH: dict[str, Loss] = {
    "mse": F.mse_loss,
    "smooth_l1": F.smooth_l1_loss,
    "huber": F.huber_loss,
    "bce": F.binary_cross_entropy,
    "soft_margin": lambda x, y: F.soft_margin_loss(x, 2 * y - 1),
}
LOSSES: dict[str, Loss] = {
    **WRONG_WITH_TORCH,
    "l1": F.l1_loss,
    "bce_with_logits": F.binary_cross_entropy_with_logits,
    "kl_div": lambda x, y: F.kl_div(x, y, reduction="batchmean"),
    "poisson_nll": F.poisson_nll_loss,
    "gaussian_nll": lambda x, y: F.gaussian_nll_loss(x, y, y + 1),
    "cross_entropy": lambda x, y: F.cross_entropy(x, y.softmax(1)),
    "multilabel_soft_margin": F.multilabel_soft_margin_loss,
    "mse, summed": lambda x, y: F.mse_loss(x, y, reduction="sum"),
    "mse, each": lambda x, y: F.mse_loss(x, y, reduction="none").square().sum(),
    "variance": lambda x, y: (x * y).var(),
}


def _is_right(mesh: DeviceMesh, loss: Loss, size: int, dim: int) -> bool:
    """Are value and gradient on every rank those of one device?"""
    rng = torch.Generator().manual_seed(0)
    x, y = (torch.rand(size, 6, generator=rng) for _ in range(2))
    alone = x.clone().requires_grad_()
    expected = loss(alone, y)
    expected.backward()
    with LocalTensorMode(RANKS):
        scores = distribute_tensor(x.clone(), mesh, [S(dim)]).requires_grad_()
        found = sharded(loss(scores, distribute_tensor(y.clone(), mesh, [S(dim)])))
        found.backward()
        whole = [found.full_tensor(), sharded(scores.grad).full_tensor()]
    pairs = zip(whole, (expected, known(alone.grad)), strict=True)
    return all(
        torch.allclose(local, right, rtol=1e-4, atol=1e-6)
        for simulated, right in pairs
        for local in per_rank(simulated)._local_tensors.values()
    )


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:A number is read out:UserWarning")  # by gaussian_nll_loss
@pytest.mark.parametrize("name", LOSSES)
def test_values_and_gradients_are_those_of_one_device(mesh_of: MeshOf, name: str) -> None:
    """Even shards, uneven ones, and a rank that has nothing."""
    with shardprop.enabled():
        for size in (8, 7, 5):
            for dim in (0, 1):
                assert _is_right(mesh_of(RANKS), LOSSES[name], size, dim), (size, dim)


@pytest.mark.parametrize("order", [math.inf, -math.inf, "amax"])
def test_gradients_of_a_maximum_are_numbers(mesh_of: MeshOf, order: Any) -> None:
    def loss(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return (x * y).amax() if order == "amax" else torch.linalg.vector_norm(x * y, order)

    with shardprop.enabled():
        assert all(_is_right(mesh_of(RANKS), loss, size, 0) for size in (8, 7))
    with shardprop.enabled(corrections=False):
        assert not _is_right(mesh_of(RANKS), loss, 8, 0)


@pytest.mark.parametrize("name", WRONG_WITH_TORCH)
def test_torch_alone_is_wrong(mesh_of: MeshOf, name: str) -> None:
    """If not, torch has mended it: the correction ends."""
    with shardprop.enabled(corrections=False):
        assert not _is_right(mesh_of(RANKS), LOSSES[name], 8, 0)


def test_a_correction_is_counted(mesh_of: MeshOf) -> None:
    shardprop.reset_stats()
    with shardprop.enabled():
        assert _is_right(mesh_of(RANKS), F.mse_loss, 8, 0)
        # The loss over even shards is torch's; its gradient is not.
        assert shardprop.stats().corrections == {LOCAL_SIZES.name: 1}
        assert f"1 corrected: {LOCAL_SIZES.name}" in str(shardprop.stats())
    shardprop.reset_stats()
    assert shardprop.stats().corrections == {}
