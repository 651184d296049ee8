"""Sixteen threads decide as one does, whatever they ask at once and whoever clears the caches.

The hook is asked directly: torch's caches are each thread's own, and every question is a miss.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest
import torch
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor._op_schema import OpSchema, OutputSharding

import shardprop
from shardprop import _torch
from shardprop.rules import torch_registry

from ..narrow import sharded
from ..specs import SS, P, R, S, spec_of
from ..threads import at_once, switching_often
from .misses import questions

MeshOf = Callable[..., DeviceMesh]
Hook = Callable[[OpSchema], OutputSharding]
aten = torch.ops.aten
THREADS, ROUNDS = 16, 2


@pytest.fixture(autouse=True)
def often() -> Iterator[None]:
    with switching_often():
        yield


@pytest.fixture
def hook() -> Iterator[Hook]:
    with shardprop.enabled():
        shardprop.clear_caches()
        yield _torch.propagator().propagate_op_sharding_non_cached


def on_any_mesh(mesh: DeviceMesh, turn: int) -> Iterator[OpSchema]:
    """Ops decided in each of our ways: rows, follow rules, lists, graph plans, decompositions."""
    x = spec_of(mesh, (16 * (1 + turn), 16), [S(0), *(P,) * (mesh.ndim - 1)])
    y = spec_of(mesh, (16, 16), [*(R,) * (mesh.ndim - 1), S(1)])
    gaps = [*(R,) * (mesh.ndim - 1), SS(0, 2)]
    strided = spec_of(mesh, (16 * (1 + turn), 16), gaps, strided_is_order=False)
    asked: list[tuple[Any, ...]] = [
        (aten.mm.default, x, y),
        (aten.mm.default, strided, y),
        (aten.cat.default, [y, y]),
        (aten.transpose.int, strided, 0, 1),
        (aten.view.default, y, [4, 4, 16]),
        (aten._foreach_add.List, [x, y, strided], [x, y, x]),
        (aten.hardswish_backward.default, y, y),
        (aten.mm.default, y, x),  # sizes that do not fit: an error
        (aten.view.default, x, [3, -1]),  # another, of torch's words
    ]
    for op, *args in asked:
        yield torch_registry.op_schema(op, tuple(args), {})


@pytest.fixture
def schemas(mesh_of: MeshOf) -> list[OpSchema]:
    found = [schema for turn in range(2) for schema in questions(mesh_of(2, 4), turn)]
    for shape in ((8,), (4, 4), (2, 2, 2)):
        for turn in range(2):
            found += on_any_mesh(mesh_of(*shape), turn)
    return found


class Told(NamedTuple):
    """All that a decision says, in values that compare."""

    moves: bool
    rewrites: bool
    outputs: Any
    wanted: Any


def told(hook: Hook, schema: OpSchema) -> Told | str:
    try:
        answer = hook(schema)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    wanted = answer.redistribute_schema
    return Told(
        answer.needs_redistribute,
        answer.use_val_from_redistribute_schema,
        answer.output_spec,
        wanted and (wanted.args_schema, wanted.kwargs_schema),
    )


def ask_all(hook: Hook, schemas: list[OpSchema], seed: int) -> dict[int, Told | str]:
    """The answers by question, asked in an order of the thread's own."""
    order = random.Random(seed).sample(range(len(schemas)), len(schemas))
    return {index: told(hook, schemas[index]) for index in order}


@pytest.mark.slow
def test_sixteen_threads_decide_as_one(hook: Hook, schemas: list[OpSchema]) -> None:
    serial = ask_all(hook, schemas, seed=0)
    assert len({type(answer) for answer in serial.values()}) == 2, "decisions and errors"
    for each in range(ROUNDS):
        shardprop.clear_caches()
        found: dict[int, dict[int, Told | str]] = {}

        def work(index: int, found: Any = found, first: int = THREADS * each) -> None:
            found[index] = ask_all(hook, schemas, seed=first + index)

        at_once(work, THREADS)
        different = {
            (thread, str(schemas[index]))
            for thread, answers in found.items()
            for index, answer in answers.items()
            if answer != serial[index]
        }
        assert different == set()
        assert len(found) == THREADS


@pytest.mark.slow
def test_caches_may_be_cleared_and_counted_meanwhile(hook: Hook, schemas: list[OpSchema]) -> None:
    serial = ask_all(hook, schemas, seed=0)
    deciding = THREADS - 2
    finished: list[int] = []
    different: list[str] = []
    snapshots: list[shardprop.Stats] = []

    def work(index: int) -> None:
        if index == deciding:
            while len(finished) < deciding:
                shardprop.clear_caches()
        elif index == deciding + 1:
            while len(finished) < deciding:
                snapshots.append(shardprop.stats())
        else:
            try:
                answers = ask_all(hook, schemas, seed=index)
                different.extend(str(schemas[i]) for i, a in answers.items() if a != serial[i])
            finally:
                finished.append(index)

    at_once(work, THREADS)
    assert different == []
    assert len(snapshots) > 1
    counted = [snapshot.decisions for snapshot in snapshots]
    assert counted == sorted(counted)


def test_every_decision_of_every_thread_is_counted(hook: Hook, mesh_of: MeshOf) -> None:
    mesh = mesh_of(2, 4)
    schemas = list(questions(mesh, 0))
    shardprop.reset_stats()

    def decide_all(index: int) -> None:
        for schema in schemas:
            hook(schema)

    at_once(decide_all, THREADS)
    stats = shardprop.stats()
    assert stats.decisions == THREADS * len(schemas)
    assert (stats.delegated, stats.fallbacks) == ({}, {})


def test_a_dtensor_program_runs_on_many_threads(mesh_of: MeshOf) -> None:
    """Through torch's dispatcher, whose C++ cache is each thread's own."""
    from torch.distributed.tensor import distribute_tensor

    mesh = mesh_of(2, 4)

    def program(turn: int) -> list[Any]:
        x = distribute_tensor(torch.ones(8 * (1 + turn), 16), mesh, [S(0), R], src_data_rank=None)
        weight = distribute_tensor(torch.ones(16, 32), mesh, [R, S(1)], src_data_rank=None)
        hidden = torch.mm(x, weight)
        results = [hidden, hidden.view(-1, 4, 32), hidden.sum(0), torch.softmax(hidden, 0)]
        return [sharded(result)._spec for result in results]

    alone = [program(turn) for turn in range(4)]
    with shardprop.enabled():
        found: dict[int, Any] = {}

        def work(index: int) -> None:
            found[index] = [program(turn) for turn in range(4)]

        at_once(work, THREADS)
    assert [found[index] for index in range(THREADS)] == [alone] * THREADS
