"""The first optimizer step and the first gradient clipping on 300 parameters.

Twice: the whole call, of which dispatch, local work and redistribution are the same for both, and
the decisions alone, asked for as the call asks for them. Caches are cold in every round.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest
from torch.distributed.device_mesh import DeviceMesh

import shardprop
from shardprop import _torch
from shardprop.propagation.timing import watch_propagation

from .conftest import MESHES
from .training import COUNT, JOBS, described, forget, parameters, questions

_torch_answers: dict[tuple[str, int], list[Any]] = {}


def torch_answers(job: str, mesh: DeviceMesh) -> list[Any]:
    """What torch decides in a job: op and decision, in the job's order. It takes seconds, so the
    test that times it leaves its answers here."""
    key = job, mesh.ndim
    if key not in _torch_answers:
        schemas = questions(job, mesh)
        _torch_answers[key] = described_all(schemas, map(_torch.torch_propagate, schemas))
    return _torch_answers[key]


def described_all(schemas: Iterable[Any], answers: Iterable[Any]) -> list[Any]:
    return [(schema.op, described(a)) for schema, a in zip(schemas, answers, strict=True)]


@pytest.fixture(params=[1, 2], ids=lambda n: f"{n}D")
def mesh(request: pytest.FixtureRequest, mesh_of: Any) -> DeviceMesh:
    return mesh_of(*MESHES[request.param])


@pytest.mark.parametrize("job", JOBS)
@pytest.mark.parametrize("who", ["torch", "shardprop"])
def test_decisions_alone(who: str, job: str, mesh: DeviceMesh, run: Any) -> None:
    group = f"first {job}, decisions alone {mesh.ndim}-D"
    schemas = questions(job, mesh)
    if who == "torch":
        answers = run(lambda: [*map(_torch.torch_propagate, schemas)], 1, group, before=forget)
        _torch_answers[job, mesh.ndim] = described_all(schemas, answers)
        return
    with shardprop.enabled():
        propagate = _torch.propagator().propagate_op_sharding_non_cached
        answers = run(lambda: [*map(propagate, schemas)], 10, group, before=forget)
    assert described_all(schemas, answers) == torch_answers(job, mesh)


@pytest.mark.parametrize("job", JOBS)
@pytest.mark.parametrize("who", ["torch", "shardprop"])
def test_whole_call(who: str, job: str, mesh: DeviceMesh, run: Any) -> None:
    prepared: list[Callable[[], Any]] = []

    def prepare() -> None:
        prepared[:] = [JOBS[job](parameters(mesh))]
        forget()

    def call() -> None:
        prepared[0]()

    group = f"first {job} on {COUNT} parameters {mesh.ndim}-D"
    if who == "torch":
        run(call, 2, group, before=prepare)
        return
    schemas, answers = [], []

    def note(schema: Any, answer: Any, _: float) -> None:
        schemas.append(schema)
        answers.append(answer)

    with shardprop.enabled():
        run(call, 10, group, before=prepare)
        prepare()
        with watch_propagation(note):
            call()
    assert described_all(schemas, answers) == torch_answers(job, mesh)
