"""Programs that torch alone gets wrong, against one device: values, where decisions are not told
apart by their placements alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import pytest
import torch
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Placement, distribute_tensor

import shardprop
from shardprop import _torch

from ..specs import R, S

MeshOf = Callable[..., DeviceMesh]


def _well_conditioned(*batches: int) -> torch.Tensor:
    return torch.randn(*batches, 4, 4) * 0.1 + 3 * torch.eye(4)


def _updated_mean(x: torch.Tensor, mean: torch.Tensor, variance: torch.Tensor) -> torch.Tensor:
    torch.nn.functional.batch_norm(x, mean, variance, training=True)
    return mean


def _second_of_two(x: torch.Tensor) -> torch.Tensor:
    x.topk(3, 1)
    return x.topk(1, 1).values


class Program(NamedTuple):
    """What is computed, of which tensors, and how these are placed over two ranks."""

    run: Callable[..., torch.Tensor]
    tensors: Callable[[], Sequence[torch.Tensor]]
    placements: Sequence[Placement]
    is_wrong_with_torch: bool = True


# Sizes for which torch's prices choose the way that is wrong.
PROGRAMS: dict[str, Program] = {
    "statistics of a batch that is cut": Program(
        _updated_mean,
        lambda: (torch.randn(64, 8, 300) + 3, torch.zeros(8), torch.ones(8)),
        (S(0), R, R),
    ),
    "statistics of channels that are cut": Program(
        _updated_mean,
        lambda: (torch.randn(4, 8, 3) + 3, torch.zeros(8), torch.ones(8)),
        (S(1), R, R),
    ),
    "gather by another size": Program(
        lambda x, index: x.gather(1, index),
        lambda: (torch.randn(64, 600), torch.randint(0, 600, (32, 600))),
        (S(1), R),
    ),
    "flags counted": Program(
        lambda x: (x > 0).any(0).float(),
        lambda: (torch.ones(4, 3),),
        (S(0),),
        is_wrong_with_torch=not _torch.IS_215_OR_LATER,
    ),
    "solve, more batches": Program(
        torch.linalg.solve,
        lambda: (_well_conditioned(2), torch.randn(2, 2, 4, 3)),
        (S(0), S(0)),
    ),
    "Cholesky, more batches": Program(
        lambda side, factor: torch.cholesky_solve(side, factor),
        lambda: (torch.randn(2, 2, 4, 3), _well_conditioned(2).tril()),
        (S(0), S(0)),
    ),
    "triangular, more batches": Program(
        lambda matrix, side: torch.linalg.solve_triangular(matrix, side, upper=True),
        lambda: (_well_conditioned(2).triu(), torch.randn(2, 2, 4, 4)),
        (S(0), S(0)),
    ),
    "triangular, a matrix that is broadcast": Program(
        lambda matrix, side: torch.linalg.solve_triangular(matrix, side, upper=True),
        lambda: (_well_conditioned(1).triu(), torch.randn(6, 4, 4)),
        (R, S(0)),
        is_wrong_with_torch=False,
    ),
}


def placed_result(program: Program, tensors: Sequence[torch.Tensor], mesh: DeviceMesh) -> bool:
    """Is the result on all ranks that of one device?"""
    right = program.run(*(each.clone() for each in tensors))
    ranks = mesh.size()
    with _torch.all_ranks_at_once(ranks):
        operands = [
            distribute_tensor(
                _torch.as_one_tensor([each.clone() for _ in range(ranks)]),
                mesh,
                [placement],
                src_data_rank=None,
            )
            for each, placement in zip(tensors, program.placements, strict=True)
        ]
        made = program.run(*operands)
        assert isinstance(made, DTensor)
        held = _torch.tensors_of_ranks(made.full_tensor(), ranks)
    return all(
        each.shape == right.shape and torch.allclose(each, right, atol=1e-4) for each in held
    )


@pytest.mark.parametrize("name", PROGRAMS)
def test_it_is_right(mesh_of: MeshOf, name: str) -> None:
    torch.manual_seed(0)
    program = PROGRAMS[name]
    tensors = program.tensors()
    with shardprop.enabled():
        assert placed_result(program, tensors, mesh_of(2))
    with shardprop.enabled(corrections=False):
        assert placed_result(program, tensors, mesh_of(2)) is not program.is_wrong_with_torch


def test_a_whole_matrix_is_cut_as_what_is_written_into(mesh_of: MeshOf) -> None:
    torch.manual_seed(0)
    program = Program(
        lambda matrix, side, out: torch.linalg.solve_triangular(matrix, side, upper=True, out=out),
        lambda: (_well_conditioned(4).triu(), torch.randn(4, 4, 4), torch.zeros(4, 4, 4)),
        (R, S(0), S(0)),
    )
    tensors = program.tensors()
    with shardprop.enabled():
        assert placed_result(program, tensors, mesh_of(2))
    # Each rank makes its part as large as the whole.
    with shardprop.enabled(corrections=False), pytest.raises(RuntimeError, match=r"size|shape"):
        placed_result(program, tensors, mesh_of(2))


def test_a_decision_is_not_that_of_another_number(mesh_of: MeshOf) -> None:
    x = distribute_tensor(torch.randn(4, 8), mesh_of(2), [S(0)], src_data_rank=None)
    with shardprop.enabled():
        assert _second_of_two(x).shape == (4, 1)
    with shardprop.enabled(corrections=False):
        assert _second_of_two(x).shape == (4, 3)
