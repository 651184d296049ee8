"""The doctor: what it finds where all is well, and each thing that can be wrong."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh

import shardprop
from shardprop import ShardpropError, _torch
from shardprop.cli.doctor_checks import (
    Finding,
    Report,
    Status,
    examine,
    groups,
    hook,
    state,
    versions,
)
from shardprop.corrections.by_op import CORRECTIONS
from shardprop.corrections.correction import CallCorrection
from shardprop.corrections.scan_from_the_end import SCAN_FROM_THE_END
from shardprop.propagation import propagator
from shardprop.propagation.route import is_needless
from shardprop.redistribution.mesh_cost_models import MeshModels
from shardprop.rules import torch_registry
from shardprop.support.cache import CacheStats

from ..checkout import ROOT
from ..specs import P, R, S, spec_of
from .running import refused, run, run_json

TORCHRUN = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
CHECKS = {
    "shardprop",
    "torch",
    "python",
    "extension",
    "enabled",
    "other patches",
    "corrections",
    "hook",
    "answers",
    "caches",
    "fallbacks",
    "process group",
    "logging",
}


@pytest.fixture(autouse=True)
def no_torchrun(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (*TORCHRUN, "SHARDPROP", "TORCH_LOGS", "TORCH_TRACE"):
        monkeypatch.delenv(name, raising=False)


def found(check: Callable[[], Iterator[Finding]]) -> Finding:
    (finding,) = check()
    return finding


def by_check(report: Report) -> dict[str, Finding]:
    return {finding.check: finding for finding in report.findings}


# --- the whole ---------------------------------------------------------------------------------


def test_json_has_every_check(mesh_of: Any) -> None:
    mesh_of(2, 4)
    code, values = run_json("doctor")
    assert set(values) == {"healthy", "findings"}
    assert (code, values["healthy"]) == (0, True), values
    assert all(set(one) == {"check", "status", "text", "advice"} for one in values["findings"])
    assert {one["check"] for one in values["findings"]} >= CHECKS
    assert {one["status"] for one in values["findings"]} <= {"ok", "note"}


def test_text_has_a_line_for_each_check_and_counts_them() -> None:
    result = run("doctor")
    assert result.exit_code == 0, result.output
    *lines, last = result.stdout.splitlines()
    assert last.startswith("0 problems, ")
    assert all(line.startswith(("ok ", "note ", "         ")) for line in lines)


@pytest.mark.slow
def test_a_problem_ends_with_1_and_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHARDPROP", "yes")
    result = run("doctor")
    assert result.exit_code == 1
    assert "problem  enabled" in result.stdout
    assert "-> export SHARDPROP=1" in result.stdout
    assert run_json("doctor")[1]["healthy"] is False


def test_an_argument_is_refused() -> None:
    assert "unexpected extra argument" in refused("doctor", "now")


@pytest.mark.slow
def test_a_process_without_a_group_is_left_without_one(tmp_path: Path) -> None:
    program = (
        "import torch.distributed as dist, shardprop, json\n"
        "from shardprop.cli.doctor_checks import examine\n"
        "report = examine(); assert not dist.is_initialized() and not shardprop.is_enabled()\n"
        "print(json.dumps(report.to_json()))"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    values = {one["check"]: one for one in json.loads(done.stdout)["findings"]}
    assert values["hook"]["status"] == values["answers"]["status"] == "ok"
    assert values["process group"]["text"] == "none yet"


def test_a_check_that_fails_is_a_problem_and_the_others_go_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def broken() -> Iterator[Finding]:
        raise KeyError("no such thing")
        yield

    monkeypatch.setattr(state, "caches", broken)
    findings = by_check(examine())
    assert findings["broken"].status is Status.PROBLEM
    assert "KeyError: 'no such thing'" in findings["broken"].text
    assert findings["logging"].status is Status.OK


def test_what_is_no_mesh_is_refused() -> None:
    with pytest.raises(ShardpropError, match="Expected DeviceMeshes, got a tuple"):
        examine(meshes=[(2, 2)])  # type: ignore[list-item]
    with pytest.raises(ShardpropError, match="Expected a sequence of DeviceMeshes, got a DeviceM"):
        examine(meshes=init_device_mesh("cpu", (2,)))  # type: ignore[arg-type]


# --- versions ----------------------------------------------------------------------------------


def test_the_oldest_torch_is_that_of_the_package() -> None:
    text = (ROOT / "pyproject.toml").read_text()
    assert f'"torch>={".".join(map(str, versions.TORCH_FROM))}"' in text
    assert f'requires-python = ">={".".join(map(str, versions.PYTHON_FROM))}"' in text


def test_an_older_torch_is_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "__version__", "2.12.1")
    finding = found(versions.torch_version)
    assert finding.status is Status.PROBLEM
    assert "2.12.1" in finding.text and "pip install 'torch>=2.13'" in finding.advice


@pytest.mark.parametrize("version", ["2.99.0+cu130", "3.0.0"])
def test_a_newer_torch_is_noted(monkeypatch: pytest.MonkeyPatch, version: str) -> None:
    monkeypatch.setattr(torch, "__version__", version)
    finding = found(versions.torch_version)
    assert finding.status is Status.NOTE
    assert version in finding.text and "compared decisions" in finding.advice


def test_build_config_says_what_the_extension_is() -> None:
    config = shardprop.build_config()
    assert config["version"] in ("", shardprop.__version__)
    assert config["cxx_standard"] >= 202002
    assert config["python"].split(".")[:2] == [*map(str, sys.version_info[:2])]
    assert config["compiler"] and config["pybind11"].count(".") == 2
    assert set(config) == {
        "version",
        "build_type",
        "assertions",
        "compiler",
        "cxx_standard",
        "pybind11",
        "python",
        "free_threaded",
    }


@pytest.mark.parametrize(
    ("changes", "status", "words"),
    [
        ({}, Status.OK, "Release"),
        ({"python": "3.9.1"}, Status.PROBLEM, "built for Python 3.9.1"),
        ({"version": "0.0.1"}, Status.PROBLEM, "of shardprop 0.0.1 beside Python files of"),
        ({"build_type": "Debug", "assertions": True}, Status.NOTE, "Debug with assertions"),
    ],
)
def test_a_build_that_does_not_fit_is_found(
    monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any], status: Status, words: str
) -> None:
    config = {**shardprop.build_config(), "build_type": "Release", "version": "", **changes}
    monkeypatch.setattr(versions, "build_config", lambda: config)
    finding = found(versions.extension)
    assert finding.status is status
    assert words in finding.text


# --- the hook ----------------------------------------------------------------------------------


def test_whether_it_is_enabled() -> None:
    assert found(hook.enabled).status is Status.NOTE
    with shardprop.enabled(policy="optimal", topology="h100-nvlink"):
        assert found(hook.enabled).text == "yes, policy 'optimal'"


def test_the_hook_is_tried_again_each_time(mesh_of: Any) -> None:
    mesh = mesh_of(2, 2)
    for _ in range(2):
        assert found(lambda: hook.decides(mesh)).status is Status.OK
        assert found(lambda: hook.same_answer(mesh)).status is Status.OK
    assert not shardprop.is_enabled()
    with shardprop.enabled(policy="optimal", topology="h100-nvlink"):
        assert found(lambda: hook.decides(mesh)).status is Status.OK
        assert "optimal" in found(lambda: hook.same_answer(mesh)).text


def test_anothers_patch_in_the_way_is_found(mesh_of: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    prop = _torch.propagator()
    decide = prop.propagate_op_sharding_non_cached

    def of_another_library(schema: Any) -> Any:
        return decide(schema)

    assert found(hook.nobody_else).status is Status.OK
    monkeypatch.setattr(prop, "propagate_op_sharding_non_cached", of_another_library)
    finding = found(hook.nobody_else)
    assert finding.status is Status.PROBLEM
    assert "of_another_library" in finding.text


def test_a_hook_that_is_not_asked_is_found(mesh_of: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    mesh = mesh_of(2)
    monkeypatch.setattr(propagator, "install", lambda propagate: None)
    finding = found(lambda: hook.decides(mesh))
    assert finding.status is Status.PROBLEM
    assert "not decided by the core" in finding.text


def test_another_answer_than_torchs_is_found(mesh_of: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    mesh = mesh_of(2)

    def refuses(schema: Any) -> Any:
        raise ValueError("refused")

    monkeypatch.setattr(propagator, "propagate_sharding", refuses)
    finding = found(lambda: hook.same_answer(mesh))
    assert finding.status is Status.PROBLEM
    assert "refused" in finding.text and "aten.mm.default" in finding.text


def test_corrections_that_this_torch_does_not_need_are_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Those whose ops torch decides by single-dim rules, which do not have the fault, or not by
    rules at all."""

    def has_fault(each: CallCorrection, op: torch._ops.OpOverload) -> bool:
        if _torch.single_dim_rule_of(op):
            return op in each.in_rows
        return torch_registry.has_own_full_mesh_strategy(op)

    finding = found(hook.corrections)
    needless = [
        each.name
        for each in CORRECTIONS
        if isinstance(each, CallCorrection) and not any(has_fault(each, op) for op in each.ops)
    ]
    assert finding.status is Status.OK
    assert len(needless) == (6 if torch.__version__ >= "2.15" else 2)
    in_use = f"{len(CORRECTIONS) - len(needless)} of {len(CORRECTIONS)} in use"
    names = f"; needless on torch {torch.__version__}: {', '.join(needless)}"
    assert finding.text == in_use + (names if needless else "")


