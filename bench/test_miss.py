"""A whole miss through a real DTensor call: dispatch, metadata, decision, local op.

Placements are those of a program that runs well: tokens over all mesh dims but the last, features
over the last, so that nothing is communicated and what is timed is the miss. "first": nothing is
in any cache, torch's or ours. "forgotten": torch has forgotten its decisions, and nothing else is
forgotten; we look the answer up by the region of sizes it holds for, as in a program that meets a
new shape, while torch still has the metadata, which for a new shape it would have to find.

`who` is also "floor", the same call with a stub in the place of the propagation that gives the
known answer, so that no propagation could be faster; and "hit", the call that torch's cache
answers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Placement, distribute_tensor

import shardprop
from shardprop import _torch
from shardprop.propagation import hook
from shardprop.propagation.timing import watch_propagation

from .conftest import MESHES, TORCH_ROUNDS
from .engine import R, S
from .training import forget

Call = Callable[[], Any]


def tensor(mesh: DeviceMesh, shape: tuple[int, ...], outer: Placement, last: Placement) -> DTensor:
    """Ones, with `outer` on all mesh dims but the last."""
    return laid_out(torch.ones(shape), mesh, [*(outer,) * (mesh.ndim - 1), last])


def laid_out(whole: torch.Tensor, mesh: DeviceMesh, placements: list[Placement]) -> DTensor:
    return distribute_tensor(whole, mesh, placements, src_data_rank=None)


def mm(mesh: DeviceMesh) -> Call:
    x, weight = tensor(mesh, (64, 64), S(0), R), tensor(mesh, (64, 64), R, S(1))
    return lambda: torch.mm(x, weight)


def add(mesh: DeviceMesh) -> Call:
    x = tensor(mesh, (64, 64), S(0), S(1))
    return lambda: torch.add(x, x)


def native_layer_norm(mesh: DeviceMesh) -> Call:
    x, weight = tensor(mesh, (64, 64), S(0), R), tensor(mesh, (64,), R, R)
    return lambda: torch.native_layer_norm(x, [64], weight, weight, 1e-5)


def view(mesh: DeviceMesh) -> Call:
    x = tensor(mesh, (64, 64), S(0), S(1))
    return lambda: x.view(64, 8, 8)


def total(mesh: DeviceMesh) -> Call:
    x = tensor(mesh, (64, 64), S(0), S(1))
    return lambda: torch.sum(x, 1)


def embedding(mesh: DeviceMesh) -> Call:
    table = tensor(mesh, (128, 64), R, S(1))
    tokens = laid_out(torch.zeros(64, 4, dtype=torch.int64), mesh, [*(S(0),) * (mesh.ndim - 1), R])
    return lambda: F.embedding(tokens, table)


def softmax(mesh: DeviceMesh) -> Call:
    x = tensor(mesh, (64, 8, 8), S(0), S(1))
    return lambda: torch._softmax(x, 2, False)


def mm_that_redistributes(mesh: DeviceMesh) -> Call:
    x = laid_out(torch.ones(64, 64), mesh, [S(0), S(1), R, R][: mesh.ndim])
    y = laid_out(torch.ones(64, 64), mesh, [S(0), R, S(1), R][: mesh.ndim])
    return lambda: torch.mm(x, y)


CASES: dict[str, Callable[[DeviceMesh], Call]] = {
    "mm": mm,
    "add": add,
    "native_layer_norm": native_layer_norm,
    "view": view,
    "sum": total,
    "embedding": embedding,
    "_softmax": softmax,
    "mm that redistributes": mm_that_redistributes,
}
KINDS: dict[str, Callable[[], None]] = {"first": forget, "forgotten": _torch.forget_decisions}
OUR_ROUNDS = 50

_torch_answers: dict[tuple[str, int], list[Any]] = {}


def specs_of(answer: Any) -> list[Any]:
    return [each._spec for each in (answer if isinstance(answer, tuple) else (answer,))]


def torch_answer(case: str, ndim: int, call: Call) -> list[Any]:
    """What torch alone decides; the test that times it leaves it here."""
    key = case, ndim
    if key not in _torch_answers:
        _torch.forget_decisions()
        _torch_answers[key] = specs_of(call())
    return _torch_answers[key]


@contextmanager
def answered_by_a_stub(call: Call) -> Iterator[None]:
    """No propagation: the one question of `call` has its answer ready."""
    answers: list[Any] = []
    with shardprop.enabled(), watch_propagation(lambda _, answer, __: answers.append(answer)):
        call()
    (known,) = answers
    hook.install(lambda schema: known)
    try:
        yield
    finally:
        hook.uninstall()


@pytest.mark.parametrize("ndim", list(MESHES), ids=lambda n: f"{n}D")
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("who", ["torch", "shardprop"])
def test_miss(who: str, kind: str, case: str, ndim: int, mesh_of: Any, run: Any) -> None:
    call = CASES[case](mesh_of(*MESHES[ndim]))
    group, before = f"{kind} miss {case} {ndim}-D", KINDS[kind]
    if who == "torch":
        answer = run(call, TORCH_ROUNDS[ndim], group, before=before)
        _torch_answers[case, ndim] = specs_of(answer)
        return
    with shardprop.enabled(strict=True):
        answer = run(call, OUR_ROUNDS, group, before=before)
    assert specs_of(answer) == torch_answer(case, ndim, call)


@pytest.mark.parametrize("ndim", list(MESHES), ids=lambda n: f"{n}D")
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("who", ["floor", "hit"])
def test_call_without_propagation(who: str, case: str, ndim: int, mesh_of: Any, run: Any) -> None:
    call = CASES[case](mesh_of(*MESHES[ndim]))
    group = f"forgotten miss {case} {ndim}-D"
    if who == "floor":
        with answered_by_a_stub(call):
            answer = run(call, OUR_ROUNDS, group, before=_torch.forget_decisions)
    else:
        with shardprop.enabled():
            answer = run(call, OUR_ROUNDS, group, iterations=20)
    assert specs_of(answer) == torch_answer(case, ndim, call)
