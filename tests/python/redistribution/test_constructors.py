"""DTensors and specs made without torch's constructors are those that torch makes."""

from __future__ import annotations

import copy
import itertools
import pickle
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Partial, Placement, Shard, _dispatch
from torch.fx.passes.shape_prop import TensorMetadata

import shardprop
from shardprop._torch import DTensorSpec, MaskPartial, ShardOrderEntry, meta_of

from ..specs import SS, P, R, S

MeshOf = Callable[..., DeviceMesh]


@pytest.fixture(autouse=True)
def off() -> Iterator[None]:
    yield
    shardprop.disable()


def local(mesh: DeviceMesh, *shape: int) -> DTensor:
    return DTensor.from_local(torch.arange(float(torch.Size(shape).numel())).reshape(shape), mesh)


# --- what ops return

OPS: dict[str, Callable[[Any], Any]] = {
    "one": torch.relu,
    "a view": lambda x: x.transpose(0, 1),
    "several": lambda x: x.topk(2, 1),
    "a list": lambda x: x.split(2, 1),
    "a list of a list op": lambda x: torch._foreach_mul([x, x], 2.0),
    "a number": lambda x: x * 2.0,
    "no tensor": lambda x: torch.equal(x, x),
    "in place": lambda x: x.detach().clone().add_(1.0),
    "a gradient": lambda x: torch.autograd.grad((x * x).sum(), x)[0],
}


def tensors_of(made: Any) -> list[Any]:
    return list(made) if isinstance(made, (list, tuple)) else [made]


@pytest.mark.parametrize("name", OPS)
def test_what_ops_return_is_what_they_return_with_torch(name: str, mesh_of: MeshOf) -> None:
    def returned() -> list[Any]:
        return tensors_of(OPS[name](local(mesh_of(2), 4, 6).requires_grad_()))

    expected = returned()
    with shardprop.enabled():
        made = returned()
    assert len(made) == len(expected)
    for mine, torchs in zip(made, expected, strict=True):
        assert type(mine) is type(torchs)
        if not isinstance(torchs, DTensor):
            assert mine == torchs
            continue
        assert mine._spec == torchs._spec
        assert mine.requires_grad == torchs.requires_grad
        assert mine.is_leaf == torchs.is_leaf
        assert type(mine.grad_fn) is type(torchs.grad_fn)
        assert (mine.shape, mine.stride()) == (torchs.shape, torchs.stride())
        assert torch.equal(mine.to_local(), torchs.to_local())


def test_the_dispatcher_wraps_as_before_once_it_goes(mesh_of: MeshOf) -> None:
    wrap = _dispatch.OpDispatcher.wrap
    before = wrap.__code__, wrap.__defaults__
    with shardprop.enabled():
        assert wrap.__code__ is not before[0]
        torch.relu(local(mesh_of(2), 2, 2))
    assert (wrap.__code__, wrap.__defaults__) == before


