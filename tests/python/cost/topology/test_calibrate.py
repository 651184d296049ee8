"""`shardprop calibrate` and `calibrate`: on real processes, looked at for structure, not time."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from torch.distributed.device_mesh import init_device_mesh
from typer.testing import CliRunner

from shardprop.cli import app
from shardprop.cost.calibration import Settings, calibrate
from shardprop.cost.calibration.settings import parse_sizes
from shardprop.cost.calibration.workloads import PRODUCT_DTYPES
from shardprop.cost.cost_model import COLLECTIVES
from shardprop.cost.topology import Topology, load_topology
from shardprop.errors import ShardpropError

pytestmark = pytest.mark.slow

TINY = ("--sizes", "64,1KiB", "--repetitions", "2")


TORCHRUN = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node")


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    """The command in a process of its own."""
    return python("-m", "shardprop", "calibrate", *arguments)


def python(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
        env={**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"},
    )


def groups_in(values: dict[str, Any]) -> list[tuple[str, tuple[int, ...], int]]:
    return [(one["what"], tuple(one["mesh_dims"]), one["ranks"]) for one in values["fitted"]]


# --- on real processes ------------------------------------------------------------------------


@pytest.fixture(scope="module")
def calibrated(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], Path]:
    """A mesh of four processes with all its groups: what is printed, and the file."""
    file = tmp_path_factory.mktemp("calibrated") / "topology.json"
    done = run("--mesh", "2x2", "--flatten", *TINY, "--json", "--output", str(file))
    assert done.returncode == 0, done.stderr[-4000:]
    values = json.loads(done.stdout)
    assert isinstance(values, dict)
    return values, file


def test_every_collective_of_every_group_is_measured(
    calibrated: tuple[dict[str, Any], Path],
) -> None:
    groups = [((0,), 2), ((1,), 2), ((0, 1), 4)]
    expected = [(what, *group) for group, what in itertools.product(groups, COLLECTIVES)]
    assert groups_in(calibrated[0]) == [("copy", (), 1), *expected]


def test_every_size_is_measured_and_the_error_is_that_of_the_line(
    calibrated: tuple[dict[str, Any], Path],
) -> None:
    for one in calibrated[0]["fitted"]:
        assert len(one["points"]) == 2
        off = [abs(p["predicted_us"] - p["measured_us"]) / p["measured_us"] for p in one["points"]]
        assert one["max_error"] == pytest.approx(max(off))
        assert one["fixed_us"] >= 0
        assert one["us_per_byte"] >= 0


def test_bytes_are_those_of_the_cost_model(calibrated: tuple[dict[str, Any], Path]) -> None:
    held = (64, 1024)
    wire = {
        "copy": lambda b, n: 2 * b,
        "all_gather": lambda b, n: (n - 1) * b,
        "reduce_scatter": lambda b, n: (n - 1) * b // n,
        "all_reduce": lambda b, n: 2 * (n - 1) * b // n,
        "all_to_all": lambda b, n: (n - 1) * b,  # gloo: made of an all-gather
        "permute": lambda b, n: b,
    }
    for one in calibrated[0]["fitted"]:
        expected = [wire[one["what"]](b, one["ranks"]) for b in held]
        assert [point["bytes"] for point in one["points"]] == expected


def test_the_file_is_a_topology_of_the_mesh(
    calibrated: tuple[dict[str, Any], Path], mesh_of: Any
) -> None:
    values, file = calibrated
    topology = load_topology(file)
    assert isinstance(topology, Topology)
    assert topology.to_json() == values["topology"]
    assert topology.all_to_all_gathers
    assert topology.compute is not None
    assert [*topology.compute.peak_tflops] == ["float64", "float32", "bfloat16", "float16"]
    assert all(rate > 0 for rate in topology.compute.peak_tflops.values())
    model = topology.on(mesh_of(2, 2), [(0, 1)])
    for group in model.groups:
        fits = [one for one in values["fitted"] if tuple(one["mesh_dims"]) == group.mesh_dims]
        for line, fit in zip(group.lines, fits, strict=True):
            (piece,) = line.pieces
            assert piece.fixed_us == pytest.approx(fit["fixed_us"], rel=1e-3)
            # At most 1 PB/s: no line is without a price of bytes.
            assert piece.us_per_byte == pytest.approx(max(fit["us_per_byte"], 1e-9), rel=1e-3)


def test_text_has_a_row_for_each_with_its_error(tmp_path: Path) -> None:
    file = tmp_path / "topology.json"
    done = run("--ranks", "2", "--names", "tp", *TINY, "--output", str(file))
    assert done.returncode == 0, done.stderr[-4000:]
    rows = [line.split() for line in done.stdout.splitlines() if "%" in line]
    assert [row[:2] for row in rows] == [["local", "copy"], *(["tp", c] for c in COLLECTIVES)]
    assert "Products of matrices, TFLOP/s: float64 " in done.stdout
    assert f"Written to {file}" in done.stderr
    topology = load_topology(file)
    assert isinstance(topology, Topology)
    assert [group.mesh_dims for group in topology.groups] == [("tp",)]


def test_under_torchrun_its_ranks_are_measured() -> None:
    done = python(*TORCHRUN, "2", "-m", "shardprop", "calibrate", *TINY, "--json")
    assert done.returncode == 0, done.stderr[-4000:]
    values = json.loads(done.stdout)
    assert groups_in(values) == [("copy", (), 1), *((what, (0,), 2) for what in COLLECTIVES)]


def test_a_program_calibrates_its_own_mesh_alike_on_every_rank() -> None:
    done = python(*TORCHRUN, "4", str(Path(__file__).with_name("calibrating.py")))
    assert done.returncode == 0, done.stderr[-4000:]
    assert json.loads(done.stdout) == {
        # Two sizes of a copy, and of each collective over each group; and products of matrices.
        "taking turns": [2 * (1 + 3 * len(COLLECTIVES)) + len(PRODUCT_DTYPES)],
        "equal": True,
        "entries": [["dp"], ["tp"], ["dp", "tp"]],
        "groups": [[0], [2], [0, 2]],
    }


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no device that is always full")
def test_a_file_that_cannot_be_written_ends_with_1_and_what_was_measured_is_told() -> None:
    done = run("--ranks", "2", *TINY, "--json", "--output", "/dev/full")
    assert done.returncode == 1
    assert "No space left on device" in done.stderr
    assert json.loads(done.stdout)["fitted"]


# --- refusals ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "Expected --mesh or --ranks, or to be run by torchrun; got none."),
        (("--ranks", "1"), "--ranks: Expected 2 to 64, got 1."),
        (("--ranks", "65"), "--ranks: Expected 2 to 64, got 65."),
        (("--mesh", "2by2"), "--mesh: Expected sizes such as 2x4, got '2by2'."),
        (("--mesh", "0x2"), "--mesh: Expected sizes such as 2x4, got '0x2'."),
        (("--mesh", "1x1"), "--mesh: Expected 2 to 64 ranks, got 1x1 of 1."),
        (("--mesh", "2x2", "--ranks", "6"), "--mesh: Expected a mesh of 6 ranks, got 2x2 of 4."),
        (("--ranks", "2", "--device", "tpu"), "--device: Expected cpu or cuda, got 'tpu'."),
        (("--ranks", "2", "--sizes", "1kb"), "sizes: Expected sizes such as 64KiB,4MiB; got"),
        (("--ranks", "2", "--sizes", "64"), "sizes: Expected two different sizes of at least 1 "),
        (("--ranks", "2", "--sizes", "0,64"), "sizes: Expected two different sizes of at least 1"),
        (("--ranks", "2", "--repetitions", "0"), "repetitions: Expected at least 1, got 0."),
        (("--mesh", "2x2", "--names", "dp"), "--names: Expected 2 different names, got 'dp'."),
        (("--mesh", "2x2", "--names", "a,a"), "--names: Expected 2 different names, got 'a,a'."),
        (("--ranks", "2", "--output", "/"), "--output: Expected a file in a folder that is there"),
        (("--ranks", "2", "--output", "/no/file"), "--output: Expected a file in a folder that is"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_a_request_that_makes_no_sense_ends_with_2(
    monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], message: str
) -> None:
    monkeypatch.delenv("RANK", raising=False)
    result = CliRunner().invoke(app, ["calibrate", *arguments])
    assert result.exit_code == 2
    assert f"Error: {message}" in result.output


def test_torchrun_decides_how_many_ranks_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "8")
    for arguments, message in (
        (("--ranks", "4"), "--ranks: Expected 8, as torchrun started, got 4."),
        (("--mesh", "2x2"), "--mesh: Expected a mesh of 8 ranks, got 2x2 of 4."),
    ):
        result = CliRunner().invoke(app, ["calibrate", *arguments])
        assert result.exit_code == 2
        assert message in result.output


def test_sizes_are_read_with_their_units() -> None:
    assert parse_sizes("7, 8B,1KiB,2MiB,1GiB") == (7, 8, 1024, 2 * 2**20, 2**30)


def test_a_mesh_without_anything_to_measure_is_refused(process_group: None) -> None:
    with pytest.raises(ShardpropError, match=r"Expected a mesh dim of size 2 and more, got a mesh"):
        calibrate(init_device_mesh("cpu", (1,)))


def test_ranks_that_are_not_there_cannot_be_measured(mesh_of: Any) -> None:
    with pytest.raises(ShardpropError, match="Expected real process groups, got the fake backend"):
        calibrate(mesh_of(2, 4), Settings())
