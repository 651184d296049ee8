"""Where a trace says that a fault of torch's was put right."""

from __future__ import annotations

import json
from collections.abc import Callable
from importlib.resources import files
from typing import Any

import jsonschema
import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh

import shardprop
from shardprop._torch import flatten_mesh
from shardprop.corrections.by_op import CORRECTIONS
from shardprop.corrections.local_sizes import LOCAL_SIZES
from shardprop.corrections.no_dims_named import NO_DIMS_NAMED
from shardprop.corrections.uneven_flattened_gather import UNEVEN_FLATTENED_GATHER
from shardprop.inspection.tracing import Trace
from shardprop.inspection.tracing.session import corrected_calls
from shardprop.propagation import observers
from shardprop.propagation.observers import Observed

from ...specs import R, S
from .models import dtensor, line_of

MeshOf = Callable[..., DeviceMesh]


class Regression(nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return F.mse_loss(x, y)  # the loss


def uneven_mean(mesh: DeviceMesh) -> None:
    x, y = (dtensor(mesh, (7, 6), [S(0)]) for _ in range(2))
    F.mse_loss(x, y)  # here first
    F.mse_loss(x, y)


def gathers() -> None:
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    flatten_mesh(mesh)
    for size in (5, 8, 5):
        dtensor(mesh, (size, 3), [S(0), S(0)]).full_tensor()


def validate(document: dict[str, Any]) -> None:
    schema = json.loads((files(shardprop) / "schemas" / "trace.schema.json").read_text())
    jsonschema.Draft202012Validator(schema).validate(document)


@pytest.fixture(scope="module")
def plans() -> Trace:
    with shardprop.trace() as found:
        gathers()
    return found


@pytest.fixture(scope="module")
def trace(mesh_of: MeshOf) -> Trace:
    mesh = mesh_of(4)
    x = dtensor(mesh, (8, 6), [S(0)]).requires_grad_()
    with shardprop.trace() as found:
        Regression()(x, dtensor(mesh, (8, 6), [S(0)])).backward()
        uneven_mean(mesh)
        (x + 1).sum()
    return found


def test_the_line_the_module_and_the_operands_are_told(trace: Trace) -> None:
    backward, forward = trace.corrections
    assert backward.correction == forward.correction == LOCAL_SIZES.name
    assert (backward.op, forward.op) == ("aten.mse_loss_backward.default", "aten.mse_loss.default")
    assert backward.place.line == line_of(Regression, "# the loss")
    assert (backward.place.module, backward.place.backward) == ("Regression", True)
    placed = {name: spec.placements for name, spec in backward.operands.items()}
    assert placed == {"grad_output": (R,), "self": (S(0),), "target": (S(0),)}
    assert forward.operands["self"].shape == (7, 6)
    assert [decision for decision in trace.decisions if decision is forward.first]


def test_a_call_that_torchs_cache_answers_is_no_decision(trace: Trace) -> None:
    (row,) = [row for row in trace.corrections if not row.place.backward]
    assert row.count == 1
    assert row.place.line == line_of(uneven_mean, "# here first")


def test_other_decisions_have_none(trace: Trace) -> None:
    corrected = {d.op for d in trace.decisions if d.correction}
    assert corrected == {row.op for row in trace.corrections}
    assert "aten.add.Tensor" in {d.op for d in trace.decisions}


def test_counts_are_those_of_the_statistics(trace: Trace) -> None:
    assert trace.stats.corrections == {LOCAL_SIZES.name: sum(r.count for r in trace.corrections)}


def test_the_document_has_them(trace: Trace) -> None:
    document = trace.to_json()
    validate(document)
    assert [(row["correction"], row["count"]) for row in document["corrections"]] == [
        (row.correction, row.count) for row in trace.corrections
    ]
    marked = {(d["op"], d["correction"]) for d in document["decisions"] if d["correction"]}
    assert marked == {(row["op"], row["correction"]) for row in document["corrections"]}
    operands = document["corrections"][0]["operands"]
    assert [(x["name"], x["layout"]["text"]) for x in operands] == [
        ("grad_output", "R"),
        ("self", "S(0)"),
        ("target", "S(0)"),
    ]


def test_the_text_has_a_section_where_there_is_one(trace: Trace, mesh_of: MeshOf) -> None:
    text = str(trace)
    assert "mse_loss_backward(grad_output R, self S(0), target S(0)): decomposition" in text
    assert f"test_corrections.py:{line_of(Regression, '# the loss')}" in text
    with shardprop.trace() as nothing:
        dtensor(mesh_of(4), (8, 6), [S(0)]).sum()
    assert "Put right" in text and "Put right" not in str(nothing)


def test_a_long_list_is_cut(mesh_of: MeshOf) -> None:
    lines = "\n".join(f"torch.sum(made({size}), [])" for size in range(8, 20))
    made = {"made": lambda size: dtensor(mesh_of(4), (size, 6), [S(0)]), "torch": torch}
    with shardprop.trace() as found:
        exec(compile(lines, "made_up.py", "exec"), made)
    rows = found.corrections
    assert {row.correction for row in rows} == {NO_DIMS_NAMED.name}
    assert len(rows) == 12
    assert "and 2 rows more: Trace.corrections" in str(found)


def test_corrections_off_are_none(mesh_of: MeshOf) -> None:
    mesh = mesh_of(4)
    with shardprop.enabled(corrections=False), shardprop.trace() as found:
        uneven_mean(mesh)
    assert found.decisions and found.corrections == []


def test_an_observer_is_told_the_name_and_of_the_next_decision_none(mesh_of: MeshOf) -> None:
    x = dtensor(mesh_of(4), (8, 6), [S(0)])
    seen: list[Observed] = []
    observers.add(seen.append)
    try:
        with shardprop.enabled():
            torch.ops.aten.sum.dim_IntList(x, [])
            torch.ops.aten.sum.dim_IntList(x, [0])
    finally:
        observers.remove(seen.append)
    assert [asked.correction for asked in seen] == [NO_DIMS_NAMED.name, None]


def test_names_tell_corrections_apart() -> None:
    assert len({correction.name for correction in CORRECTIONS}) == len(CORRECTIONS)


def test_corrected_calls_are_counted_on_every_line(mesh_of: MeshOf) -> None:
    with corrected_calls() as found:
        uneven_mean(mesh_of(4))
        dtensor(mesh_of(4), (8, 6), [S(0)]).sum()
    assert [(row.op, row.count) for row in found.corrections] == [("aten.mse_loss.default", 1)] * 2
    assert len(found.decisions) == 2 and found.redistributions == []


def test_afterwards_torchs_cache_answers_again(mesh_of: MeshOf) -> None:
    x = dtensor(mesh_of(4), (8, 6), [S(0)])
    with shardprop.enabled():
        with corrected_calls():
            x.sum()
        x.sum()
        with shardprop.trace() as found:
            x.sum()
    assert (found.hits, found.misses, found.decisions) == (1, 0, [])


def test_plans_are_told_each_time_that_they_run(plans: Trace) -> None:
    (row,) = plans.corrections
    assert (row.correction, row.op) == (UNEVEN_FLATTENED_GATHER.name, "redistribute")
    assert row.count == 2
    assert [spec.placements for spec in row.operands.values()] == [(S(0), S(0))]
    assert [r.correction for r in plans.redistributions] == [row.correction, None, row.correction]
    assert plans.stats.corrections == {row.correction: 2}


def test_plans_are_in_the_document_and_the_text(plans: Trace) -> None:
    document = plans.to_json()
    validate(document)
    assert [(r["correction"], r["count"]) for r in document["redistributions"]] == [
        (UNEVEN_FLATTENED_GATHER.name, 2),
        (None, 1),
    ]
    assert f"  2 x redistribute(S(0)S(0)): {UNEVEN_FLATTENED_GATHER.name}" in str(plans)


def test_corrected_calls_have_the_plans() -> None:
    with corrected_calls() as found:
        gathers()
    assert [(row.op, row.count) for row in found.corrections] == [("redistribute", 2)]
    assert len(found.redistributions) == 2
