"""`shardprop audit`: what torch alone is wrong in a script, line by line."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema
import pytest

import shardprop
from shardprop.corrections.convolution_handler import CONVOLUTION_HANDLER
from shardprop.corrections.local_sizes import LOCAL_SIZES
from shardprop.corrections.no_dims_named import NO_DIMS_NAMED
from shardprop.corrections.uneven_flattened_gather import UNEVEN_FLATTENED_GATHER

from .running import refused, run, run_json

HEAD = """
import sys
import torch, torch.distributed as dist, torch.nn.functional as F
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor

dist.init_process_group("gloo")  # no such ranks: ignored with --fake-ranks
mesh = init_device_mesh("cpu", (4,))

def sharded(size):
    return distribute_tensor(torch.ones(size, 6), mesh, [Shard(0)], src_data_rank=None)

x = sharded(8).requires_grad_()
"""
WRONG = (
    HEAD
    + """
for step in range(2):
    F.mse_loss(x, sharded(8)).backward()  # first
    F.mse_loss(x, sharded(8)).backward()  # the same layouts
    F.mse_loss(sharded(7), sharded(7))  # uneven
torch.ops.aten.sum.dim_IntList(x, [])  # no dims
dist.destroy_process_group()
"""
)
PLANS = (
    HEAD
    + """
mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
mesh["dp", "tp"]._flatten()
for size in (5, 8, 5):
    x = distribute_tensor(torch.ones(size, 3), mesh, [Shard(0)] * 2, src_data_rank=None)
    x.full_tensor()  # uneven
"""
)
RIGHT = HEAD + "(x * 2).sum().backward()\n"


def line_of(script: str, text: str) -> int:
    (found,) = [n for n, line in enumerate(script.splitlines(), 1) if text in line]
    return found


def audit(folder: Path, script: str, *options: str) -> tuple[int, dict[str, Any]]:
    """The exit code, and the document that is alone on stdout."""
    (folder / "script.py").write_text(script)
    return run_json("audit", "--fake-ranks", "4", *options, "--json", str(folder / "script.py"))


def audit_text(folder: Path, script: str, *options: str) -> tuple[int, str]:
    (folder / "script.py").write_text(script)
    result = run("audit", "--fake-ranks", "4", *options, str(folder / "script.py"))
    return result.exit_code, result.stdout


def test_every_line_is_found_with_the_calls_of_each(tmp_path: Path) -> None:
    """Two lines with the same layouts, of which torch's cache would answer the second; and calls
    of a second step."""
    code, found = audit(tmp_path, WRONG)
    assert code == 0
    rows = [(row["line"], row["op"], row["backward"], row["count"]) for row in found["findings"]]
    backward = "aten.mse_loss_backward.default"
    assert rows == [
        (line_of(WRONG, "# first"), backward, True, 2),
        (line_of(WRONG, "# the same layouts"), backward, True, 2),
        (line_of(WRONG, "# uneven"), "aten.mse_loss.default", False, 2),
        (line_of(WRONG, "# no dims"), "aten.sum.dim_IntList", False, 1),
    ]
    assert {row["file"] for row in found["findings"]} == {str(tmp_path / "script.py")}


def test_a_finding_tells_the_layouts_and_both_decisions(tmp_path: Path) -> None:
    _, found = audit(tmp_path, WRONG)
    uneven, no_dims = found["findings"][2:]
    assert [(x["name"], x["shape"], x["layout"]) for x in uneven["operands"]] == [
        ("self", "[7, 6]", "S(0)"),
        ("target", "[7, 6]", "S(0)"),
    ]
    assert uneven["torch"] == {"operands": ["S(0)", "S(0)"], "outputs": ["P(avg)"]}
    assert uneven["shardprop"] == {"operands": ["R", "R"], "outputs": ["R"]}
    assert no_dims["torch"]["outputs"] != no_dims["shardprop"]["outputs"] == ["P(sum)"]
    assert found["faults"] == [
        {"name": fault.name, "torch": fault.fault, "shardprop": fault.right}
        for fault in (LOCAL_SIZES, NO_DIMS_NAMED)
    ]


def test_the_document_is_as_its_schema_says(tmp_path: Path) -> None:
    schema = json.loads((files(shardprop) / "schemas" / "audit.schema.json").read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    for script in (WRONG, RIGHT, PLANS):
        _, found = audit(tmp_path, script)
        jsonschema.Draft202012Validator(schema).validate(found)


def test_the_text_names_the_lines_and_explains_each_fault_once(tmp_path: Path) -> None:
    code, text = audit_text(tmp_path, WRONG)
    assert code == 0
    first, *_ = text.splitlines()
    assert first.startswith("shardprop audit: torch alone is wrong in 7 of ")
    assert first.endswith(" calls of ops on DTensors, at 4 lines")
    assert f"script.py:{line_of(WRONG, '# uneven')} " in text
    assert "  2 x mse_loss(self [7, 6] S(0), target [7, 6] S(0)) on mesh 4: decomposition" in text
    assert "      torch alone  S(0), S(0) -> P(avg)\n      shardprop    R, R -> R\n" in text
    assert text.count(f"  {LOCAL_SIZES.name}: torch follows the decomposition") == 1


def test_arguments_that_are_no_tensors_tell_calls_apart(tmp_path: Path) -> None:
    """A sum of squares is right where their mean is not."""
    both = (
        HEAD
        + """
