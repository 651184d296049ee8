"""What is read at each op without a frame of Python is what torch's methods say."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch._ops import OpOverload
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor

import shardprop
from shardprop import _core
from shardprop._torch import DTensorSpec

from ..specs import S

MeshOf = Callable[..., DeviceMesh]
RELU = torch.ops.aten.relu.default


@pytest.fixture(autouse=True)
def off() -> Iterator[None]:
    yield
    shardprop.disable()


def placed(mesh: DeviceMesh) -> Any:
    return DTensor.from_local(torch.ones(2, 4), mesh, [S(0)], run_check=False)


METHODS: dict[str, tuple[type, str, Callable[[DeviceMesh], Any]]] = {
    "hash of an op": (OpOverload, "__hash__", lambda mesh: RELU),
    "hash of a spec": (DTensorSpec, "__hash__", lambda mesh: placed(mesh)._spec),
    "hash of a mesh": (DeviceMesh, "__hash__", lambda mesh: mesh),
    "a rank's place": (DeviceMesh, "get_coordinate", lambda mesh: mesh),
}


@pytest.mark.parametrize("name", METHODS)
def test_methods_say_what_torchs_say(name: str, mesh_of: MeshOf) -> None:
    owner, method, made = METHODS[name]
    torchs = vars(owner)[method]
    of = made(mesh_of(4, 2))
    before = hash(of)
    with shardprop.enabled():
        held: Any = getattr(owner, method)
        assert issubclass(type(held), _core.HeldValue)
        assert held.__wrapped__ is torchs
        assert getattr(of, method)() == torchs(of) == held(of)
        assert hash(of) == before
        assert (held.__name__, held.__doc__) == (method, torchs.__doc__)
        assert inspect.signature(held) == inspect.signature(torchs)
        with pytest.raises(TypeError, match="argument"):
            held(*())
        with pytest.raises(TypeError, match="unexpected keyword"):
            held(of, **{"more": 1})
    assert vars(owner)[method] is torchs


def test_a_spec_that_changes_is_hashed_anew(mesh_of: MeshOf) -> None:
    first, second = (placed(mesh_of(2))._spec for _ in range(2))
    with shardprop.enabled():
        before = hash(first)
        first.placements = (S(1),)
        first.shard_order = None
        assert first._hash is None
        assert hash(first) != before
        first.placements, first.shard_order = second.placements, second.shard_order
        assert hash(first) == hash(second) == before


def test_a_method_that_a_program_has_changed_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    def programs(self: Any) -> int:
        return 7

    monkeypatch.setattr(OpOverload, "__hash__", programs)
    with shardprop.enabled():
        assert hash(RELU) == 7
    assert vars(OpOverload)["__hash__"] is programs


class Holder:
    def __init__(self, value: object) -> None:
        self.value = value


def asked(of: object, *more: object, **options: object) -> object:
    """How often?"""
    return "asked", of, more, options


@pytest.mark.parametrize("is_hashed", [False, True])
def test_a_value_that_is_not_there_is_asked_for(is_hashed: bool) -> None:
    held: Any = _core.HeldValue(asked, "value", is_hashed)
    empty, none, full = Holder(0), Holder(None), Holder("value")
    del empty.value
    assert held(empty) == ("asked", empty, (), {})
    assert held(none) == ("asked", none, (), {})
    assert held(full) == (hash("value") if is_hashed else "value")
    assert held(full, 1) == ("asked", full, (1,), {})
    assert held(full, by=1) == ("asked", full, (), {"by": 1})
    assert held.__doc__ == "How often?"


def test_errors_of_reading_are_passed_on() -> None:
    class Broken:
        @property
        def value(self) -> object:
            raise ZeroDivisionError

    hashed = _core.HeldValue(lambda of: 0, "value", True)
    with pytest.raises(ZeroDivisionError):
        hashed(Broken())
    with pytest.raises(TypeError, match="unhashable"):
        hashed(Holder([]))
    with pytest.raises(TypeError):
        _core.HeldValue(lambda of: 0, 3, True)  # type: ignore[arg-type]
    with pytest.raises(AttributeError, match="no_such"):
        hashed.no_such  # type: ignore[attr-defined]  # noqa: B018


def test_who_has_ops_run_in_another_way_is_found(mesh_of: MeshOf) -> None:
    x = placed(mesh_of(2))

    @torch.library.custom_op("shardprop_test::twice", mutates_args=())
    def twice(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    def run(mode: Any, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        return args[0].detach()

    with shardprop.enabled():
        with pytest.raises(RuntimeError):
            twice(x)
        torch.library.register_torch_dispatch("shardprop_test::twice", DTensor, run)
        assert torch.equal(twice(x).to_local(), x.to_local())
