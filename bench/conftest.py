"""One fake process group, meshes by shape, and one way to time torch and shardprop alike."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh

# Sizes of the meshes: 8 to 64 ranks, as SEMANTICS of torch's costs were measured.
MESHES = {1: (8,), 2: (8, 8), 3: (4, 4, 4), 4: (2, 2, 4, 4)}

# torch takes from a millisecond (1-D) to a second (4-D) per decision.
TORCH_ROUNDS = {1: 40, 2: 12, 3: 4, 4: 2}


def pytest_benchmark_update_machine_info(config: Any, machine_info: dict[str, Any]) -> None:
    machine_info["torch"] = torch.__version__


@pytest.fixture(scope="session", autouse=True)
def process_group() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        dist.init_process_group("fake", rank=0, world_size=64)
        torch.set_num_threads(1)  # a local op on two shared cores waits for the other one
        yield
        dist.destroy_process_group()


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> None:
    """Local ops are small, and for a second thread a busy machine makes them wait: mm 20 ms."""
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def mesh_of(process_group: None) -> Callable[..., DeviceMesh]:
    known: dict[tuple[int, ...], DeviceMesh] = {}

    def make(*shape: int) -> DeviceMesh:
        if shape not in known:
            known[shape] = init_device_mesh("cpu", shape)
        return known[shape]

    return make


@pytest.fixture
def run(benchmark: Any) -> Callable[..., Any]:
    """Times `target()` and returns its answer. `before()` runs before each round, untimed."""

    def timed(
        target: Callable[[], Any],
        rounds: int,
        group: str,
        before: Callable[[], None] | None = None,
        iterations: int = 1,
    ) -> Any:
        benchmark.group = group
        if before is None:
            return benchmark.pedantic(
                target, rounds=rounds, iterations=iterations, warmup_rounds=1 if rounds > 1 else 0
            )

        def setup() -> None:
            before()

        return benchmark.pedantic(target, setup=setup, rounds=rounds, iterations=1)

    return timed