@pytest.mark.skipif(is_needless(SCAN_FROM_THE_END), reason="this torch has rules for these ops")
def test_a_correction_is_needless_once_torch_has_a_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    """For all of its ops: one of several is not enough."""
    one, *others = SCAN_FROM_THE_END.ops
    rules = _torch.propagator().op_single_dim_strategy_funcs
    rule = next(iter(rules.values()))
    monkeypatch.setitem(rules, one, rule)
    assert not is_needless(SCAN_FROM_THE_END)
    for op in others:
        monkeypatch.setitem(rules, op, rule)
    assert is_needless(SCAN_FROM_THE_END)
    assert SCAN_FROM_THE_END.name in found(hook.corrections).text


def test_corrections_that_are_off_are_noted() -> None:
    with shardprop.enabled(corrections=False):
        finding = found(hook.corrections)
    assert finding.status is Status.NOTE
    assert "corrections=False" in finding.text


# --- the state of the process ------------------------------------------------------------------


def test_a_full_cache_is_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    assert found(state.caches).status is Status.OK
    stats = propagator.stats()
    full = {**stats.caches, "a full one": CacheStats(64, 64, 2**20)}
    monkeypatch.setattr(propagator, "stats", lambda: type(stats)(**{**vars(stats), "caches": full}))
    finding = found(state.caches)
    assert finding.status is Status.NOTE
    assert "a full one" in finding.text


