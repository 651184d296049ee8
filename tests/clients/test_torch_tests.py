"""What runs torch's tests twice tells which of them differ, and counts what was decided."""

from __future__ import annotations

from pathlib import Path

import pytest

from .torch_tests import compare

TESTS = """
import multiprocessing
import sys

import torch
import torch.distributed as dist
from torch.distributed.tensor import DeviceMesh, Shard, distribute_tensor
from torch.testing._internal.distributed.fake_pg import FakeStore


def decided():
    dist.init_process_group("fake", rank=0, world_size=2, store=FakeStore())
    x = distribute_tensor(torch.ones(4, 4), DeviceMesh("cpu", [0, 1]), [Shard(0)])
    (x + x).sum()


def test_in_a_process_of_its_own():
    process = multiprocessing.get_context("spawn").Process(target=decided)
    process.start()
    process.join()
    assert process.exitcode == 0


def test_that_fails():
    raise ValueError(id(object()))


def test_that_differs():
    if "shardprop.propagation.propagator" in sys.modules:
        raise RuntimeError("with shardprop")
"""


@pytest.mark.slow
def test_a_test_that_differs_is_named_and_decisions_of_all_processes_count(tmp_path: Path) -> None:
    pytest.importorskip("pytest_reportlog")
    file = tmp_path / "test_some.py"
    file.write_text(TESTS)
    found = compare(file, tmp_path, 120)
    assert dict(found.counts) == {"passed": 1, "failed": 1, "differing": 1}
    assert found.ours.decided > 0
    assert found.differing == [
        "- test_some.py::test_that_differs: passed alone, failed with shardprop",
        "  RuntimeError: with shardprop",
    ]
