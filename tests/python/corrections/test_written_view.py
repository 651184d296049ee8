"""What is written into a view of a gathered tensor is written into the tensor."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import torch
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Placement, Replicate, distribute_tensor

import shardprop
from shardprop import _torch
from shardprop._torch import written_views
from shardprop.corrections.written_view import WRITTEN_VIEW

from ..specs import R, S

MeshOf = Callable[..., DeviceMesh]
Program = Callable[[torch.Tensor], object]

ROWS, COLUMNS = (6, 4)

# What each writes into a tensor of that shape; the first group needs whole rows, then columns.
OF_ROWS: dict[str, Program] = {
    "slice": lambda x: x[1:3].zero_(),
    "select": lambda x: x[0].add_(5.0),
    "a view of a view": lambda x: x[1:5][1:2].neg_(),
    "one of several": lambda x: x.split(3)[1].mul_(2.0),
    "copy": lambda x: x.narrow(0, 2, 2).copy_(x.narrow(0, 4, 2)),
    "out": lambda x: torch.add(x[0], 1.0, out=x[4]),
    "list": lambda x: torch._foreach_add_([x[2], x[3]], 2.0),
    "steps": lambda x: x[::2].masked_fill_(x[::2] > 2.0, 0.0),
    "diagonal": lambda x: x.diagonal().zero_(),
}
OF_COLUMNS: dict[str, Program] = {
    "slice": lambda x: x[:, 1:3].zero_(),
    "transposed": lambda x: x.t()[1].mul_(3.0),
    "flat": lambda x: x.view(-1)[5:9].sub_(1.0),
    "permuted": lambda x: x.movedim(0, 1)[2, 1:3].add_(4.0),
}
PROGRAMS = [
    *(pytest.param(0, program, id=f"rows, {name}") for name, program in OF_ROWS.items()),
    *(pytest.param(1, program, id=f"columns, {name}") for name, program in OF_COLUMNS.items()),
]


@pytest.fixture(autouse=True)
def no_view_was_met(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(written_views, "_has_moved_views", False)
    yield
    written_views.put_writes_back()


def numbers() -> torch.Tensor:
    return torch.arange(1.0, ROWS * COLUMNS + 1).reshape(ROWS, COLUMNS)


def written(mesh: DeviceMesh, placements: list[Placement], program: Program) -> list[torch.Tensor]:
    """The whole tensor on each rank, after the program."""
    with _torch.all_ranks_at_once(mesh.size()):
        x = distribute_tensor(numbers(), mesh, placements)
        program(x)
        return _torch.tensors_of_ranks(x.full_tensor(), mesh.size())


def is_torchs_own() -> bool:
    return written_views._function.__code__ is written_views._torchs_code


@pytest.mark.parametrize("sizes", [(3,), (4,), (2, 2)], ids=str)
@pytest.mark.parametrize(("dim", "program"), PROGRAMS)
def test_a_write_reaches_the_tensor(
    mesh_of: MeshOf, sizes: tuple[int, ...], dim: int, program: Program
) -> None:
    mesh, right = mesh_of(*sizes), numbers()
    program(right)
    placements: list[Placement] = [S(dim)] * len(sizes)
    with shardprop.enabled():
        shardprop.reset_stats()
        held = written(mesh, placements, program)
        counted = shardprop.stats().corrections.get(WRITTEN_VIEW.name, 0)
    assert all(torch.equal(each, right) for each in held)
    assert counted >= 1
    with shardprop.enabled(corrections=False):
        lost = written(mesh, placements, program)
    assert not torch.equal(lost[0], right)


@pytest.mark.parametrize(("dim", "program"), PROGRAMS)
def test_a_view_that_is_one_is_left_alone(mesh_of: MeshOf, dim: int, program: Program) -> None:
    right = numbers()
    program(right)
    with shardprop.enabled():
        shardprop.reset_stats()
        held = written(mesh_of(3), [R], program)
        assert shardprop.stats().corrections == {}
    assert all(torch.equal(each, right) for each in held)


def test_nothing_of_torch_is_replaced_before_a_view_is_moved(mesh_of: MeshOf) -> None:
    with shardprop.enabled():
        written(mesh_of(3), [S(0)], lambda x: x[:, 1:3].zero_())
        assert is_torchs_own()
        written(mesh_of(3), [S(0)], lambda x: x[1:3])
        assert not is_torchs_own()
        with shardprop.enabled(corrections=False):
            assert is_torchs_own()
        assert not is_torchs_own()
    assert is_torchs_own()


def test_a_write_that_only_reshapes_is_none(mesh_of: MeshOf) -> None:
    with shardprop.temporary_rules(), shardprop.enabled():
        shardprop.register_single_dim_rule(torch.ops.aten.unsqueeze_.default)(lambda *_: [])
        shardprop.reset_stats()
        held = written(mesh_of(3), [S(0)], lambda x: x[1:3].unsqueeze_(0))
        assert WRITTEN_VIEW.name not in shardprop.stats().corrections
    assert torch.equal(held[0], numbers())


def test_gradients_flow_as_on_one_device(mesh_of: MeshOf) -> None:
    def loss(x: torch.Tensor) -> torch.Tensor:
        y = x * 1.0
        y[1:3].zero_()
        y[0].mul_(2.0)
        return (y * y).sum()

    whole = numbers().requires_grad_()
    loss(whole).backward()
    mesh = mesh_of(3)
    with shardprop.enabled(), _torch.all_ranks_at_once(3):
        x = distribute_tensor(numbers(), mesh, [S(0)]).requires_grad_()
        loss(x).backward()
        assert isinstance(x.grad, DTensor)
        held = _torch.tensors_of_ranks(x.grad.full_tensor(), 3)
    assert whole.grad is not None
    assert all(torch.equal(each, whole.grad) for each in held)


def test_an_embedding_zeroes_the_row_of_its_padding(mesh_of: MeshOf) -> None:
    mesh = mesh_of(3)
    embedding = torch.nn.Embedding(ROWS, COLUMNS, padding_idx=4)
    with shardprop.enabled(), _torch.all_ranks_at_once(3):
        weight = distribute_tensor(numbers(), mesh, [S(0)])
        embedding.weight = torch.nn.Parameter(weight)
        with torch.no_grad():
            embedding._fill_padding_idx_with_zero()
        (held, *_) = _torch.tensors_of_ranks(weight.full_tensor(), 3)
    right = numbers()
    right[4] = 0.0
    assert torch.equal(held, right)


def test_replicas_agree_afterwards(mesh_of: MeshOf) -> None:
    mesh, right = mesh_of(2, 3), numbers()
    right[1:3].zero_()
    with shardprop.enabled():
        held = written(mesh, [Replicate(), S(0)], lambda x: x[1:3].zero_())
    assert len(held) == 6
    assert all(torch.equal(each, right) for each in held)
