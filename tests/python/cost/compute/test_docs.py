"""What docs/cost-models.md shows of prices of ops is so."""

from __future__ import annotations

import re

import pytest
import torch

from shardprop.cost.compute import Work
from shardprop.cost.topology import Topology, load_topology

from ...checkout import ROOT

PAGE = ROOT / "docs" / "cost-models.md"


def section() -> str:
    (found,) = re.findall(r"^## What an op costs\n(.*?)^## ", PAGE.read_text(), re.DOTALL | re.M)
    assert isinstance(found, str)
    return found


def test_the_code_on_the_page_gives_what_it_says() -> None:
    (code,) = re.findall(r"```python\n(.*?)```", section(), re.DOTALL)
    *setup, price, work = code.strip().splitlines()
    names: dict[str, object] = {}
    exec("\n".join(setup), names)
    asked, said = price.split("#")
    assert f"{eval(asked, names):.1f} microseconds" == said.strip()
    asked, said = work.split("#")
    assert eval(asked, names) == eval(said, {"Work": Work, "torch": torch})


@pytest.mark.parametrize("column", [0, 1, 2, 3])
def test_the_table_of_peaks_is_that_of_the_presets(column: int) -> None:
    head, _, *rows = [
        [cell.strip() for cell in line.strip("|").split("|")[1:]]
        for line in section().splitlines()
        if re.match(r"\| (type|float|bfloat|int)|\|---\|---:", line)
    ]
    (types,) = [re.findall(r"^\| ([a-z]*float\w+|int8) \|", section(), re.M)]
    topology = load_topology(head[column])
    assert isinstance(topology, Topology)
    assert topology.compute is not None
    shown = {name: float(row[column]) for name, row in zip(types, rows, strict=True) if row[column]}
    assert shown == topology.compute.peak_tflops