def test_what_is_held_for_each_mesh_is_not_full() -> None:
    with shardprop.enabled(policy="optimal", topology="h100-nvlink"):
        # What is held goes with its mesh.
        meshes = [init_device_mesh("cpu", (size,)) for size in (2, 4)]
        for mesh in meshes:
            shardprop.redistribute_cost(spec_of(mesh, (8,), (S(0),)), spec_of(mesh, (8,), (R,)))
        held = propagator.stats().caches[MeshModels.name]
        assert held.entries == held.capacity > 1
        assert found(state.caches).status is Status.OK


def test_logs_of_each_decision_are_noted(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    assert found(state.logs).status is Status.OK
    monkeypatch.setenv("TORCH_LOGS", "+dtensor")
    caplog.set_level("DEBUG", "shardprop")
    finding = found(state.logs)
    assert finding.status is Status.NOTE
    assert "TORCH_LOGS=+dtensor" in finding.text


# --- the process group -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "status", "words"),
    [
        ({}, Status.OK, "none yet"),
        (dict.fromkeys(TORCHRUN, "1"), Status.NOTE, "torchrun started this as rank 1 of 1"),
        ({"RANK": "0"}, Status.PROBLEM, "WORLD_SIZE, MASTER_ADDR, MASTER_PORT are not set"),
    ],
)
def test_torchruns_variables_without_a_group(
    monkeypatch: pytest.MonkeyPatch, given: dict[str, str], status: Status, words: str
) -> None:
    monkeypatch.setattr(dist, "is_initialized", lambda: False)
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    finding = found(groups.process_group)
    assert finding.status is status
    assert words in finding.text