@pytest.mark.parametrize("is_later", [False, True])
@pytest.mark.parametrize("constructor", [DTensor, DTensorSpec])
def test_a_constructor_that_a_program_has_changed_is_called(
    constructor: Any, is_later: bool, mesh_of: MeshOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = 0
    torchs = vars(constructor)["__init__"]

    def counted(self: Any, *args: Any, **kwargs: Any) -> None:
        nonlocal calls
        calls += 1
        torchs(self, *args, **kwargs)

    x = local(mesh_of(2), 2, 2)
    if not is_later:
        monkeypatch.setattr(constructor, "__init__", counted)
    with shardprop.enabled():
        x * 2.0
        monkeypatch.setattr(constructor, "__init__", counted)
        calls = 0
        x * 2.0
    assert calls == 1


def test_a_constructor_put_back_after_it_has_gone_makes_what_torchs_makes(
    mesh_of: MeshOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    torchs = vars(DTensorSpec)["__init__"]
    made_meanwhile = []
    with shardprop.enabled():
        ours = vars(DTensorSpec)["__init__"]
    monkeypatch.setattr(DTensorSpec, "__init__", ours)
    monkeypatch.setattr(DTensorSpec, "__post_init__", lambda self: made_meanwhile.append(self))
    DTensorSpec(mesh_of(2), (R,))
    assert len(made_meanwhile) == 1
    assert ours is not torchs


@pytest.mark.slow
@pytest.mark.parametrize(
    "wrapper", ["functools.wraps(wrap)(lambda *a: wrap(*a))", "Mock(wraps=wrap)"]
)
def test_a_wrapper_around_torchs_dispatcher_stays(wrapper: str) -> None:
    program = f"""
import functools
from unittest.mock import Mock
import torch
import torch.distributed as dist
from torch.distributed.tensor import DTensor, Shard, _dispatch, init_device_mesh
from torch.testing._internal.distributed.fake_pg import FakeStore
wrap = _dispatch.OpDispatcher.wrap
theirs = {wrapper}
_dispatch.OpDispatcher.wrap = staticmethod(theirs)
import shardprop
dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
x = DTensor.from_local(torch.ones(2, 2), init_device_mesh("cpu", (2,)), [Shard(0)])
with shardprop.enabled():
    assert (x * 2.0).to_local().tolist() == [[2.0, 2.0]] * 2
    assert _dispatch.OpDispatcher.wrap is theirs
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_an_exporter_is_told(mesh_of: MeshOf, monkeypatch: pytest.MonkeyPatch) -> None:
    """As torch.export sees it: by the constructor, which is looked for while one exports."""
    told = 0

    def counted() -> bool:
        nonlocal told
        told += 1
        return False

    x = local(mesh_of(2), 2, 2)
    with shardprop.enabled():
        torch.relu(x)
        monkeypatch.setattr(torch.compiler, "is_exporting", counted)
        torch.relu(x)
        assert told == 0
        monkeypatch.setattr(torch.compiler, "_is_exporting_flag", True)
        torch.relu(x)
        assert told > 0


# --- specs


class Mine(Shard):
    """A program's own."""


PLACEMENTS: list[Placement] = [R, P, Partial("max"), S(0), S(1), S(-1), SS(0, 2), Mine(0)]
PLACEMENTS.append(MaskPartial())


def attributes_of(spec: DTensorSpec) -> dict[str, Any]:
    return {name: getattr(spec, name) for name in (*DTensorSpec.__dataclass_fields__, "_hash")}


def made(cls: Any, *args: Any, **options: Any) -> Any:
    """The attributes of a spec, or what was raised."""
    try:
        return attributes_of(cls(*args, **options))
    except Exception as error:
        return type(error), str(error)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"use_strided_shard_as_shard_order": False},
        {"use_strided_shard_as_shard_order": True},
        {"shard_order": (ShardOrderEntry(0, (1, 0)),)},
        {"shard_order": (), "use_strided_shard_as_shard_order": True},
    ],
    ids=str,
)
def test_specs_are_those_of_torch(options: dict[str, Any], mesh_of: MeshOf) -> None:
    mesh, meta = mesh_of(2, 2), meta_of(torch.ones(4, 6))
    of_fx = TensorMetadata(*meta[:1], meta.dtype, False, meta.stride, None, False, {})
    metas: list[Any] = [None, meta, of_fx, []]
    pairs = list(itertools.product(PLACEMENTS, repeat=2))

    class Derived(DTensorSpec):
        """A program's own."""

    def all_made() -> list[Any]:
        return [
            made(cls, mesh, form(pair), given, **options)
            for cls in (DTensorSpec, Derived)
            for form in (tuple, list)
            for given in metas
            for pair in pairs
        ]

    expected = all_made()
    with shardprop.enabled():
        assert all_made() == expected


def test_specs_can_be_copied_compared_and_changed(mesh_of: MeshOf) -> None:
    mesh, meta = mesh_of(2, 2), meta_of(torch.ones(4, 6))
    before = DTensorSpec(mesh, (S(0), R), meta)
    with shardprop.enabled():
        spec = DTensorSpec(mesh, (S(0), R), meta)
        assert spec == before
        assert hash(spec) == hash(before)
        assert copy.copy(spec) == before
        assert pickle.loads(pickle.dumps(spec.placements)) == spec.placements
        spec.placements = (R, R)
        assert hash(spec) != hash(before)


