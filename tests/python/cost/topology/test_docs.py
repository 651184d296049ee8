"""What docs/cost-models.md shows works as it says."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from torch.distributed.device_mesh import init_device_mesh

from shardprop.cost.topology import Topology, load_topology
from shardprop.errors import ShardpropError

from ...checkout import ROOT

PAGE = ROOT / "docs" / "cost-models.md"


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file that the page shows, as cluster.json."""
    (block,) = re.findall(r"```json\n(.*?)```", PAGE.read_text(), re.DOTALL)
    file = tmp_path_factory.mktemp("docs") / "cluster.json"
    file.write_text(block)
    return file


def test_the_file_on_the_page_is_read(example: Path, process_group: None) -> None:
    mesh = init_device_mesh("cpu", (2, 4), mesh_dim_names=("dp", "tp"))
    model = load_topology(example).on(mesh, [(0, 1)])
    (gather,) = model.groups[-1].lines[0].pieces
    assert gather.fixed_us == 41.5
    assert gather.us_per_byte == pytest.approx(1e-3 / 170)


def test_the_messages_on_the_page_are_those_that_come(example: Path, process_group: None) -> None:
    mesh = init_device_mesh("cpu", (2, 4), mesh_dim_names=("dp", "tp"))
    came = []
    for change in (
        lambda d: d["groups"][1]["all_gather"].update(bandwidth_gb_s=-3),
        lambda d: d["memory"].update(gb=1),
        lambda d: d["groups"][0].update(mesh_dims=["pp"]),
        lambda d: None,
        lambda d: (d.pop("node"), d["groups"].pop()),
    ):
        document = json.loads(example.read_text())
        change(document)
        file = example.with_name("changed.json")
        file.write_text(json.dumps(document))
        with pytest.raises(ShardpropError) as caught:
            load_topology(file).on(mesh)
        came.append(str(caught.value).replace(str(file), "cluster.json"))
    shown = re.findall(r"^cluster\.json: .*$", PAGE.read_text(), re.MULTILINE)
    assert came == shown


@pytest.mark.parametrize("name", ["a100-nvlink", "h100-nvlink", "b200-nvlink"])
def test_the_table_of_presets_has_their_figures(name: str) -> None:
    topology = load_topology(name)
    assert isinstance(topology, Topology)
    assert topology.node is not None
    assert topology.node.between is not None
    (row,) = re.findall(rf"^\| `{name}` \|(.*)\|$", PAGE.read_text(), re.MULTILINE)
    shown = [float(cell.split()[0].replace(",", "")) for cell in row.split("|")]
    within, between = topology.node.within.all_gather, topology.node.between.links.all_gather
    assert shown == pytest.approx(
        [
            topology.launch_us,
            within.latency_us,
            within.bandwidth_gb_s,
            between.latency_us,
            between.bandwidth_gb_s,
            topology.memory.bandwidth_gb_s,
        ]
    )
