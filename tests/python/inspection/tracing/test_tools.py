"""The log, torch's structured trace, DebugMode and CommDebugMode beside a trace."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import jsonschema
import pytest
import torch
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor.debug import CommDebugMode
from torch.utils._debug_mode import DebugMode

import shardprop

from ...specs import S
from .models import Model, batch, dtensor

MeshOf = Callable[..., DeviceMesh]

PROGRAM = """
import warnings
warnings.simplefilter("ignore")
import torch
import torch.distributed as dist
from torch.testing._internal.distributed.fake_pg import FakeStore
dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard, distribute_tensor
import shardprop
x = distribute_tensor(torch.ones(8, 8), init_device_mesh("cpu", (2,)), [Shard(0)])
shardprop.enable()
for _ in range(2):
    torch.mm(x, x)
"""
TRACED = """
with shardprop.trace():
    x.sin()
"""


def _run(program: str, **environment: str) -> str:
    """What a program says on stderr, in a process of its own."""
    result = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=True,
        timeout=240,
    )
    return result.stderr


def test_the_log_has_a_line_for_each_miss(
    mesh_of: MeshOf, caplog: pytest.LogCaptureFixture
) -> None:
    x = dtensor(mesh_of(2), (8, 8), [S(0)])
    with shardprop.enabled(), caplog.at_level(logging.DEBUG, "shardprop"):
        x.sin()
        x.sin()
    (line,) = [r.getMessage() for r in caplog.records if r.name == "shardprop"]
    assert line.startswith("sharding_prop MISS: aten.sin.default(Spec(f32[8, 8](S(0))))")
    assert line.endswith(" ms, core")
    assert " -> Spec(f32[8, 8](S(0))" in line


def test_the_log_has_errors_too(mesh_of: MeshOf, caplog: pytest.LogCaptureFixture) -> None:
    x = dtensor(mesh_of(2), (8, 8), [S(0)])
    other = dtensor(mesh_of(4), (8, 8), [S(0)])
    with (
        shardprop.enabled(),
        caplog.at_level(logging.DEBUG, "shardprop"),
        pytest.raises(RuntimeError),
    ):
        x.add_(other)
    assert "sharding_prop MISS: aten.add_.Tensor" in caplog.text


def test_at_the_default_level_nothing_is_logged(
    mesh_of: MeshOf, caplog: pytest.LogCaptureFixture
) -> None:
    x = dtensor(mesh_of(2), (8, 8), [S(0)])
    with shardprop.enabled(), caplog.at_level(logging.WARNING, "shardprop"):
        x.sin()
    assert [r for r in caplog.records if r.name == "shardprop"] == []


def test_a_fallback_is_told_once_at_info(mesh_of: MeshOf, caplog: pytest.LogCaptureFixture) -> None:
    from torch.distributed.tensor import DTensor
    from torch.distributed.tensor._ops.single_dim_strategy import register_single_dim_strategy

    with torch.library._scoped_library("shardprop_test", "FRAGMENT") as library:
        library.define("peculiar(Tensor x) -> Tensor")
        library.impl("peculiar", lambda x: x * 2, "CompositeExplicitAutograd")
        op = torch.ops.shardprop_test.peculiar.default

        @register_single_dim_strategy(op)
        def peculiar(op, args, kwargs):
            return [[S(7), S(7)]]

        with shardprop.enabled(), caplog.at_level(logging.INFO, "shardprop"):
            for size in (8, 16):
                op(dtensor(mesh_of(2), (size, 8), [S(0)]))
        DTensor._op_dispatcher.sharding_propagator.op_single_dim_strategy_funcs.pop(op)
    (line,) = [r.getMessage() for r in caplog.records if r.name == "shardprop"]
    assert line.startswith("fallback to torch for shardprop_test.peculiar.default: malformed rule")


@pytest.mark.slow
@pytest.mark.parametrize(("setting", "lines"), [("+shardprop", 1), ("shardprop", 0)])
def test_torch_logs_takes_the_name(setting: str, lines: int) -> None:
    said = _run(PROGRAM, TORCH_LOGS=setting)
    assert said.count("sharding_prop MISS: aten.mm.default") == lines


@pytest.mark.slow
def test_torchs_structured_trace_has_the_document(tmp_path: Path) -> None:
    _run(PROGRAM + TRACED, TORCH_TRACE=str(tmp_path))
    (written,) = tmp_path.iterdir()
    lines = written.read_text().splitlines()
    (start,) = [i for i, line in enumerate(lines) if '"name": "shardprop_trace"' in line]
    assert '"artifact": {"name": "shardprop_trace", "encoding": "json"}' in lines[start]
    payload = []
    for line in lines[start + 1 :]:
        if not line.startswith("\t"):
            break
        payload.append(line[1:])
    document = json.loads("\n".join(payload))
    assert [d["op"] for d in document["decisions"]] == ["aten.sin.default"]
    schema = Path(shardprop.__file__).parent / "schemas" / "trace.schema.json"
    jsonschema.Draft202012Validator(json.loads(schema.read_text())).validate(document)


def test_debug_mode_has_the_counters_of_a_trace_in_it(mesh_of: MeshOf) -> None:
    x = dtensor(mesh_of(2), (8, 8), [S(0)])
    with DebugMode() as mode, shardprop.trace() as t:
        torch.mm(x, x)
    shown = mode.debug_string()
    assert f"[annotate] shardprop: {t.counters()}" in shown
    assert t.counters().startswith("1 decisions (1 core) in ")
    assert t.counters().endswith(", 1 redistributions")
    assert "redistribute_input [implicit] (1, S(0) -> R)" in shown


def test_debug_mode_sees_the_same_calls_beside_a_trace(mesh_of: MeshOf) -> None:
    def calls() -> list[str]:
        model = Model(mesh_of(2))
        with DebugMode() as mode:
            model(batch(mesh_of(2))).backward()
        return mode.debug_string().splitlines()

    with shardprop.enabled(policy="optimal", topology="h100-nvlink"):
        alone = calls()
        with shardprop.trace():
            assert calls() == alone
    assert any("redistribute" in line for line in alone)


def test_comm_debug_mode_counts_the_same_beside_a_trace(mesh_of: MeshOf) -> None:
    def counts() -> dict[object, int]:
        model = Model(mesh_of(2))
        with CommDebugMode() as mode:
            model(batch(mesh_of(2)).requires_grad_()).backward()
        return dict(mode.get_comm_counts())

    with shardprop.enabled():
        alone = counts()
        with shardprop.trace() as t:
            assert counts() == alone
    assert sum(alone.values()) == sum(r.collectives for r in t.redistributions) > 0


@pytest.mark.slow
def test_importing_shardprop_loads_no_tracing() -> None:
    _run(
        "import shardprop, sys\n"
        "package = 'shardprop.inspection.tracing'\n"
        "loaded = [name for name in sys.modules if name.startswith(package)]\n"
        "assert loaded == [], loaded\n"
        "assert callable(shardprop.trace)\n"
        "assert 'shardprop.inspection.tracing' in sys.modules\n"
    )


@pytest.mark.slow
def test_a_trace_can_be_read_after_the_process_group_is_gone() -> None:
    _run(
        PROGRAM
        + "shardprop.disable()\n"
        + "with shardprop.trace() as t:\n"
        + "    torch.mm(x, x)\n"
        + "    dist.destroy_process_group()\n"
        + "(moved,) = t.most_expensive()\n"
        + "assert moved.us > 0, moved\n"
        + "assert t.to_json()['summary']['unpriced'] == 0\n"
        + "assert 'all_gather over mesh dim 0' in str(t)\n"
    )
