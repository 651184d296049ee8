"""The JSON document, the table, and the texts that are made of a trace."""

from __future__ import annotations

import json
import sys
import types
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import torch
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor._dtensor_spec import DTensorSpec

import shardprop
from shardprop import ShardpropError
from shardprop.inspection.tracing import Trace

from ...specs import P, R, S
from .models import Block, Model, batch, dtensor, line_of

MeshOf = Callable[..., DeviceMesh]


@pytest.fixture(scope="module")
def trace(mesh_of: MeshOf) -> Trace:
    """Two steps of a small model, and a layout that the program asks for."""
    model = Model(mesh_of(2))
    with shardprop.trace() as found:
        for _ in range(2):
            model(batch(mesh_of(2))).backward()
        dtensor(mesh_of(2), (8, 8), [S(0)]).redistribute(placements=[S(1)])
    return found


def _valid(document: dict[str, Any]) -> dict[str, Any]:
    schema = json.loads((files(shardprop) / "schemas" / "trace.schema.json").read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.Draft202012Validator(schema).validate(document)
    assert json.loads(json.dumps(document)) == document, "plain values, no tuples"
    return document


def test_the_document_is_as_its_schema_says(trace: Trace) -> None:
    document = _valid(trace.to_json())
    assert document["schema"] == "shardprop/trace/1"
    assert document["summary"]["decisions"] == len(trace.decisions) > 5
    assert document["summary"]["deciders"] == trace.deciders()
    assert len(document["timeline"]) == len(trace.redistributions)


def test_an_empty_trace_is_a_document_and_a_text() -> None:
    with shardprop.trace() as nothing:
        pass
    document = _valid(nothing.to_json())
    assert document["decisions"] == document["timeline"] == []
    assert str(nothing).startswith("shardprop trace: ")


@pytest.mark.slow
def test_a_step_under_dynamic_shapes_has_sizes_in_words(mesh_of: MeshOf) -> None:
    mesh = mesh_of(2)

    @torch.compile(backend="aot_eager", dynamic=True)
    def product(x: torch.Tensor) -> torch.Tensor:
        return torch.mm(x, x)

    with shardprop.trace() as found:
        product(dtensor(mesh, (8, 8), [S(0)]))
    torch.compiler.reset()
    document = _valid(found.to_json())
    shapes = [o["shape"] for d in document["decisions"] for o in d["operands"]]
    assert any(isinstance(size, str) for shape in shapes for size in shape)
    assert "aten.mm.default" in {d["op"] for d in document["decisions"]}
    assert "mm" in str(found)


def test_events_alike_are_one_entry_with_a_count(trace: Trace) -> None:
    document = trace.to_json()
    counts = [0] * len(document["redistributions"])
    for row, *_ in document["timeline"]:
        counts[row] += 1
    assert counts == [row["count"] for row in document["redistributions"]]
    assert max(counts) == 2, "both steps do the same"


def test_the_timeline_is_in_the_order_of_the_starts(trace: Trace) -> None:
    starts = [start for _, start, *_ in trace.to_json()["timeline"]]
    assert starts == sorted(starts)
    assert 0 < starts[0] < starts[-1] < trace.wall_seconds


def test_a_plan_has_its_steps_with_layouts(trace: Trace) -> None:
    document = trace.to_json()
    (moved,) = [
        r for r in document["redistributions"] if r["op"] is None and r["dst"]["text"] == "S(1)"
    ]
    assert moved["shape"] == [8, 8]
    assert moved["text"] == "S(0)->S(1)"
    (step,) = moved["steps"]
    assert (step["kind"], step["mesh_dims"]) == ("all_to_all", [0])
    assert step["before"] == {
        "text": "S(0)",
        "placements": [{"kind": "shard", "text": "S(0)", "dim": 0}],
        "shard_order": [[0, [0]]],
    }
    assert moved["us"] == pytest.approx(step["comm_us"] + step["local_us"])


def test_meshes_have_names_and_ranks() -> None:
    mesh = init_device_mesh("cpu", (2, 4), mesh_dim_names=("dp", "tp"))
    with shardprop.trace() as found:
        dtensor(mesh, (8, 8), [P, S(0)]).redistribute(placements=[R, S(0)])
    document = _valid(found.to_json())
    (described,) = document["meshes"]
    assert described == {
        "shape": [2, 4],
        "dim_names": ["dp", "tp"],
        "device_type": "cpu",
        "ranks": mesh.mesh.tolist(),
    }
    assert document["redistributions"][0]["src"]["placements"][0] == {
        "kind": "partial",
        "text": "P(sum)",
        "reduce": "sum",
    }


def test_rows_add_up_to_the_whole(trace: Trace) -> None:
    rows = trace.by_module()
    summary = trace.to_json()["summary"]
    assert sum(row.decisions for row in rows) == len(trace.decisions)
    assert sum(row.redistributions for row in rows) == len(trace.redistributions)
    assert sum(row.wire_bytes for row in rows) == summary["wire_bytes"] > 0
    assert sum(row.us for row in rows) == pytest.approx(summary["us"])
    assert sum(row.decision_seconds for row in rows) == pytest.approx(trace.seconds)
    keys = [(row.module, row.backward, row.op) for row in rows]
    assert len({*keys}) == len(keys)


def test_the_most_expensive_come_first_and_the_cheap_ones_not_at_all(mesh_of: MeshOf) -> None:
    mesh = mesh_of(2)
    small, large = (dtensor(mesh, (n, n), [S(0)]) for n in (8, 1024))
    replicated = dtensor(mesh, (8, 8), [R])
    with shardprop.trace() as found:
        for _ in range(3):
            torch.mm(small, small)
        torch.mm(large, large)
        torch.mm(replicated, dtensor(mesh, (8, 8), [S(0)]))  # a chunk, on each rank alone
    rows = found.most_expensive()
    assert [(row.count, tuple(row.src.shape)) for row in rows] == [(1, (1024, 1024)), (3, (8, 8))]
    assert [row.total_us for row in rows] == sorted((row.total_us for row in rows), reverse=True)
    assert all(row.collectives for row in rows)
    assert found.most_expensive(1) == rows[:1]


def test_layers_that_run_the_same_line_are_one_of_the_most_expensive(trace: Trace) -> None:
    forward = [
        row
        for row in trace.most_expensive()
        if not row.place.backward and row.op == "aten.mm.default"
    ]
    assert [(row.count, row.modules) for row in forward] == [
        (4, ("Model.blocks.0", "Model.blocks.1"))
    ]
    assert "in Model.blocks.0 and 1 more" in str(trace)


def test_a_mask_is_no_communication(mesh_of: MeshOf) -> None:
    weight = dtensor(mesh_of(2), (8, 4), [S(0)])
    with shardprop.trace() as found:
        torch.nn.functional.embedding(dtensor(mesh_of(2), (6,), [R]).long(), weight)
    moved = [r for r in found.redistributions if r.operand == "indices"]
    assert [[step.kind for step in r.plan.steps] for r in moved if r.plan] == [["partition"]]
    assert found.most_expensive() == []
    assert found.to_json()["summary"]["unpriced"] == 0


def test_the_report_in_a_terminal(trace: Trace) -> None:
    text = trace.text(width=100)
    line = line_of(Block, "# the product")
    assert text == str(trace.text(100, 10))
    assert max(map(len, text.splitlines())) <= 100
    assert "mm, operand mat2" in text
    assert "[8, 8] float32  S(0)->R  (all_gather over mesh dim 0)" in text
    assert f"models.py:{line}" in text
    assert "in Model.blocks.0" in text
    head, *_ = text.split("\n\n")
    assert f"{len(trace.decisions)}: {len(trace.decisions)} by the core, 0 by torch" in head
    assert f"{trace.hits} hits, {trace.misses} misses" in head


def test_a_narrow_terminal_is_kept_to(trace: Trace) -> None:
    lines = trace.text(width=80).splitlines()
    assert max(len(line) for line in lines if not line.startswith("      ")) <= 80


def test_a_notebook_shows_the_text(trace: Trace) -> None:
    shown = trace._repr_html_()
    assert shown.startswith("<pre>shardprop trace:")
    assert "&lt;- backward" in shown and "<- backward" not in shown
    assert repr(trace).startswith("<Trace: ")


def test_the_page_is_made_of_the_document(
    trace: Trace, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    made = types.ModuleType("shardprop.inspection.report")
    made.page = lambda document: f"<html>{document['schema']}ü"  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "shardprop.inspection.report", made)
    assert trace.to_html() == "<html>shardprop/trace/1ü"
    trace.save_html(tmp_path / "report.html")
    assert (tmp_path / "report.html").read_text(encoding="utf-8") == trace.to_html()


def test_a_decision_is_explained_by_its_question(
    trace: Trace, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = types.ModuleType("shardprop.inspection.explanation")
    made.explain_schema = lambda schema: schema  # type: ignore[attr-defined]
    made.Explanation = lambda of, decisions: (of, *decisions)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "shardprop.inspection.explanation", made)
    first, last = trace.decisions[0], trace.decisions[-1]
    explain: Any = trace.explain
    assert explain(0) == (first.op, first.schema)
    assert explain(last) == explain(-1) == (last.op, last.schema)
    with pytest.raises(ShardpropError, match=r"Expected an index of \d+ decisions, got 999"):
        trace.explain(999)
    with pytest.raises(ShardpropError, match="its index, got a str"):
        trace.explain("0")  # type: ignore[arg-type]
    with (
        shardprop.enabled(policy="optimal", topology="h100-nvlink"),
        pytest.raises(
            ShardpropError, match=r"Expected policy 'torch', under which aten.* got 'optimal'"
        ),
    ):
        trace.explain(0)


def test_a_plan_that_cannot_be_shown_says_why(mesh_of: MeshOf) -> None:
    import dataclasses

    with shardprop.trace() as found:
        dtensor(mesh_of(2), (8, 8), [S(0)]).redistribute(placements=[R])
    (moved,) = found.redistributions
    dst = DTensorSpec(mesh_of(4), (R,), tensor_meta=moved.dst.tensor_meta)
    elsewhere = dataclasses.replace(moved, dst=dst)
    assert elsewhere.plan is None
    assert elsewhere.planned.note == "Expected two specs on one mesh, got two meshes."
    assert (elsewhere.us, elsewhere.wire_bytes, elsewhere.collectives) == (0.0, 0, 0)


def test_the_former_name_of_most_expensive_still_answers(trace: Trace) -> None:
    with pytest.warns(DeprecationWarning, match="Trace.dearest is now most_expensive"):
        assert trace.dearest(2) == trace.most_expensive(2)
