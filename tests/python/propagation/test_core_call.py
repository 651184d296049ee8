"""What the core is told of a question."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.distributed.device_mesh import DeviceMesh

from shardprop.model.question import question_of
from shardprop.propagation.core_call import _candidate_specs
from shardprop.rules import torch_registry

from ..specs import R, S, meta_of, spec_of

aten = torch.ops.aten


def test_a_filter_sees_the_metadata_of_the_outputs_that_there_are(
    mesh_of: Callable[..., DeviceMesh],
) -> None:
    mesh = mesh_of(4)
    operand = spec_of(mesh, (8, 6), [S(0)])
    schema = torch_registry.op_schema(
        aten.native_layer_norm.default, (operand, [6], None, None, 1e-5), {}
    )
    outputs: tuple[Any, ...] = (meta_of((8, 6)), meta_of((8, 1)))
    question = question_of(schema, outputs)
    cut, whole = (S(0),), (R,)
    # The second of three is absent: the third has the second's metadata.
    specs = _candidate_specs(question, mesh, (cut, None, whole, cut), 3)
    assert [None if spec is None else (spec.placements, spec.tensor_meta) for spec in specs] == [
        (cut, outputs[0]),
        None,
        (whole, outputs[1]),
        (cut, operand.tensor_meta),
    ]