@pytest.mark.slow
def test_a_compiler_follows_torchs_own(mesh_of: MeshOf) -> None:
    mesh, meta = mesh_of(2), meta_of(torch.ones(4, 6))

    def reads(x: torch.Tensor) -> torch.Tensor:
        spec = DTensorSpec(mesh, (S(0),), meta)
        return x * len(spec.placements)

    def compiled() -> Any:
        torch._dynamo.reset()
        try:
            return torch.compile(reads, backend="eager", fullgraph=True)(torch.ones(2))
        except Exception as error:
            return type(error).__name__

    expected = compiled()
    with shardprop.enabled():
        found = compiled()
    assert type(found) is type(expected)
    assert torch.equal(found, expected) if isinstance(expected, torch.Tensor) else found == expected


COMPILED: dict[str, Callable[[Any], Any]] = {
    "one": lambda x: torch.relu(x) + 1.0,
    "several": lambda x: (x.sum(1), x + 1.0),
    "pending": lambda x: x.sum(),
    "its input": lambda x: (x, x * 2.0),
    "moved": lambda x: x.redistribute(placements=[R, S(1)]),
}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of what Dynamo imports
@pytest.mark.parametrize("name", COMPILED)
@pytest.mark.parametrize("placements", [(S(0), R), (S(1), S(1)), (R, R)], ids=str)
def test_what_compiled_code_returns_is_what_it_returns_with_torch(
    name: str, placements: tuple[Placement, ...], mesh_of: MeshOf
) -> None:
    x: Any = DTensor.from_local(torch.ones(4, 6), mesh_of(2, 2), placements, run_check=False)
    torch._dynamo.reset()
    compiled = torch.compile(COMPILED[name], backend="aot_eager")
    learned = x.clone().requires_grad_()

    def returned() -> list[Any]:
        made = tensors_of(compiled(learned))
        (gradient,) = torch.autograd.grad([each.sum() for each in made], learned)
        return [*made, gradient]

    expected = returned()
    with shardprop.enabled():
        made = returned()
    for mine, torchs in zip(made, expected, strict=True):
        assert vars(mine._spec) == vars(torchs._spec)
        assert mine.requires_grad == torchs.requires_grad
        assert (mine.shape, mine.stride()) == (torchs.shape, torchs.stride())
        assert torch.equal(mine.to_local(), torchs.to_local())


def unflattened(x: Any, placements: Any, order: Any, requires_grad: bool) -> DTensor:
    inner = {name: getattr(x, name) for name in ("_local_tensor", "device_mesh")}
    parts = placements, x._spec.tensor_meta, order, requires_grad
    made: DTensor = DTensor.__tensor_unflatten__(inner, parts, torch.Size([16, 6]), (6, 1))
    return made


@pytest.mark.parametrize("requires_grad", [False, True])
@pytest.mark.parametrize("placements", [(S(0), S(0)), (SS(0, 2), S(0)), [R, S(1)]], ids=str)
@pytest.mark.parametrize("order", [(1, 0), (0, 1), None], ids=str)
def test_what_a_compiler_took_apart_is_made_again(
    placements: Any, order: tuple[int, ...] | None, requires_grad: bool, mesh_of: MeshOf
) -> None:
    x = local(mesh_of(2, 2), 4, 6)
    entry = (ShardOrderEntry(0, order),) if order else None

    def made() -> Any:
        try:
            return unflattened(x, placements, entry, requires_grad)
        except (ValueError, AssertionError) as refused:
            return str(refused)

    torchs = made()
    with shardprop.enabled():
        ours = made()
    if isinstance(torchs, str):
        assert ours == torchs
        return
    assert vars(ours._spec) == vars(torchs._spec)
    assert type(ours._spec.placements) is type(torchs._spec.placements)
    assert ours.requires_grad is torchs.requires_grad is requires_grad


def test_a_constructor_that_a_program_has_changed_makes_what_compiled_code_returns(
    mesh_of: MeshOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    x, made = local(mesh_of(2, 2), 4, 6), []
    monkeypatch.setattr(DTensor, "__init__", lambda self, *args, **kwargs: made.append(self))
    with shardprop.enabled():
        unflattened(x, (S(0), S(0)), (ShardOrderEntry(0, (0, 1)),), False)
    assert len(made) == 1
