"""Arguments as they are typed to `shardprop explain`."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.distributed.tensor._dtensor_spec import DTensorSpec, ShardOrderEntry

from shardprop import ShardpropError
from shardprop.cli.notation import arguments

from ..specs import SS, P, R, S


def read(mesh: Any, *texts: str) -> tuple[list[Any], dict[str, Any]]:
    return arguments(texts, mesh)


def tensor(mesh: Any, text: str) -> DTensorSpec:
    (spec,), _ = read(mesh, text)
    assert isinstance(spec, DTensorSpec)
    return spec


@pytest.mark.parametrize(
    ("text", "placements"),
    [
        ("f32[8,16]@S(0),R", (S(0), R)),
        ("f32[8,16]@S(0)R", (S(0), R)),
        ("f32[8,16]@ S( 1 ) , P", (S(1), P)),
        ("f32[8,16]@P(sum),P(max)", (P, torch.distributed.tensor.Partial("max"))),
        ("f32[8,16]@_S(0,2),S(0)", (SS(0, 2), S(0))),
        ("f32[8,16]@_S(1, 4)R", (SS(1, 4), R)),
        ("f32[8,16]", (R, R)),
    ],
)
def test_placements_are_in_torchs_short_form(mesh_of: Any, text: str, placements: Any) -> None:
    spec = tensor(mesh_of(2, 4), text)
    assert spec.placements == placements
    assert tuple(spec.shape) == (8, 16)


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        ("f32", torch.float32),
        ("bf16", torch.bfloat16),
        ("i64", torch.int64),
        ("bool", torch.bool),
        ("float16", torch.float16),
        ("float8_e4m3fn", torch.float8_e4m3fn),
    ],
)
def test_dtypes_have_short_names_and_torchs(mesh_of: Any, name: str, dtype: torch.dtype) -> None:
    meta = tensor(mesh_of(2), f"{name}[3]@R").tensor_meta
    assert meta is not None and meta.dtype == dtype


def test_a_tensor_of_no_dims(mesh_of: Any) -> None:
    spec = tensor(mesh_of(2, 2), "f32[]@P,R")
    assert (tuple(spec.shape), spec.placements) == ((), (P, R))


def test_turns_are_the_shard_order(mesh_of: Any) -> None:
    spec = tensor(mesh_of(2, 4), "f32[64]@S(0)[1],S(0)[0]")
    assert spec.shard_order == (ShardOrderEntry(0, (1, 0)),)
    assert tensor(mesh_of(2, 4), "f32[64]@S(0),S(0)").shard_order == (ShardOrderEntry(0, (0, 1)),)


def test_lists_hold_tensors_and_literals(mesh_of: Any) -> None:
    (mixed, none), named = read(
        mesh_of(2, 2), "[f32[4]@R,P, f32[4]@S(0)R,None,-1]", "[]", "dim=-1", "dtype=torch.bfloat16"
    )
    assert [spec.placements for spec in mixed[:2]] == [(R, P), (S(0), R)]
    assert (mixed[2:], none) == ([None, -1], [])
    assert named == {"dim": -1, "dtype": torch.bfloat16}


@pytest.mark.parametrize("text", ["-1", "1e-5", "[1, 2]", "(3,)", "'sum'", "None", "True"])
def test_other_arguments_are_python_literals(mesh_of: Any, text: str) -> None:
    assert read(mesh_of(2), text) == ([eval(text)], {})


@pytest.mark.parametrize(
    ("texts", "words"),
    [
        (["f32[4,8]@S(0)"], "Expected 2 placements, one for each mesh dim"),
        (["f32[4,8]@S(0),Q"], "after 1 of them, got 'Q'."),
        (["f32[4,8]@S(0),R,R"], "Expected the end, got ',R'."),
        (["f32[4,8]@S(2),R"], "Expected a placement on one of the 2 dims of the tensor, got S(2)."),
        (["f32[4,8]@_S(2,2),R"], "Expected a placement on one of the 2 dims"),
        (["f32[4,8]@_S(0,0),R"], "Expected a split factor of 1 and more, got _S(0,0)."),
        (["f32[4,8]@P(mean),R"], "P(max)"),
        ([f"f32[{10**30}]@R,R"], "Expected sizes of less than 2**63 bytes in all"),
        (["f32[4,x]@R,R"], "Expected sizes such as [4,8], got [4,x]."),
        (["f32[4,-8]@R,R"], "Expected sizes such as [4,8], got [4,-8]."),
        (["f33[4]@R,R"], "Expected a dtype (f64, f32"),
        (["f32[4]@R[0],R"], "Expected a turn such as [0] after S(dim) alone"),
        (["f32[4]@S(0)[0],S(0)[0]"], "Expected turns 0 to 1 on each S(0), each once"),
        (["[f32[4]@R,R"], "got the end of it"),
        (["f32[4]@RR,"], "Expected the end, got ','."),
        (["f32[4]@Replicate,R"], "after 0 of them, got 'Replicate,R'."),
        (["sum"], "Expected a tensor such as f32[512,1024]@S(0),R, a Python literal"),
        (["__import__('os')"], "a Python literal"),
        (["dim=1", "dim=2"], "Expected dim= once, got 'dim=2' too."),
        (["dim=1", "2"], "Expected name=value after dim=, got '2'."),
    ],
)
def test_what_cannot_be_read_is_refused(mesh_of: Any, texts: list[str], words: str) -> None:
    with pytest.raises(ShardpropError) as raised:
        read(mesh_of(2, 4), *texts)
    assert words in str(raised.value)
