"""from_local, and the gradient of to_local, with a spec that is known give what torch gives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.autograd import forward_ad
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import DTensor, Partial, Placement, Shard, distribute_tensor

import shardprop
from shardprop.redistribution.wrapping import Wrapper

from ..specs import P, R, S

MeshOf = Callable[..., DeviceMesh]


def wrapped_thrice(mesh: DeviceMesh, placements: Any, **options: Any) -> list[DTensor]:
    """Of three tensors alike."""
    return [
        DTensor.from_local(torch.full((4, 6), float(n)), mesh, placements, **options)
        for n in range(3)
    ]


@pytest.mark.parametrize(
    ("placements", "options"),
    [
        ([S(0)], {}),
        ([S(-1)], {}),
        ((R,), {}),
        ([Partial("max")], {}),
        ([S(0)], {"shape": torch.Size((7, 6)), "stride": (6, 1)}),
        ([R], {"run_check": False}),
        ([S(0)], {"grad_placements": [R]}),
    ],
    ids=str,
)
def test_the_spec_is_that_of_torch(
    placements: Any, options: dict[str, Any], mesh_of: MeshOf
) -> None:
    expected = wrapped_thrice(mesh_of(2), placements, **options)
    with shardprop.enabled():
        made = wrapped_thrice(mesh_of(2), placements, **options)
    for mine, torchs in zip(made, expected, strict=True):
        assert mine._spec == torchs._spec
        assert mine.stride() == torchs.stride()
        assert torch.equal(mine.to_local(), torchs.to_local())
    assert made[1]._spec is made[2]._spec  # by what was found out at the first


@pytest.mark.parametrize(
    ("placement", "gradients"), [(S(0), None), (R, None), (P, None), (R, [R]), (P, [P])], ids=str
)
def test_the_gradient_is_that_of_torch(placement: Any, gradients: Any, mesh_of: MeshOf) -> None:
    def gradient_of(leaf: torch.Tensor) -> torch.Tensor | None:
        options = {} if gradients is None else {"grad_placements": gradients}
        (DTensor.from_local(leaf, mesh_of(2), [placement], **options) * 3).sum().backward()
        return leaf.grad

    expected = gradient_of(torch.ones(4, 6, requires_grad=True))
    with shardprop.enabled():
        for _ in range(2):
            found = gradient_of(torch.ones(4, 6, requires_grad=True))
            assert found is not None and expected is not None
            assert torch.equal(found, expected)


def test_memory_is_shared_and_nothing_is_known_of_another_tensor(mesh_of: MeshOf) -> None:
    with shardprop.enabled():
        for shape, dtype in (((4, 6), torch.float32), ((4, 6), torch.int64), ((2, 3), torch.int64)):
            for _ in range(2):
                local = torch.zeros(shape, dtype=dtype)
                made = DTensor.from_local(local, mesh_of(2), [S(0)])
                assert made.shape == (2 * shape[0], shape[1]) and made.dtype is dtype
                local += 1
                assert made.to_local().eq(1).all()
        transposed = DTensor.from_local(torch.zeros(6, 4).t(), mesh_of(2), [S(0)])
        assert transposed.stride() == (1, 8)


def test_meshes_are_not_mixed_up(mesh_of: MeshOf) -> None:
    local = torch.zeros(4, 6)
    with shardprop.enabled():
        for mesh in (mesh_of(2), mesh_of(4), mesh_of(2)):
            made = DTensor.from_local(local, mesh, [S(0)])
            assert made.device_mesh is mesh and made.shape[0] == 4 * mesh.size()


class MyShard(Shard):
    """Equal to a Shard, as torch compares them."""


class MyPartial(Partial):
    def _reduce_value(self, tensor: torch.Tensor, mesh: DeviceMesh, mesh_dim: int) -> torch.Tensor:
        return torch.full_like(tensor, -7.0)


def test_a_class_of_the_programs_own_is_not_the_one_it_is_made_of(mesh_of: MeshOf) -> None:
    """Neither for what is wrapped nor for where it moves to."""
    local = torch.ones(4, 6)
    with shardprop.enabled():
        for own, torchs in ((MyShard(0), S(0)), (MyPartial(), P), (S(0), MyShard(0))):
            for placement in (torchs, own):
                made = DTensor.from_local(local, mesh_of(2), [placement])
                assert type(made.placements[0]) is type(placement)
        whole = DTensor.from_local(local, mesh_of(2), [MyPartial()]).redistribute(placements=[R])
        assert whole.to_local().eq(-7).all()
        x = DTensor.from_local(local, mesh_of(2), [R])
        for placement in (S(0), MyShard(0)):
            assert type(x.redistribute(placements=[placement]).placements[0]) is type(placement)


@pytest.mark.filterwarnings("ignore:.*torch.jit")
def test_tangents_are_torchs(mesh_of: MeshOf) -> None:
    """It has no forward derivative, and says so."""
    x = torch.ones(4, 6)
    with shardprop.enabled():
        DTensor.from_local(x, mesh_of(2), [R])
        with forward_ad.dual_level(), pytest.raises(NotImplementedError, match="jvp"):
            DTensor.from_local(forward_ad.make_dual(x, x), mesh_of(2), [R])


def test_a_shape_that_is_no_size_is_not_held(mesh_of: MeshOf) -> None:
    x = torch.ones(4, 6)
    with shardprop.enabled():
        shapes: Any = (8, 6), torch.Size((8, 6))
        for shape in shapes:
            made = DTensor.from_local(x, mesh_of(2), [S(0)], shape=shape, stride=(6, 1))
        assert type(made._spec.shape) is torch.Size


def test_without_gradients_and_outside_of_the_mesh_it_is_as_torch_has_it(mesh_of: MeshOf) -> None:
    leaf = torch.ones(4, 6, requires_grad=True)
    without_this_rank = DeviceMesh("cpu", [1, 2])

    def without_gradients() -> tuple[Any, ...]:
        with torch.no_grad():
            made = DTensor.from_local(leaf, mesh_of(2), [S(0)])
        local = made._local_tensor
        leaves = made.is_leaf, local.is_leaf
        return made.requires_grad, made.grad_fn, local.requires_grad, local.grad_fn, leaves

    expected = without_gradients()
    with shardprop.enabled():
        for _ in range(2):
            assert without_gradients() == expected
            outside = DTensor.from_local(torch.ones(4, 6), without_this_rank, [S(0)])
            assert outside.shape == (8, 6) and outside.to_local().shape == (0,)


def test_the_view_of_the_local_tensor_is_made_without_gradients(mesh_of: MeshOf) -> None:
    weight = torch.ones(4, 6, requires_grad=True)
    with shardprop.enabled():
        for _ in range(2):
            made = DTensor.from_local(torch.ones(4, 6), mesh_of(2), [S(0)])
            with pytest.raises(RuntimeError, match="no_grad mode"):
                made._local_tensor.mul_(weight)


def test_without_the_executor_it_is_torchs(mesh_of: MeshOf) -> None:
    with shardprop.enabled(executor=False):
        made = wrapped_thrice(mesh_of(2), [S(0)])
    assert made[1]._spec is not made[2]._spec


def test_errors_are_torchs(mesh_of: MeshOf) -> None:
    with shardprop.enabled():
        for _ in range(2):
            with pytest.raises(ValueError, match=r"[Mm]ixed"):
                DTensor.from_local(torch.ones(4), mesh_of(2, 2), [P, Partial("max")])
            with pytest.raises(RuntimeError, match="shape"):
                DTensor.from_local(torch.ones(4), mesh_of(2), [S(0)], shape=torch.Size((8,)))


# The gradient of to_local ------------------------------------------------------------------------


_CHANGES: dict[str, Callable[[Any], Any]] = {
    "turned": lambda local: local.t(),
    "as double": lambda local: local.double(),
}


def gradients_of_local(mesh: DeviceMesh, case: tuple[Any, ...]) -> list[Any]:
    """Of three tensors alike, what a hook and a program see of it."""
    placement, asked, change = case
    seen: list[Any] = []
    for number in range(3):
        leaf = torch.full((4, 6), float(number)).requires_grad_()
        options: dict[str, Any] = {"shape": torch.Size((7, 6)), "stride": (6, 1)}
        options = options if change == "uneven" else {}
        x: Any = DTensor.from_local(leaf, mesh, [placement], **options)
        x.register_hook(lambda g: seen.append((type(g._local_tensor), g._spec, g.to_local())))
        local = x.to_local(grad_placements=asked)
        seen.append(local.grad_fn.name())
        if change in _CHANGES:
            local = _CHANGES[change](local)
        (local * local.detach().clone()).sum().backward()
        seen.append(leaf.grad)
    return seen


def same(mine: Any, torchs: Any) -> bool:
    if isinstance(mine, tuple):
        return all(map(same, mine, torchs))
    return torch.equal(mine, torchs) if isinstance(mine, torch.Tensor) else mine == torchs


@pytest.mark.parametrize("change", ["", "turned", "as double", "uneven"])
@pytest.mark.parametrize(
    ("placement", "asked"), [(S(0), None), (R, [P]), (R, None), (P, None), (P, [P])], ids=str
)
def test_the_gradient_of_to_local_is_that_of_torch(
    placement: Any, asked: Any, change: str, mesh_of: MeshOf
) -> None:
    case = placement, asked, change
    expected = gradients_of_local(mesh_of(2), case)
    with shardprop.enabled():
        made = gradients_of_local(mesh_of(2), case)
    assert len(made) == len(expected)
    assert all(map(same, made, expected))


def _cubed(leaf: torch.Tensor, mesh: DeviceMesh) -> list[torch.Tensor]:
    """A gradient, and the gradient of that."""
    local = DTensor.from_local(leaf, mesh, [S(0)]).to_local()
    (first,) = torch.autograd.grad((local**3).sum(), leaf, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), leaf)
    return [first.detach(), second]


def test_gradients_of_gradients_are_those_of_torch(mesh_of: MeshOf) -> None:
    leaf = torch.arange(6.0).requires_grad_()
    expected = _cubed(leaf, mesh_of(2))
    with shardprop.enabled():
        for _ in range(2):
            assert all(map(torch.equal, _cubed(leaf, mesh_of(2)), expected))


def test_what_was_made_before_goes_back_after(mesh_of: MeshOf, monkeypatch: Any) -> None:
    """Enabled between forward and backward, or disabled."""
    leaf = torch.ones(4, 6, requires_grad=True)
    before = DTensor.from_local(leaf, mesh_of(2), [S(0)]).to_local()
    with shardprop.enabled():
        before.sum().backward()
        within = DTensor.from_local(leaf, mesh_of(2), [S(0)]).to_local()
        within.sum().backward()
        later = DTensor.from_local(leaf, mesh_of(2), [S(0)]).to_local()
    monkeypatch.setattr(Wrapper, "gradient_of_local", None)
    later.sum().backward()
    assert leaf.grad is not None and leaf.grad.eq(3).all()


def test_the_gradient_is_on_the_mesh_it_came_from(mesh_of: MeshOf) -> None:
    """Meshes of other process groups are equal."""
    first, second = (init_device_mesh("cpu", (2,)) for _ in range(2))
    assert first == second
    with shardprop.enabled():
        for mesh in (first, second, first):
            x: Any = DTensor.from_local(torch.ones(4, 6), mesh, [S(0)]).requires_grad_()
            (gradient,) = torch.autograd.grad((x.to_local() * 2).sum(), x)
            assert gradient.device_mesh is mesh


@pytest.mark.parametrize("asked", [S(0), S(-2)], ids=str)
@pytest.mark.parametrize("needs_gradient", [False, True])
def test_what_is_there_keeps_its_spec(
    asked: Placement, needs_gradient: bool, mesh_of: MeshOf
) -> None:
    x = distribute_tensor(torch.ones(4, 6), mesh_of(2), [S(0)])
    x.requires_grad_(needs_gradient)
    torchs = x.redistribute(placements=[asked])
    with shardprop.enabled():
        mine = [x.redistribute(placements=[asked]) for _ in range(2)]
    assert torchs._spec is x._spec
    assert all(each._spec is x._spec for each in mine)
