"""How fast a topology says that devices compute."""

from __future__ import annotations

import copy
import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from shardprop.cost.topology import PRESETS, Compute, Topology, load_topology
from shardprop.errors import ShardpropError

from .documents import FULL, MISSING, changed

MACHINES = [name for name in PRESETS if name != "torch"]


def loaded(topology: Any) -> Topology:
    found = load_topology(topology)
    assert isinstance(found, Topology)
    return found


def rate(compute: Compute | None, dtype: torch.dtype) -> float:
    assert compute is not None
    return compute.flops_per_us(dtype) / 1e6


def peak(compute: Compute | None, dtype: torch.dtype) -> float:
    assert compute is not None
    return rate(replace(compute, efficiency=1.0), dtype)


def test_a_file_comes_back_as_it_was_written(tmp_path: Path) -> None:
    topology = loaded(FULL)
    assert topology.compute == Compute({"float32": 20.0, "bfloat16": 300.0}, efficiency=0.75)
    topology.save(tmp_path / "saved.json")
    assert loaded(tmp_path / "saved.json") == topology
    assert loaded(topology) == topology
    assert topology.to_json()["compute"] == FULL["compute"]


def test_an_efficiency_of_one_need_not_be_written() -> None:
    assert loaded(changed("compute.efficiency", MISSING)) == loaded(
        changed("compute.efficiency", 1)
    )


def test_a_topology_without_it_is_as_before() -> None:
    topology = loaded(changed("compute", MISSING))
    assert topology.compute is None
    assert "compute" not in topology.to_json()


def test_one_made_in_python_is_checked() -> None:
    bad = replace(loaded(FULL), compute=Compute({"float32": 1.0}, efficiency=2.0))
    with pytest.raises(
        ShardpropError, match=r"two nodes: \$\.compute\.efficiency: Expected a number"
    ):
        load_topology(bad)


def test_it_is_a_value() -> None:
    topology = loaded(FULL)
    for same in (copy.deepcopy(topology), pickle.loads(pickle.dumps(topology))):
        assert same == topology
        assert hash(same) == hash(topology)


def test_efficiency_scales_the_peak() -> None:
    assert rate(Compute({"float32": 20.0}, efficiency=0.25), torch.float32) == 5.0


@pytest.mark.parametrize(
    ("listed", "dtype", "expected"),
    [
        ({"bfloat16": 2.0}, torch.bfloat16, 2.0),
        ({"bfloat16": 2.0}, torch.float16, 2.0),
        ({"float16": 3.0}, torch.bfloat16, 3.0),
        ({}, torch.bfloat16, 1.0),
        ({"float8_e4m3fn": 4.0, "bfloat16": 2.0}, torch.float8_e5m2, 4.0),
        ({"bfloat16": 2.0}, torch.float8_e4m3fn, 2.0),
        ({"int8": 5.0}, torch.uint8, 5.0),
        ({"int8": 5.0}, torch.int64, 1.0),
        ({"float64": 0.5}, torch.complex128, 0.5),
        ({"bfloat16": 2.0}, torch.bool, 1.0),
        ({}, torch.float64, 1.0),
    ],
    ids=str,
)
def test_a_type_that_is_not_listed_has_the_rate_of_the_nearest(
    listed: dict[str, float], dtype: torch.dtype, expected: float
) -> None:
    assert rate(Compute({"float32": 1.0, **listed}), dtype) == expected


@pytest.mark.parametrize("name", MACHINES)
def test_a_preset_says_where_its_rates_are_from(name: str) -> None:
    topology = loaded(name)
    assert topology.compute is not None
    measured = any(source.startswith("efficiency: ") for source in topology.sources)
    assert (topology.compute.efficiency < 1.0) == measured == (name == "h100-nvlink")
    assert [source for source in topology.sources if source.startswith("compute: ")]


def test_rates_of_the_presets_are_dense_peaks_of_the_data_sheets() -> None:
    a100, h100, b200 = (loaded(f"{name}-nvlink").compute for name in ("a100", "h100", "b200"))
    half, fp8 = torch.bfloat16, torch.float8_e4m3fn
    assert [peak(each, half) for each in (a100, h100, b200)] == [312.0, 989.0, 2250.0]
    assert [peak(each, torch.float32) for each in (a100, h100, b200)] == [19.5, 67.0, 75.0]
    assert [peak(each, fp8) for each in (h100, b200)] == [1979.0, 4500.0]
    assert peak(a100, fp8) == 312.0  # it has no units for them
