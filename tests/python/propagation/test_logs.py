"""What the log says of a decision."""

from __future__ import annotations

import logging
from collections.abc import Callable

import pytest
import torch
from torch.distributed.device_mesh import DeviceMesh

from shardprop.propagation import logs
from shardprop.rules import torch_registry

from ..specs import S, spec_of


def test_a_line_says_what_was_decided_in_how_many_milliseconds_by_whom(
    mesh_of: Callable[..., DeviceMesh], caplog: pytest.LogCaptureFixture
) -> None:
    spec = spec_of(mesh_of(2), (8, 8), [S(0)])
    schema = torch_registry.op_schema(torch.ops.aten.sin.default, (spec,), {})
    with caplog.at_level(logging.DEBUG, "shardprop"):
        logs.decided(schema, spec, 0.0025, "core")
    (line,) = caplog.messages
    assert line == f"sharding_prop MISS: {schema} -> {spec}, 2.500 ms, core"
