"""Bad topology files are refused with the path to the fault."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from shardprop.cost.topology import Link, Memory, Node, PerCollective, Topology, load_topology
from shardprop.errors import ShardpropError

from .documents import FULL, MISSING, changed, paths

JUNK: tuple[Any, ...]
JUNK = (
    None,
    True,
    -1,
    0,
    2.5,
    float("nan"),
    "",
    "x",
    [],
    [[]],
    {},
    {"": 1},
    {1: {}},
    object(),
)

NUMBER_ABOVE_0 = "Expected a number above 0, got "
NOT_NEGATIVE = "Expected a number of at least 0, got "
A_MESH_DIM = "Expected a name, or a whole number of at least 0, got "
A_LINK_KEY = (
    "Expected one of the keys latency_us, bandwidth_gb_s, all_gather, reduce_scatter, all_reduce, "
    "all_to_all, permute"
)
DEEP = "groups.1.all_gather.bandwidth_gb_s"

FAULTS = [
    # negative and zero
    (DEEP, -3, f"groups[1].all_gather.bandwidth_gb_s: {NUMBER_ABOVE_0}-3."),
    (DEEP, 0, f"groups[1].all_gather.bandwidth_gb_s: {NUMBER_ABOVE_0}0."),
    ("memory.bandwidth_gb_s", -1.5, f"memory.bandwidth_gb_s: {NUMBER_ABOVE_0}-1.5."),
    ("memory.kernel_us", -1, f"memory.kernel_us: {NOT_NEGATIVE}-1."),
    ("launch_us", -1, f"launch_us: {NOT_NEGATIVE}-1."),
    ("node.within.latency_us", -0.5, f"node.within.latency_us: {NOT_NEGATIVE}-0.5."),
    ("groups.1.all_gather.fixed_us", -2, f"groups[1].all_gather.fixed_us: {NOT_NEGATIVE}-2."),
    ("node.between.bandwidth_gb_s", 0, f"node.between.bandwidth_gb_s: {NUMBER_ABOVE_0}0."),
    # NaN and infinity
    (DEEP, float("nan"), f"groups[1].all_gather.bandwidth_gb_s: {NUMBER_ABOVE_0}NaN."),
    ("launch_us", float("inf"), f"launch_us: {NOT_NEGATIVE}Infinity."),
    ("launch_us", float("-inf"), f"launch_us: {NOT_NEGATIVE}-Infinity."),
    ("launch_us", 10**400, f"launch_us: {NOT_NEGATIVE}1000000"),
    # wrong types
    ("launch_us", "5", f'launch_us: {NOT_NEGATIVE}"5".'),
    ("launch_us", True, f"launch_us: {NOT_NEGATIVE}true."),
    ("launch_us", None, f"launch_us: {NOT_NEGATIVE}null."),
    ("launch_us", [5], f"launch_us: {NOT_NEGATIVE}a list."),
    ("memory", 3, "memory: Expected an object, got 3."),
    ("node.within", [], "node.within: Expected an object, got a list."),
    ("groups", {}, "groups: Expected a list, got an object."),
    ("groups.0", "tp", 'groups[0]: Expected an object, got "tp".'),
    ("groups.1.all_gather", 7, "groups[1].all_gather: Expected an object, got 7."),
    ("groups.0.mesh_dims", "tp", 'groups[0].mesh_dims: Expected a list, got "tp".'),
    ("groups.0.mesh_dims.0", 1.5, f"groups[0].mesh_dims[0]: {A_MESH_DIM}1.5."),
    ("groups.0.mesh_dims.0", -1, f"groups[0].mesh_dims[0]: {A_MESH_DIM}-1."),
    ("groups.0.mesh_dims.0", "", f'groups[0].mesh_dims[0]: {A_MESH_DIM}"".'),
    ("node.between.devices", 0, "node.between.devices: Expected a whole number of at least 1,"),
    ("node.between.devices", 8.0, "node.between.devices: Expected a whole number of at least 1,"),
    ("all_to_all_gathers", 1, "all_to_all_gathers: Expected true or false, got 1."),
    ("name", 3, "name: Expected a text, got 3."),
    ("sources", "a book", 'sources: Expected a list, got "a book".'),
    ("sources.0", 3, "sources[0]: Expected a text, got 3."),
    # unknown keys
    ("launch_ms", 1, "launch_ms: Expected one of the keys name, sources, launch_us,"),
    ("memory.gb", 1, "memory.gb: Expected one of the keys kernel_us, bandwidth_gb_s, got an"),
    ("node.outside", {}, "node.outside: Expected one of the keys within, between, nccl, got an"),
    ("node.within.fixed_us", 1, "node.within.fixed_us: Expected one of the keys latency_us,"),
    (
        "node.between.broadcast",
        {},
        f"node.between.broadcast: {A_LINK_KEY}, devices, got an unknown",
    ),
    ("groups.0.gather", {}, f"groups[0].gather: {A_LINK_KEY}, mesh_dims, fixed_us, got an"),
    ("groups.1.all_gather.us", 1, "groups[1].all_gather.us: Expected one of the keys latency_us,"),
    # missing keys
    ("launch_us", MISSING, f"launch_us: {NOT_NEGATIVE}nothing."),
    ("memory", MISSING, "memory: Expected an object, got nothing."),
    ("memory.kernel_us", MISSING, f"memory.kernel_us: {NOT_NEGATIVE}nothing."),
    ("node.within", MISSING, "node.within: Expected an object, got nothing."),
    (
        "node.within.latency_us",
        MISSING,
        "node.within: Expected latency_us, a number of at least 0, beside bandwidth_gb_s, got "
        "nothing.",
    ),
    ("node.between.devices", MISSING, "node.between.devices: Expected a whole number of at least"),
    ("groups.0.mesh_dims", MISSING, "groups[0].mesh_dims: Expected a list, got nothing."),
    (
        "groups.0.bandwidth_gb_s",
        MISSING,
        "groups[0]: Expected bandwidth_gb_s, a number above 0, beside latency_us, got nothing.",
    ),
    (DEEP, MISSING, f"groups[1].all_gather.bandwidth_gb_s: {NUMBER_ABOVE_0}nothing."),
    # groups
    ("groups.0.mesh_dims", [], "groups[0].mesh_dims: Expected at least one mesh dim, got none."),
    (
        "groups.0.mesh_dims",
        [1, 1],
        "groups[0].mesh_dims: Expected each mesh dim once, got 1 again.",
    ),
    (
        "groups.0.mesh_dims",
        [1, 0],
        "groups: Expected a group in no more than one entry, got that of [0] in [1] too.",
    ),
    (
        "groups.1.latency_us",
        2.0,
        None,  # the value it has: no fault
    ),
    ("groups.1.fixed_us", 2.0, "groups[1]: Expected latency_us or fixed_us, got both."),
    # nccl
    ("node.nccl", {"architecture": "hopper"}, None),
    (
        "node.nccl",
        {},
        "node.nccl.architecture: Expected one of volta, ampere, hopper, blackwell, got",
    ),
    ("node.nccl", {"architecture": "pascal"}, "node.nccl.architecture: Expected one of volta, amp"),
    (
        "node.nccl",
        {"architecture": "hopper", "link": "infiniband"},
        'node.nccl.link: Expected one of nvlink, pcie, got "infiniband".',
    ),
    (
        "node.nccl",
        {"architecture": "hopper", "cpu": 1},
        "node.nccl.cpu: Expected one of intel, amd, got 1.",
    ),
    (
        "node.nccl",
        {"architecture": "hopper", "cards": 0},
        "node.nccl.cards: Expected a whole number of at least 1, got 0.",
    ),
    (
        "node.nccl",
        {"architecture": "hopper", "sync_us": -1},
        "node.nccl.sync_us: Expected a number of at least 0, got -1.",
    ),
    (
        "node.nccl",
        {"architecture": "hopper", "nvls": True},
        "node.nccl.nvls: Expected one of the keys architecture, link, nvswitch, cards, cpu, sharp,",
    ),
    # compute
    ("compute", [], "compute: Expected an object, got a list."),
    ("compute.flops", 1, "compute.flops: Expected one of the keys peak_tflops, efficiency, got an"),
    ("compute.peak_tflops", 3, "compute.peak_tflops: Expected an object, got 3."),
    ("compute.peak_tflops", MISSING, "compute.peak_tflops: Expected an object, got nothing."),
    (
        "compute.peak_tflops.tf32",
        156,
        "compute.peak_tflops.tf32: Expected the name of a torch dtype such as float32 and "
        'bfloat16, got "tf32".',
    ),
    (
        "compute.peak_tflops.half",
        1,
        "compute.peak_tflops.half: Expected the name of a torch dtype such",
    ),
    ("compute.peak_tflops.float32", 0, f"compute.peak_tflops.float32: {NUMBER_ABOVE_0}0."),
    ("compute.peak_tflops.bfloat16", "3", f'compute.peak_tflops.bfloat16: {NUMBER_ABOVE_0}"3".'),
    (
        "compute.peak_tflops.float32",
        MISSING,
        "compute.peak_tflops: Expected an entry for float32, which stands for types without, got "
        "none.",
    ),
    ("compute.efficiency", 0, "compute.efficiency: Expected a number above 0 and at most 1, got"),
    ("compute.efficiency", 1.01, "compute.efficiency: Expected a number above 0 and at most 1,"),
    ("compute.efficiency", True, "compute.efficiency: Expected a number above 0 and at most 1,"),
    ("compute.efficiency", MISSING, None),
]


@pytest.mark.parametrize(
    ("path", "value", "message"),
    FAULTS,
    ids=[f"{path}={'nothing' if value is MISSING else value}"[:60] for path, value, _ in FAULTS],
)
def test_a_fault_is_refused_with_its_path(
    tmp_path: Path, path: str, value: object, message: str | None
) -> None:
    file = tmp_path / "topology.json"
    file.write_text(json.dumps(changed(path, value)))
    if message is None:
        load_topology(file)
        return
    with pytest.raises(ShardpropError) as caught:
        load_topology(file)
    assert str(caught.value).startswith(f"{file}: $.{message}")


def test_a_group_without_a_link_for_all_must_have_one_for_each(tmp_path: Path) -> None:
    link = {"latency_us": 1.0, "bandwidth_gb_s": 1.0}
    document = changed("groups.0", {"mesh_dims": [0], "all_gather": link, "all_reduce": link})
    with pytest.raises(ShardpropError) as caught:
        load_topology(document)
    assert str(caught.value) == (
        "topology: $.groups[0]: Expected a link for all collectives, or one for reduce_scatter, "
        "all_to_all, permute, got neither."
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "Expected JSON, got this at line 1, column 1: Expecting value."),
        ('{"name": "x",\n}', "Expected JSON, got this at line"),
        ("[" * 100_000, "Expected JSON that can be read, got: "),
        ("[]", "Expected an object, got a list."),
        ("3", "Expected an object, got 3."),
        (
            '{"launch_us": 1, "memory": {"kernel_us": 1, "bandwidth_gb_s": 1}}',
            "Expected a node part or groups, got neither.",
        ),
        (
            '{"launch_us": 1, "launch_us": 2, "groups": []}',
            "$.launch_us: Expected a number of at least 0, got the key more than once.",
        ),
        (
            '{"launch_us": 1, "memory": {"kernel_us": 1, "bandwidth_gb_s": 1}, "groups": [], '
            '"compute": {"peak_tflops": {"float32": 1, "float32": 2}}}',
            "$.compute.peak_tflops.float32: Expected a number above 0, got the key more than once.",
        ),
    ],
    ids=["empty", "comma", "deep", "list", "number", "nothing known", "twice", "type twice"],
)
def test_a_document_that_is_no_topology_is_refused(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "topology.json"
    file.write_text(text)
    with pytest.raises(ShardpropError) as caught:
        load_topology(str(file))
    assert str(caught.value).startswith(f"{file}: {message}")


def test_a_file_that_is_not_there_is_refused_with_the_presets(tmp_path: Path) -> None:
    with pytest.raises(ShardpropError, match=r"Expected a preset \(torch, a100-nvlink, .* neither"):
        load_topology(tmp_path / "none.json")
    with pytest.raises(ShardpropError, match=r"^h200: Expected a preset"):
        load_topology("h200")


def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ShardpropError, match="Expected a file that can be read, got: Is a dir"):
        load_topology(tmp_path)
    file = tmp_path / "bytes.json"
    file.write_bytes(b"\xff\xfe")
    with pytest.raises(ShardpropError, match="Expected JSON in UTF-8"):
        load_topology(file)


def test_what_names_no_topology_is_refused() -> None:
    nothing: Any = 3
    with pytest.raises(ShardpropError, match=r"a topology or a function, got 3\.$"):
        load_topology(nothing)


def test_a_topology_made_in_python_is_checked_too() -> None:
    links = PerCollective.same(Link(1.0, float("nan")))
    bad = Topology("mine", 1.0, Memory(1.0, 1.0), Node(links))
    with pytest.raises(ShardpropError) as caught:
        load_topology(bad)
    assert str(caught.value) == f"mine: $.node.within.bandwidth_gb_s: {NUMBER_ABOVE_0}NaN."


def test_the_document_without_a_change_is_accepted() -> None:
    load_topology(FULL)


@pytest.mark.parametrize("path", list(paths()))
def test_junk_anywhere_is_accepted_or_refused(path: str) -> None:
    for junk in (*JUNK, MISSING):
        try:
            load_topology(changed(path, junk))
        except ShardpropError as error:
            for line in str(error).splitlines():
                assert re.fullmatch(r"topology: (\$[\w.\[\]]+: )?Expected .*, got .*\.", line)


def test_values_that_no_file_can_hold_are_shown() -> None:
    with pytest.raises(
        ShardpropError, match=r"^topology: \$\.launch_us: Expected .* got \"<object ob"
    ):
        load_topology(changed("launch_us", object()))


def test_all_faults_of_a_document_are_told_at_once(tmp_path: Path) -> None:
    document = changed("memory", {"kernel_us": -1, "gb": 3})
    document["groups"][1]["all_gather"]["bandwidth_gb_s"] = "fast"
    file = tmp_path / "topology.json"
    file.write_text(json.dumps(document))
    with pytest.raises(ShardpropError) as caught:
        load_topology(file)
    assert str(caught.value).splitlines() == [
        f"{file}: $.memory.kernel_us: {NOT_NEGATIVE}-1.",
        f"{file}: $.memory.bandwidth_gb_s: {NUMBER_ABOVE_0}nothing.",
        f"{file}: $.memory.gb: Expected one of the keys kernel_us, bandwidth_gb_s, got an unknown "
        "one.",
        f'{file}: $.groups[1].all_gather.bandwidth_gb_s: {NUMBER_ABOVE_0}"fast".',
    ]


def test_the_faults_of_a_long_list_are_told_in_part() -> None:
    with pytest.raises(ShardpropError) as caught:
        load_topology(changed("sources", [3] * 50))
    assert str(caught.value).splitlines()[-2:] == [
        "topology: $.sources[19]: Expected a text, got 3.",
        "and 30 more faults.",
    ]


def test_a_set_of_mesh_dims_is_refused_with_its_path() -> None:
    with pytest.raises(ShardpropError, match=rf"\$\.groups\[0\]\.mesh_dims\[0\]: {A_MESH_DIM}-1"):
        load_topology(changed("groups.0.mesh_dims", {-1}))


def test_an_optional_key_may_be_null() -> None:
    for path in ("compute", "name", "node.within.permute", "node.between"):
        assert load_topology(changed(path, None)) == load_topology(changed(path, MISSING))


@pytest.mark.slow
def test_a_preset_needs_no_schema_library() -> None:
    code = (
        "import sys, shardprop\n"
        "from shardprop.cost.topology import load_topology\n"
        "load_topology('h100-nvlink')\n"
        "shardprop.enable(policy='optimal', topology='h100-nvlink')\n"
        "load_topology(lambda *_: 1.0)\n"
        "print('pydantic' in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
