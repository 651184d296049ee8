"""Questions of spmd_types' checker: the same answers, each asked once."""

from __future__ import annotations

import logging
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.distributed.device_mesh import init_device_mesh

import shardprop
from shardprop.clients import spmd_types as ours

from ..device import DEVICE

spmd: Any = pytest.importorskip("spmd_types")
checker: Any = pytest.importorskip("spmd_types._checker")
typechecking: Any = pytest.importorskip("spmd_types.checker").typecheck


@pytest.fixture
def operands(process_group: None) -> Iterator[dict[str, Tensor]]:
    """Tensors that are typed on a mesh of two dims."""
    mesh = init_device_mesh(DEVICE, (2, 4), mesh_dim_names=("dp", "tp"))
    dp, tp = (mesh.get_group(dim) for dim in range(2))
    kinds = {
        "x": ((4, 16, 8), {dp: spmd.V, tp: spmd.R}, (dp, None, None)),
        "columns": ((8, 6), {dp: spmd.R, tp: spmd.V}, (None, tp)),
        "rows": ((6, 8), {dp: spmd.R, tp: spmd.V}, (tp, None)),
        "both": ((4, 16, 8), {dp: spmd.V, tp: spmd.V}, (dp, None, tp)),
    }
    with spmd.set_current_mesh(mesh), typechecking(local=False):
        made = {}
        for name, (shape, types, spec) in kinds.items():
            made[name] = torch.randn(shape)
            spmd.assert_type(made[name], types, spmd.PartitionSpec(*spec))
        yield made


def feed_forward(x: Tensor, columns: Tensor, rows: Tensor, both: Tensor) -> Tensor:
    hidden = F.relu(torch.matmul(x * 1.0, columns)).transpose(0, 1)
    hidden = (F.gelu(hidden) + hidden * hidden).transpose(0, 1)
    return torch.matmul(hidden, rows)


PROGRAMS: list[Callable[..., Any]] = [
    feed_forward,
    lambda x, columns, rows, both: both.reshape(64, 8).sum(0),
    lambda x, columns, rows, both: x.unsqueeze(1).expand(4, 3, 16, 8).split(2, 3)[1],
    lambda x, columns, rows, both: torch.cat([x, x], dim=1)[:, 3:5, ...].mean(),
    lambda x, columns, rows, both: torch.where(both > 0, both, 0.0).amax(1),
    lambda x, columns, rows, both: torch.topk(x, 2, dim=-1).values,
    lambda x, columns, rows, both: torch.softmax(both, -1),
    lambda x, columns, rows, both: both @ columns,
    lambda x, columns, rows, both: F.layer_norm(x, (8,), torch.ones(8)),
]


def seen(program: Callable[..., Any], operands: dict[str, Tensor]) -> Any:
    """The types of what it makes, or the first line of what is raised."""
    try:
        made = program(**operands)
    except (RuntimeError, ValueError) as error:
        return type(error), str(error).splitlines()[0].partition(": an operand")[0]
    return spmd.get_local_type(made), spmd.get_partition_spec(made)


@pytest.mark.parametrize("program", PROGRAMS)
def test_types_are_the_same(program: Callable[..., Any], operands: dict[str, Tensor]) -> None:
    expected = seen(program, operands)
    with shardprop.enabled():
        assert checker._ShardPropagator.propagate is not ours._theirs["propagate"]
        assert [seen(program, operands) for _ in range(2)] == [expected] * 2


def test_a_question_is_asked_once(operands: dict[str, Tensor]) -> None:
    with shardprop.enabled():
        theirs = mock.Mock(wraps=ours._theirs["propagate"])
        with mock.patch.dict(ours._theirs, propagate=theirs):
            feed_forward(**operands)
            asked = theirs.call_count
            feed_forward(**operands)
            assert theirs.call_count == asked > 8
            with torch.inference_mode():
                torch.matmul(operands["x"], operands["columns"])
            assert theirs.call_count > asked
            asked = theirs.call_count
            shardprop.enable()  # all that was known is forgotten
            feed_forward(**operands)
            assert theirs.call_count > asked


def test_a_tensor_of_another_mesh_is_not_taken_for_one_of_this(process_group: None) -> None:
    """What it was said to be there decides, too, where sizes are arguments."""
    two = init_device_mesh(DEVICE, (2, 4), mesh_dim_names=("dp", "tp"))
    one = init_device_mesh(DEVICE, (8,), mesh_dim_names=("all",))
    dp, tp, every = two.get_group(0), two.get_group(1), one.get_group(0)
    with typechecking(local=False), shardprop.enabled():
        with spmd.set_current_mesh(two):
            foreign = torch.randn(4, 3)
            spec = spmd.PartitionSpec((dp, tp), None)
            spmd.assert_type(foreign, {dp: spmd.V, tp: spmd.V}, spec)
        with spmd.set_current_mesh(one):
            native = torch.randn(4, 3)
            spmd.assert_type(native, {every: spmd.V}, spmd.PartitionSpec(every, None))
            foreign.view(-1, 2, 3)
            with pytest.raises(RuntimeError, match="into multiple smaller dimensions"):
                native.view(-1, 2, 3)


def test_what_cannot_be_told_apart_is_asked_each_time(operands: dict[str, Tensor]) -> None:
    class Two(int):
        __hash__ = None  # type: ignore[assignment]

    with shardprop.enabled():
        theirs = mock.Mock(wraps=ours._theirs["propagate"])
        with mock.patch.dict(ours._theirs, propagate=theirs):
            for expected in (1, 2):
                operands["x"].sum(Two(2))
                assert theirs.call_count == expected


def test_a_refusal_says_what_would_be_legal(operands: dict[str, Tensor]) -> None:
    with shardprop.enabled(), pytest.raises(RuntimeError, match="No valid sharding") as caught:
        torch.softmax(operands["both"], -1)
    # What it has to become is as torch decides, by prices that differ between its versions.
    assert re.search(
        r"an operand that is S\(2\) there has to become (R|S\([01]\)) first. Redistribute it: "
        r"spmd_types.redistribute\(x, axis, src=S\(2\), dst=\1\)",
        str(caught.value),
    )


def test_disabled_it_asks_dtensor_itself() -> None:
    before = checker._ShardPropagator.propagate
    with shardprop.enabled():
        assert checker._ShardPropagator.propagate is not before
    assert checker._ShardPropagator.propagate is before


def test_another_checker_is_left_alone(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    theirs = checker._ShardPropagator.propagate
    monkeypatch.delattr(checker, "partition_spec_get_shard")
    monkeypatch.setattr(checker, "current_mesh", lambda rank: None)
    with caplog.at_level(logging.WARNING, "shardprop"), shardprop.enabled():
        assert checker._ShardPropagator.propagate is theirs
    (record,) = caplog.records
    assert record.getMessage() == (
        "spmd_types asks DTensor itself: spmd_types._checker.current_mesh takes ('rank',), not (); "
        "spmd_types._checker.partition_spec_get_shard is not there"
    )


@pytest.mark.slow
def test_it_may_be_imported_later() -> None:
    program = (
        "import shardprop; shardprop.enable()\n"
        "import spmd_types._checker as checker, shardprop.clients.spmd_types as o\n"
        "assert checker._ShardPropagator.propagate is o._propagate\n"
        "shardprop.disable()\n"
        "assert checker._ShardPropagator.propagate is not o._propagate\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=300)
