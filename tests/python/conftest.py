"""One fake process group for the session: 64 ranks in one process, of which this is rank 0."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from typing import Any

import pytest
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh

from .device import DEVICE

WORLD_SIZE = 64

# Texts are as wide as they are without a terminal; the workers of pytest-xdist are given a width.
os.environ.pop("COLUMNS", None)


def pytest_addoption(parser: Any) -> None:
    """Of `parity` alone, but here known whatever pytest is started on."""
    group = parser.getgroup("parity")
    group.addoption("--parity-cases", type=int, default=2_000)
    group.addoption("--parity-seed", type=int, default=0)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files with slow tests come first: at the end no worker waits long for the others."""
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: item.path not in slow)


@pytest.fixture(scope="session", autouse=True)
def process_group() -> Iterator[None]:
    from torch.testing._internal.distributed.fake_pg import FakeStore

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=WORLD_SIZE)
        yield
        dist.destroy_process_group()


@pytest.fixture(scope="session")
def mesh_of(process_group: None):
    """Meshes by shape, made once: outside of simulated ranks, else later tests find them made of
    what each rank holds."""
    from shardprop._torch import no_local_tensors

    known: dict[tuple[int, ...], DeviceMesh] = {}

    def make(*shape: int) -> DeviceMesh:
        if shape not in known:
            with no_local_tensors():
                known[shape] = init_device_mesh(DEVICE, shape)
        return known[shape]

    return make
