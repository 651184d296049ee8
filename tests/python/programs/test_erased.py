"""The training programs of this folder, erased, on four real processes: DTensor by torch alone
says what is right."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import Replicate, Shard

from shardprop.erasure import PASSES

from ..erasure.block import block
from ..erasure.block import tokens as activations
from . import test_fsdp, test_moe, test_sequence_parallel, test_tensor_parallel, test_vision
from .erased import STEPS_MORE, check_erased, compare_erased
from .outcome import Results
from .pool import Pool
from .world import mesh_of, seeded, spread, train

pytestmark = pytest.mark.slow


def run_block() -> Results:
    mesh = mesh_of((4,), ("tp",))
    model = block(mesh)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)

    def loss(step: int) -> torch.Tensor:
        return model(activations(mesh, seed=step + 10 * mesh.get_rank())).full_tensor().sin().sum()

    return train(model, optimizer, loss)


LLAMA = test_tensor_parallel.run
UNEVEN = partial(LLAMA, size=test_tensor_parallel.UNEVEN, tied=True, local_attention=True)

# Dynamo does not follow torch's `implicit_replication`, in which the attention of these runs.
IMPLICIT = ("Attempted to call function marked as skipped",)
# Fake tensors have no grouped product of DTensors.
GROUPED = ("UnsupportedFakeTensorException",)
# Nor a view of a shard without elements.
EMPTY = ("RuntimeError when making fake tensor call",)


@dataclass
class Case:
    """A program, how many parts of it are erased, and why others are not."""

    program: Callable[[], Results]
    whole: int = 1
    left: Sequence[str] = ()


PROGRAMS = {
    "block": Case(run_block),
    "heads on plain tensors": Case(
        partial(LLAMA, local_attention=True, tied=False, parallel_loss=False), 17, IMPLICIT
    ),
    "heads on DTensors": Case(
        partial(LLAMA, local_attention=False, tied=True, parallel_loss=False), 17, IMPLICIT
    ),
    "parallel loss": Case(
        partial(LLAMA, local_attention=False, tied=False, parallel_loss=True), 17, IMPLICIT
    ),
    "uneven vocabulary": Case(partial(UNEVEN, parallel_loss=False), 10, IMPLICIT),
    "uneven vocabulary, parallel loss": Case(partial(UNEVEN, parallel_loss=True), 10, IMPLICIT),
    "FSDP": Case(partial(test_fsdp.run, (2, 2)), 10, IMPLICIT),
    "HSDP": Case(partial(test_fsdp.run, (2, 1, 2)), 10, IMPLICIT),
    "grouped experts": Case(
        partial(test_moe.run, test_moe.Grouped, tokens_sharded=False), 0, GROUPED
    ),
    "dispatched tokens": Case(partial(test_moe.run, test_moe.Dispatched, tokens_sharded=True)),
    "sequence": Case(partial(test_sequence_parallel.run, length=8)),
    "uneven sequence": Case(partial(test_sequence_parallel.run, length=10)),
    "empty shards": Case(partial(test_sequence_parallel.run, length=3), 8, EMPTY),
    "vision": Case(partial(test_vision.run, (4,), images_need_gradients=False)),
}


# The others run with ``--all-erased`` (pytest started on this folder).
SAMPLE = (
    "HSDP",
    "grouped experts",
    "sequence",
    "vision",
)


def pytest_generate_tests(metafunc: Any) -> None:
    if "name" in metafunc.fixturenames:
        every = metafunc.config.getoption("--all-erased", default=False)
        metafunc.parametrize("name", PROGRAMS if every else SAMPLE)


class Gathered(nn.Module):
    """Layers whose parameters are gathered when they are used, and their gradients scattered."""

    def __init__(self, mesh: DeviceMesh) -> None:
        super().__init__()
        self.up, self.norm, self.down = nn.Linear(8, 16), nn.LayerNorm(16), nn.Linear(16, 8)
        self.scale = nn.Parameter(torch.ones(16))
        for module in self.modules():
            for name, weight in list(module.named_parameters(recurse=False)):
                placement = Replicate() if module is self else Shard(0)
                module.register_parameter(name, nn.Parameter(spread(weight, mesh, placement)))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.linear(x, *whole(self.up)).relu() * self.scale
        weight, bias = whole(self.norm)
        x = F.layer_norm(x, (16,), weight, bias)
        return F.linear(x, *whole(self.down))


def whole(module: nn.Module) -> list[torch.Tensor]:
    parameters: list[Any] = [*module.parameters()]
    return [each.redistribute(placements=[Replicate()]) for each in parameters]


def run_gathered() -> Results:
    mesh = mesh_of((4,), ("dp",))
    model = Gathered(mesh)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def loss(step: int) -> torch.Tensor:
        return model(spread(seeded(8, 8, seed=step), mesh, Shard(0))).square().sum()

    return train(model, optimizer, loss)


def test_small_collectives_are_made_one(gloo: Pool) -> None:
    """gloo's processes add in the same order, however many elements there are."""
    reports = gloo.run(run_gathered, partial(compare_erased, passes=(*PASSES, "buckets")))
    check_erased(reports)
    before, after = reports[0].collectives
    assert before - after == (1 + STEPS_MORE) * 2 * (6 - 1)


def test_program(name: str, gloo: Pool) -> None:
    case = PROGRAMS[name]
    reports = gloo.run(case.program, compare_erased)
    check_erased(reports, whole=case.whole, left=case.left)
