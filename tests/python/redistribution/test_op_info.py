"""What torch's dispatcher notes of a call is with shardprop what it is without."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import fields
from typing import Any

import pytest
import torch
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor

import shardprop

from ..specs import R, S

aten = torch.ops.aten
MeshOf = Callable[..., DeviceMesh]


class Own(DTensor):
    """A class of the program's own."""


def _own(x: DTensor) -> DTensor:
    made: DTensor = torch.Tensor._dtensor__new__(Own, x._local_tensor, x._spec, requires_grad=False)
    return made


# Arguments by what they are made of.
CALLS: dict[str, Callable[[DTensor], tuple[Any, tuple[Any, ...], dict[str, Any]]]] = {
    "two tensors": lambda x: (aten.mm.default, (x, x), {}),
    "sizes": lambda x: (aten.view.default, (x, [4, 4]), {}),
    "numbers, names and nothing": lambda x: (aten.gelu.default, (x, "none", None, 2.0), {}),
    "a plain number": lambda x: (aten.mul.Tensor, (x, torch.tensor(2.0)), {}),
    "a plain number first": lambda x: (aten.mul.Tensor, (torch.tensor(2.0), x), {}),
    "lists of tensors": lambda x: (aten._foreach_add.List, ([x, x], [x, x]), {}),
    "a list that holds a tensor": lambda x: (aten.index.Tensor, (x, [None, x]), {}),
    "a list of an op for pytrees": lambda x: (aten._foreach_add.Scalar, ([x], 1.0), {}),
    "a keyword": lambda x: (aten.clone.default, (x,), {"memory_format": torch.preserve_format}),
    "a keyword tensor": lambda x: (aten.add.out, (x, x), {"out": x}),
    "a class of one's own": lambda x: (aten.mul.Tensor, (x, _own(x)), {}),
    "too many numbers": lambda x: (aten.mul.Tensor, (x, torch.ones(3)), {}),
    "no DTensor": lambda x: (aten.relu.default, (1.0,), {}),
}


def noted(x: DTensor, name: str, create_schema: bool) -> Any:
    """All that is noted, or the error."""
    op, args, kwargs = CALLS[name](x)
    try:
        info = DTensor._op_dispatcher._unwrap_to_op_info_impl(op, args, kwargs, create_schema)
    except Exception as error:
        return type(error), str(error)
    return {each.name: getattr(info, each.name) for each in fields(info)}


def _alike(mine: Any, torchs: Any) -> bool:
    """The same tensors, and all else equal."""
    if isinstance(torchs, torch.Tensor):
        return mine is torchs or torch.equal(mine, torchs)
    if isinstance(torchs, (list, tuple)):
        is_same = type(mine) is type(torchs) and len(mine) == len(torchs)
        return is_same and all(map(_alike, mine, torchs))
    if isinstance(torchs, dict):
        return mine.keys() == torchs.keys() and all(_alike(mine[k], v) for k, v in torchs.items())
    return bool(mine == torchs)


@pytest.mark.parametrize("create_schema", [True, False])
@pytest.mark.parametrize("name", CALLS)
def test_it_is_that_of_torch(name: str, create_schema: bool, mesh_of: MeshOf) -> None:
    x = DTensor.from_local(torch.ones(4, 4), mesh_of(2), [S(0)], run_check=False)
    expected = noted(x, name, create_schema)
    with shardprop.enabled():
        found = noted(x, name, create_schema)
    assert _alike(found, expected)
    if isinstance(found, dict) and create_schema:
        assert found["schema"].schema_info == expected["schema"].schema_info


def test_torch_warns_as_often_and_from_the_same_place(mesh_of: MeshOf) -> None:
    def warned() -> list[tuple[str, str]]:
        x, out = (DTensor.from_local(torch.ones(4), mesh_of(2), [R]) for _ in range(2))
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            torch.add(x, torch.ones(1), out=out)
            _ = x * torch.ones(1)
        return [(str(each.message), each.filename) for each in seen]

    expected = warned()
    assert expected
    with shardprop.enabled():
        assert warned() == expected