def test_a_group_of_another_size_than_torchruns(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "collectives send nothing" in found(groups.process_group).text
    monkeypatch.setattr(dist, "get_backend", lambda: "gloo")
    assert found(groups.process_group).status is Status.OK
    monkeypatch.setenv("WORLD_SIZE", "3")
    finding = found(groups.process_group)
    assert finding.status is Status.PROBLEM
    assert "WORLD_SIZE is 3" in finding.text


def test_groups_of_mesh_dims_that_are_not_flattened_are_named() -> None:
    mesh = init_device_mesh("cpu", (2, 2, 2), mesh_dim_names=("dp", "cp", "tp"))
    advice = by_check(examine(meshes=[mesh]))["mesh 2x2x2"].advice
    assert advice.count("_flatten()") == 3 and "and 1 more like these on all ranks" in advice
    mesh["dp", "tp"]._flatten()
    finding = by_check(examine(meshes=[mesh]))["mesh 2x2x2"]
    assert finding.status is Status.NOTE
    assert "(dp, cp), (cp, tp), (dp, cp, tp)" in finding.text
    assert "up to 3 collectives" in finding.text
    assert "mesh['dp', 'cp']._flatten()" in finding.advice
    for dims in (("dp", "cp"), ("cp", "tp"), ("dp", "cp", "tp")):
        _torch.flatten_mesh(mesh[dims] if len(dims) < 3 else mesh)
    finding = by_check(examine(meshes=[mesh]))["mesh 2x2x2"]
    assert (finding.status, finding.text) == (Status.OK, "all 4 groups of dims are flattened")


def test_what_flattened_groups_would_save_is_told_under_prices() -> None:
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    assert " us" not in found(lambda: groups.flattened([mesh])).text
    with shardprop.enabled(policy="optimal", topology="h100-nvlink"):
        text = found(lambda: groups.flattened([mesh])).text
        pending, reduced = (spec_of(mesh, (4096, 4096), (p, p)) for p in (P, R))
        before = shardprop.plan(pending, reduced).cost_us
        assert f"64 MiB are reduced in {before:.1f} us, with mesh['dp', 'tp']._flatten()" in text
        mesh["dp", "tp"]._flatten()
        after = shardprop.plan(pending, reduced).cost_us
    assert f": {after:.1f} us, {before - after:.1f} less, " in text


def test_a_mesh_without_names_is_noted_and_one_of_one_dim_is_not(mesh_of: Any) -> None:
    assert "its dims have no names" in found(lambda: groups.flattened([mesh_of(2, 4)])).text
    assert found(lambda: groups.flattened([mesh_of(8), mesh_of(1, 8)])).status is Status.OK


def test_meshes_of_the_process_are_found() -> None:
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("a", "b"))
    living = groups.living_meshes()
    assert any(each is mesh for each in living)
    assert all(each is not mesh["a"] for each in living)
