"""Convolutions of sharded operands on simulated ranks, value and gradients."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
import torch
from torch.distributed._local_tensor import LocalTensor, LocalTensorMode
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Placement, distribute_tensor
from torch.distributed.tensor.experimental import implicit_replication

import shardprop
from shardprop._torch import tensors_of_ranks
from shardprop.corrections.convolution_handler import CONVOLUTION_HANDLER
from shardprop.propagation.propagator import counters

from ..narrow import sharded
from ..specs import P, R, S

RANKS = 4
PARTS = (0.5, -0.25, 1.0, -0.25)  # of a sum, on each
MeshOf = Callable[..., DeviceMesh]
Tensors = list[torch.Tensor]

# Image, weight, and how the window moves.
CALLS: list[tuple[tuple[int, ...], tuple[int, ...], dict[str, int]]] = [
    ((4, 4, 8), (4, 4, 3), {"stride": 2, "padding": 1}),
    ((5, 4, 8), (4, 4, 2), {"stride": 2}),
    ((4, 4, 8, 8), (8, 2, 3, 3), {"padding": 1, "groups": 2}),
]


@pytest.fixture(autouse=True)
def without_decisions() -> Iterator[None]:
    shardprop.reset_stats()
    yield
    shardprop.disable()
    shardprop.clear_caches()


def gradients(operands: Tensors, window: dict[str, int]) -> Tensors:
    """The output, and the gradients of the operands."""
    given = [each.detach().requires_grad_() for each in operands]
    run: Any = torch.conv1d if given[0].ndim == 3 else torch.conv2d
    output = run(*given, **window)
    output.square().sum().backward()
    return [output.detach(), *(each.grad for each in given if each.grad is not None)]


def placed(whole: torch.Tensor, mesh: DeviceMesh, placement: Placement) -> DTensor:
    if placement == P:
        parts = LocalTensor({rank: whole * part for rank, part in enumerate(PARTS)})
        return DTensor.from_local(parts, mesh, [P], run_check=False)
    return distribute_tensor(whole, mesh, [placement])


def is_right(mesh: DeviceMesh, call: int, placements: Sequence[Placement]) -> bool:
    """As on one device, on each rank."""
    image, weight, window = CALLS[call]
    generator = torch.Generator().manual_seed(0)
    shapes = (image, weight, weight[:1])
    whole = [torch.randn(s, generator=generator, dtype=torch.float64) for s in shapes]
    expected = gradients(whole, window)
    with LocalTensorMode(RANKS):
        pairs = zip(whole, placements, strict=True)
        made = gradients([placed(x, mesh, p) for x, p in pairs], window)
        found = [sharded(each).full_tensor() for each in made]
    return all(
        local.shape == right.shape and torch.allclose(local, right)
        for each, right in zip(found, expected, strict=True)
        for local in tensors_of_ranks(each, RANKS)
    )


@pytest.mark.parametrize("call", range(len(CALLS)))
def test_operands_are_moved_as_decided(call: int, mesh_of: MeshOf) -> None:
    mesh = mesh_of(RANKS)
    layouts = [*itertools.product((R, S(0), S(1), S(2)), (R, S(0), S(1)), (R, S(0)))]
    with shardprop.enabled():
        assert [each for each in layouts if not is_right(mesh, call, each)] == []
    # Not of the image replicated or in batches, the rest replicated; else in each direction.
    assert counters().corrections[CONVOLUTION_HANDLER.name] >= len(layouts) - 2


@pytest.mark.parametrize("call", range(len(CALLS)))
def test_pending_operands_are_moved_as_the_policy_decides(call: int, mesh_of: MeshOf) -> None:
    mesh = mesh_of(RANKS)
    layouts = [*itertools.product((P, R, S(0), S(1)), (P, R, S(0)), (P, R, S(0)))]
    with shardprop.enabled(policy="optimal", topology="h100-nvlink"):
        assert [each for each in layouts if not is_right(mesh, call, each)] == []


@pytest.mark.filterwarnings("ignore:Found a non-scalar tensor with numel=1")
@pytest.mark.parametrize("policy", ["torch", "optimal"])
def test_a_plain_operand_is_moved_with_the_others(policy: str, mesh_of: MeshOf) -> None:
    """A bias that is no DTensor is taken for a replicated one: whole beside pending products it
    would be added once for each rank."""
    mesh = mesh_of(RANKS)
    image, weight, bias = torch.ones(4, 4, 8), torch.ones(1, 4, 3), torch.ones(1)
    settings: dict[str, Any] = (
        {} if policy == "torch" else {"policy": policy, "topology": "h100-nvlink"}
    )
    with shardprop.enabled(**settings), LocalTensorMode(RANKS), implicit_replication():
        for placement in (P, S(0), S(1)):
            made = torch.conv1d(placed(image, mesh, placement), weight, bias)
            for local in tensors_of_ranks(sharded(made).full_tensor(), RANKS):
                assert torch.equal(local, torch.conv1d(image, weight, bias))


def test_the_handler_is_back_where_it_is_wanted(mesh_of: MeshOf) -> None:
    mesh, by_length, by_batches = mesh_of(RANKS), (S(2), R, R), (S(0), R, R)

    def torch_alone() -> bool:
        try:
            return is_right(mesh, 0, by_length)
        except (RuntimeError, IndexError):  # a gradient that does not fit
            return False

    assert not torch_alone()
    with shardprop.enabled():
        assert is_right(mesh, 0, by_length)
        assert is_right(mesh, 0, by_batches)
    assert not torch_alone()
    with shardprop.enabled(corrections=False):
        assert not torch_alone()
    assert is_right(mesh, 0, by_batches)