for reduction in ("sum", "mean", "sum"):
    F.mse_loss(sharded(7), sharded(7), reduction=reduction)
"""
    )
    _, found = audit(tmp_path, both)
    assert [(row["op"], row["count"]) for row in found["findings"]] == [
        ("aten.mse_loss.default", 1)
    ]


def test_a_decision_that_torch_does_not_carry_out_is_found(tmp_path: Path) -> None:
    """torch and shardprop decide alike about a convolution; torch moves nothing for it."""
    script = (
        HEAD
        + """
def made(shape, dim):
    whole = torch.ones(shape)
    return distribute_tensor(whole, mesh, [Shard(dim)], src_data_rank=None)

kernel = distribute_tensor(torch.ones(4, 4, 3), mesh, [Replicate()], src_data_rank=None)
F.conv1d(made((4, 4, 8), 2), kernel, stride=2, padding=1)  # by length
F.conv1d(made((4, 4, 8), 0), kernel, stride=2, padding=1)  # by batches
"""
    )
    _, found = audit(tmp_path, script)
    (row,) = found["findings"]
    assert (row["line"], row["fault"]) == (line_of(script, "# by length"), CONVOLUTION_HANDLER.name)
    assert row["torch"]["operands"] == ["S(2)", "R"] != row["shardprop"]["operands"]
    assert row["torch"]["outputs"] == row["shardprop"]["outputs"]


def test_nothing_found_is_said(tmp_path: Path) -> None:
    code, text = audit_text(tmp_path, RIGHT, "--fail")
    assert code == 0
    (line,) = text.splitlines()
    assert line.startswith("shardprop audit: nothing found in ")
    assert int(line.split()[5]) > 2


def test_a_fault_that_does_not_show_is_no_finding(tmp_path: Path) -> None:
    """torch gathers a pending sum before a norm for another reason."""
    pending = "DTensor.from_local(torch.ones(8, 6), mesh, [Partial()], run_check=False)"
    script = HEAD + f"torch.ops.aten.linalg_vector_norm.default({pending}, 2, [])\n"
    code, found = audit(tmp_path, script, "--fail")
    assert (code, found["alike"], found["findings"]) == (0, 1, [])
    assert (
        "1 call with a known fault of torch that does not show" in audit_text(tmp_path, script)[1]
    )


def test_calls_with_corrections_off_are_counted(tmp_path: Path) -> None:
    off = HEAD + "import shardprop\nwith shardprop.enabled(corrections=False):\n    x.sum()\n"
    _, found = audit(tmp_path, off)
    assert (found["uncorrected"], found["findings"]) == (1, [])
    assert "1 call with corrections=False: not looked at" in audit_text(tmp_path, off)[1]


@pytest.mark.parametrize(
    ("last", "options", "code"),
    [
        ("", (), 0),
        ("", ("--fail",), 1),
        ("sys.exit(3)", ("--fail",), 3),
        ("raise KeyError", (), 1),
    ],
)
def test_the_exit_code_is_the_scripts_or_with_fail_that_of_a_finding(
    tmp_path: Path, last: str, options: tuple[str, ...], code: int
) -> None:
    ended, text = audit_text(tmp_path, f"{WRONG}{last}\n", *options)
    assert ended == code
    assert "torch alone is wrong" in text


def test_of_several_ranks_the_first_reports_and_all_fail(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RANK", "1")
    file = tmp_path / "audit.json"
    code, text = audit_text(tmp_path, WRONG, "--fail", "--json-file", str(file))
    assert (code, text) == (1, "")
    assert not file.exists()


def test_a_file_is_written_beside_the_text(tmp_path: Path) -> None:
    file = tmp_path / "audit.json"
    _, text = audit_text(tmp_path, WRONG, "--json-file", str(file))
    assert text.startswith("shardprop audit: ")
    assert json.loads(file.read_text()) == audit(tmp_path, WRONG)[1]


def test_a_file_without_a_folder_is_refused() -> None:
    words = refused("audit", "--json-file", "/no/such/a.json", __file__)
    assert "--json-file: Expected a folder" in words


def test_plans_that_would_move_wrong_data_are_found(tmp_path: Path) -> None:
    code, found = audit(tmp_path, PLANS, "--fail")
    assert code == 1
    (row,) = found["findings"]
    assert (row["kind"], row["op"], row["fault"], row["count"]) == (
        "redistribution",
        "redistribute",
        UNEVEN_FLATTENED_GATHER.name,
        2,
    )
    assert row["line"] == line_of(PLANS, "# uneven")
    assert (row["torch"], row["shardprop"]["outputs"]) == (None, ["RR"])
    text = audit_text(tmp_path, PLANS)[1]
    assert text.startswith("shardprop audit: torch alone is wrong in 2 redistributions, at 1 line")
    assert "  2 x redistribute: [5, 3] S(0)[0]S(0)[1] -> RR on mesh dp=2, tp=2: uneven" in text


@pytest.mark.slow
def test_real_ranks_are_audited(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(
        WRONG.replace("(4,)", "(2,)").replace(", src_data_rank=None", "")
    )
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    command = [*launcher, "-m", "shardprop", "audit", "--json-file", "found.json", "script.py"]
    done = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("shardprop audit: torch alone is wrong in 7 of ") == 1
    found = json.loads((tmp_path / "found.json").read_text())
    assert [row["count"] for row in found["findings"]] == [2, 2, 2, 1]
