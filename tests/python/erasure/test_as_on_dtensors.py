"""Programs in which what is erased might be told from what is not: each call is as on DTensors."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.distributed.device_mesh import DeviceMesh

from shardprop.erasure import Erased, erase

from ..specs import P, R, S
from .block import block, tokens
from .seen import seen, spread, trained

MeshOf = Callable[..., DeviceMesh]
Program = Callable[..., Any]

CALLS = 4


pytestmark = pytest.mark.usefixtures("enabled")


def is_alike(
    program: Program, step: Callable[[Program, int], Any], *, left: int = 0
) -> Erased[Any]:
    """Do so many calls show the same, random state included? So many parts are left to DTensor."""
    erased = erase(program)
    for number in range(CALLS):
        found = []
        for run in (program, erased):
            torch.manual_seed(number)
            found.append((repr(step(run, number)), torch.get_rng_state().tolist()))
        assert found[0] == found[1], f"call {number}"
    assert sum(piece.left_to_dtensor is not None for piece in erased.pieces) == left
    assert left or erased.pieces
    return erased


def leaf(mesh: DeviceMesh, *placements: Any, shape: tuple[int, ...] = (8, 8), seed: int = 0) -> Any:
    return spread(mesh, shape, *placements, seed=seed).detach().requires_grad_()


def test_shapes_of_which_a_rank_holds_the_same(mesh_of: MeshOf) -> None:
    """Of 5 to 8 rows the first of four ranks has two."""
    mesh = mesh_of(4)
    erased = erase(lambda x: x.sum(0) / x.shape[0])
    for rows in (6, 7, 6, 7, 5, 8, 5, 8):
        x = spread(mesh, (rows, 8), S(0))
        assert seen(erased(x)) == seen(x.sum(0) / x.shape[0])
    assert len(erased.pieces) == 4


@pytest.mark.filterwarnings("ignore:DTensor random operators")
@pytest.mark.parametrize(
    "draw",
    [torch.randn_like, torch.rand_like, lambda x: torch.empty_like(x).exponential_(), F.dropout],
)
def test_equal_draws_are_other_numbers(draw: Program, mesh_of: MeshOf) -> None:
    def step(run: Program, _: int) -> Any:
        x = leaf(mesh_of(4), S(0))
        return trained(run, x), seen(x.grad)

    is_alike(lambda x: x * draw(x) + x * draw(x), step)


def test_an_unused_result_begins_no_collective(mesh_of: MeshOf) -> None:
    def step(run: Program, number: int) -> Any:
        x, w = leaf(mesh_of(4), S(0)), leaf(mesh_of(4), S(1), seed=1)
        first, second = run(x, w)
        used = first if number % 2 else second
        used.to_local().sum().backward()
        return seen(x.grad), None if w.grad is None else seen(w.grad)

    def program(x: Any, w: Any) -> Any:
        return x.sin(), x.redistribute(placements=[R]) @ w

    is_alike(program, step)


def test_an_operand_that_is_used_elsewhere_too(mesh_of: MeshOf) -> None:
    def program(x: Any) -> Any:
        return F.rms_norm(x, (8,)) * x.exp()

    def step(run: Program, _: int) -> Any:
        x = leaf(mesh_of(4), S(0))
        y = x * 3
        (y.cos() + run(y) + y.sin()).sum().backward()
        return seen(x.grad)

    is_alike(program, step)


def test_gradients_that_come_in_otherwise_are_told_and_then_left(mesh_of: MeshOf) -> None:
    x, y = (spread(mesh_of(4), (8, 8), S(0), seed=seed) for seed in (0, 1))

    def gradients(run: Program, local: bool) -> Any:
        leaves: list[Any] = [each.detach().requires_grad_() for each in (x, y)]
        made = run(*leaves)
        (made.to_local() if local else made).sum().backward()
        return [seen(each.grad.redistribute(placements=[R])) for each in leaves]

    def program(x: Any, y: Any) -> Any:
        return x.sin() * y

    erased = erase(program)
    for local in (False, False, True):
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            assert gradients(erased, local) == gradients(program, local)
    assert "comes in as" in str(told[-1].message)
    assert [piece.left_to_dtensor for piece in erased.pieces] == [None]
    for local in (False, True):
        assert gradients(erased, local) == gradients(program, local)
    assert "comes in as" in (erased.pieces[1].left_to_dtensor or "")


def test_a_pending_gradient_then_a_settled_one(mesh_of: MeshOf) -> None:
    mesh = mesh_of(4)
    whole = spread(mesh, (8, 8), R)
    pending: Any = type(whole).from_local(whole.to_local(), mesh, [P], run_check=False)
    x = leaf(mesh, R)
    erased = erase(lambda x: x * 2)
    for _ in range(2):
        (found,) = torch.autograd.grad(erased(x), x, pending)
        assert seen(found) == seen(pending * 2)
    with pytest.warns(UserWarning, match="comes in as"):
        (found,) = torch.autograd.grad(erased(x), x, whole)
    # The first rank has the whole, and others nothing.
    assert found.placements == (P,) and torch.equal(found.to_local(), whole.to_local() * 2)


def test_hooks_of_all_modules(mesh_of: MeshOf) -> None:
    mesh = mesh_of(4)
    model, alone = block(mesh), block(mesh)
    erased = erase(model)
    x = tokens(mesh)
    calls: list[Any] = []
    for _ in range(3):
        assert trained(model, x) == trained(alone, x)
    handle = nn.modules.module.register_module_forward_hook(lambda m, args, made: calls.append(m))
    try:
        assert trained(model, x) == trained(alone, x)
    finally:
        handle.remove()
    assert calls[: len(calls) // 2] != [] and len(calls) % 2 == 0
    assert erased.passed == {"there are hooks of all modules": 1}


def test_a_class_whose_forward_is_replaced(mesh_of: MeshOf) -> None:
    class Doubling(nn.Module):
        def forward(self, x: Any) -> Any:
            return x * 2

    model = nn.Sequential(Doubling())
    erased = erase(model)
    x = spread(mesh_of(4), (8, 8), S(0))
    for _ in range(2):
        assert seen(erased(x)) == seen(x * 2)
    Doubling.forward = lambda self, x: x * 3  # type: ignore[method-assign]
    assert seen(erased(x)) == seen(x * 3)


def test_a_program_that_asks_whether_it_is_compiled(mesh_of: MeshOf) -> None:
    def program(x: Any) -> Any:
        return x * 2 if torch.compiler.is_compiling() else x * 3

    x = spread(mesh_of(4), (8, 8), S(0))
    assert seen(erase(program, fullgraph=True)(x)) == seen(x * 3)


def test_a_backward_under_autocast_is_left(mesh_of: MeshOf) -> None:
    def step(run: Program, _: int) -> Any:
        x, y = leaf(mesh_of(4), S(0)), leaf(mesh_of(4), R, seed=1)
        with torch.autocast("cpu", torch.bfloat16):
            (run(x, y)).sum().backward()
        return seen(x.grad), seen(y.grad)

    is_alike(lambda x, y: (x @ y).sin(), step, left=1)


def test_more_kinds_of_calls_than_are_kept(mesh_of: MeshOf) -> None:
    class Counting(nn.Module):
        count = 0

        def forward(self, x: Any) -> Any:
            self.count += 1
            return x * self.count

    model = Counting()
    erased = erase(model)
    x = spread(mesh_of(4), (8, 8), S(0))
    for count in range(1, 70):
        assert seen(model(x)) == seen(x * count)
    assert "FailOnRecompileLimitHit" in (erased.pieces[-1].left_to_dtensor or "")


def test_several_threads(mesh_of: MeshOf) -> None:
    operands = [spread(mesh_of(4), (8, 8), S(0), seed=seed) for seed in range(3)]
    expected = [seen((x @ x.t()).sin()) for x in operands]
    erased = erase(lambda x: (x @ x.t()).sin())
    found: list[Any] = [[] for _ in operands]

    def run(at: int) -> None:
        for _ in range(5):
            with torch.no_grad():
                found[at].append(seen(erased(operands[at])))

    threads = [threading.Thread(target=run, args=(at,)) for at in range(len(operands))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [[each] * 5 for each in expected]


def test_an_error_of_a_function_that_is_left_is_its_own(mesh_of: MeshOf) -> None:
    x = spread(mesh_of(4), (8, 8), S(0))
    calls: list[int] = []

    def program(x: Any) -> Any:
        torch._dynamo.graph_break()
        calls.append(1)
        raise torch._dynamo.exc.Unsupported("of the program")

    erased = erase(program)
    for _ in range(2):
        with pytest.raises(torch._dynamo.exc.Unsupported, match="of the program"):
            erased(x)
    assert len(calls) == 2
