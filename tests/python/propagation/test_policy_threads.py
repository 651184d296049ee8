"""A policy holds for the process: each thread's next op after a change is decided by the new one.

autograd runs backward passes of CPU tensors in the thread that calls for them, so its own threads
are emulated: another thread calls ``backward`` of graphs that this one made.
"""

from __future__ import annotations

import contextlib
import copy
import os
import pickle
import queue
import random
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest
import torch
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, distribute_tensor
from torch.distributed.tensor._dispatch import OpDispatcher

import shardprop
from shardprop import _torch
from shardprop.propagation.propagator import current_policy
from shardprop.redistribution.optimal_planner import ExactPlanner

from ..narrow import sharded
from ..specs import P, R, S

MeshOf = Callable[..., DeviceMesh]
OPTIMAL: dict[str, Any] = {"policy": "optimal", "topology": "h100-nvlink"}
BY_TORCH, BY_OPTIMAL = (S(0), S(1)), (P, P)
SECONDS = float(os.environ.get("SHARDPROP_TOGGLE_SECONDS", "2"))
THREADS = 8
MOST_ROUNDS = 20


@pytest.fixture(autouse=True)
def disabled_after() -> Iterator[None]:
    yield
    shardprop.disable()


def dtensor(mesh: DeviceMesh, placements: Any, rows: int = 64) -> DTensor:
    return distribute_tensor(torch.ones(rows, 64), mesh, placements, src_data_rank=None)


def crossed(mesh: DeviceMesh, rows: int = 64) -> tuple[DTensor, DTensor]:
    """Operands of an addition that policies torch and optimal decide differently."""
    return dtensor(mesh, [S(0), S(1)], rows), dtensor(mesh, [S(1), S(0)], rows)


class Worker:
    """A thread that runs what it is given, one thing after another."""

    def __init__(self) -> None:
        self._asked: queue.Queue[Callable[[], Any] | None] = queue.Queue()
        self._told: queue.Queue[Any] = queue.Queue()
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    def _work(self) -> None:
        while (function := self._asked.get()) is not None:
            try:
                self._told.put((function(), None))
            except BaseException as error:
                self._told.put((None, error))

    def begin(self, function: Callable[[], Any]) -> None:
        self._asked.put(function)

    def finish(self) -> Any:
        answer, error = self._told.get(timeout=60)
        if error is not None:
            raise error
        return answer

    def run(self, function: Callable[[], Any]) -> Any:
        self.begin(function)
        return self.finish()

    def end(self) -> None:
        self._asked.put(None)
        self._thread.join()


@pytest.fixture
def worker() -> Iterator[Worker]:
    made = Worker()
    yield made
    made.end()


def test_a_thread_sees_each_change_of_policy(mesh_of: MeshOf, worker: Worker) -> None:
    x, y = crossed(mesh_of(2, 4))

    def decided() -> Any:
        return sharded(x + y).placements

    for change, expected in (
        (lambda: None, BY_TORCH),
        (shardprop.enable, BY_TORCH),
        (lambda: shardprop.enable(**OPTIMAL), BY_OPTIMAL),
        (shardprop.disable, BY_TORCH),
        (lambda: shardprop.enable(**OPTIMAL), BY_OPTIMAL),
        (shardprop.enable, BY_TORCH),
    ):
        change()
        for _ in range(2):
            assert worker.run(decided) == expected
            assert decided() == expected


@pytest.mark.parametrize("enabled", [False, True])
def test_a_thread_sees_each_registration(mesh_of: MeshOf, worker: Worker, enabled: bool) -> None:
    with torch.library._scoped_library("shardprop_threads", "FRAGMENT") as library:
        library.define("twice(Tensor x) -> Tensor")
        library.impl("twice", lambda x: x * 2, "CompositeExplicitAutograd")
        op = torch.ops.shardprop_threads.twice.default
        x = dtensor(mesh_of(2), [S(0)])
        if enabled:
            shardprop.enable()

        def decided() -> Any:
            try:
                return op(x).placements
            except NotImplementedError:
                return "refused"

        assert worker.run(decided) == decided() == "refused"
        shardprop.register_rule(op, "m n -> m n")
        assert worker.run(decided) == decided() == (S(0),)
        shardprop.unregister(op)
        assert worker.run(decided) == decided() == "refused"
        shardprop.register_single_dim_rule(op)(lambda op, args, kwargs: [[S(1), S(1)]])
        assert worker.run(decided) == decided() == (R,)
        shardprop.unregister(op)


def test_a_thread_asks_anew_after_caches_are_cleared(mesh_of: MeshOf, worker: Worker) -> None:
    x, y = crossed(mesh_of(2, 4))
    shardprop.enable()
    shardprop.reset_stats()
    for _ in range(3):
        worker.run(lambda: x + y)
    assert shardprop.stats().decisions == 1
    shardprop.clear_caches()
    for _ in range(3):
        worker.run(lambda: x + y)
    assert shardprop.stats().decisions == 2


@contextlib.contextmanager
def stopped_before_moving() -> Iterator[tuple[threading.Event, threading.Event]]:
    """An op stops when it is decided and about to move its operands: (it has stopped, go on)."""
    stopped, go_on = threading.Event(), threading.Event()
    dispatcher: Any = DTensor._op_dispatcher
    move = dispatcher.redistribute_local_args

    def moving(*args: Any) -> None:
        stopped.set()
        assert go_on.wait(60)
        move(*args)

    dispatcher.redistribute_local_args = moving
    try:
        yield stopped, go_on
    finally:
        del dispatcher.redistribute_local_args


@pytest.mark.parametrize("cached", [False, True])
@pytest.mark.parametrize("change", ["disable", "torch", "strict"])
def test_an_op_under_way_is_carried_out_as_it_was_decided(
    mesh_of: MeshOf, worker: Worker, cached: bool, change: str
) -> None:
    x, y = crossed(mesh_of(2, 4))
    shardprop.enable(**OPTIMAL)
    if cached:
        worker.run(lambda: x + y)
    with stopped_before_moving() as (stopped, go_on):
        worker.begin(lambda: sharded(x + y).placements)
        assert stopped.wait(60)
        if change == "disable":
            shardprop.disable()
        elif change == "torch":
            shardprop.enable()
        else:
            shardprop.enable(**OPTIMAL, memory_limit=1.0, strict=True)
        go_on.set()
        assert worker.finish() == BY_OPTIMAL
    if change != "strict":
        assert worker.run(lambda: sharded(x + y).placements) == BY_TORCH
    # Nothing is left in torch's places once no thread can need it.
    shardprop.disable()
    assert worker.run(lambda: sharded(x + y).placements) == BY_TORCH
    shardprop.disable()
    assert _torch.installed_redistribute() is _torch.torch_redistribute


@pytest.mark.parametrize("before", ["disabled", "torch"])
@pytest.mark.parametrize("cached", [False, True])
def test_a_decision_of_torchs_under_way_is_not_held_to_a_later_memory_limit(
    mesh_of: MeshOf, worker: Worker, before: str, cached: bool
) -> None:
    x, y = crossed(mesh_of(2, 4))
    if before == "torch":
        shardprop.enable()
    if cached:
        worker.run(lambda: x + y)
    with stopped_before_moving() as (stopped, go_on):
        worker.begin(lambda: sharded(x + y).placements)
        assert stopped.wait(60)
        shardprop.enable(**OPTIMAL, memory_limit=1.0)
        go_on.set()
        assert worker.finish() == BY_TORCH


def test_a_redistribution_of_the_programs_own_goes_by_the_current_policy(
    mesh_of: MeshOf, worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    x, y = crossed(mesh_of(2, 4))
    planned: list[int] = []
    steps = ExactPlanner._searched

    def counted(self: ExactPlanner, *specs: Any) -> Any:
        planned.append(threading.get_ident())
        return steps(self, *specs)

    monkeypatch.setattr(ExactPlanner, "_searched", counted)
    shardprop.enable(**OPTIMAL)
    worker.run(lambda: x + y)
    planned.clear()
    worker.run(lambda: x.redistribute(placements=[R, R]))
    assert len(planned) == 1
    shardprop.disable()
    # It has run no op since.
    worker.run(lambda: x.redistribute(placements=[R, R]))
    assert len(planned) == 1


@pytest.mark.parametrize("before", [OPTIMAL, {}], ids=["optimal", "torch"])
def test_what_an_op_moves_itself_goes_by_the_policy_that_decided_it(
    before: dict[str, Any], mesh_of: MeshOf, worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Convolutions have their operands moved by a handler, within the op."""
    mesh = mesh_of(2, 2)
    image = distribute_tensor(torch.ones(4, 4, 8, 8), mesh, [S(1), S(1)], src_data_rank=None)
    weight = distribute_tensor(torch.ones(4, 4, 3, 3), mesh, [R, R], src_data_rank=None)
    planners: list[object] = []
    steps, moved = ExactPlanner._searched, OpDispatcher.redistribute_local_args
    decided, changed = threading.Event(), threading.Event()

    def noted(self: ExactPlanner, *specs: Any) -> Any:
        planners.append(self)
        return steps(self, *specs)

    def stopped(*given: Any) -> Any:
        decided.set()
        assert changed.wait(60)
        with monkeypatch.context() as patched:
            patched.setattr(ExactPlanner, "_searched", noted)
            return moved(*given)

    monkeypatch.setattr(OpDispatcher, "redistribute_local_args", staticmethod(stopped))
    shardprop.enable(**before)
    planner = getattr(current_policy(), "planner", None)
    worker.begin(lambda: torch.nn.functional.conv2d(image, weight))
    assert decided.wait(60)
    shardprop.enable(policy="optimal", topology="cpu-gloo")
    changed.set()
    worker.finish()
    assert {*planners} == ({planner} if before else set())


def test_a_decision_may_run_ops_and_clear_caches(mesh_of: MeshOf) -> None:
    """torch's dispatcher holds on to its cache meanwhile; the op after it is asked about anew."""
    with torch.library._scoped_library("shardprop_threads", "FRAGMENT") as library:
        library.define("thrice(Tensor x) -> Tensor")
        library.impl("thrice", lambda x: x * 3, "CompositeExplicitAutograd")
        op = torch.ops.shardprop_threads.thrice.default
        x = dtensor(mesh_of(2), [S(0)])
        asked: list[Any] = []

        def rule(op: Any, args: Any, kwargs: Any) -> list[list[Any]]:
            shardprop.clear_caches()
            asked.append(sharded(x + x).placements)
            return [[S(0), S(0)]]

        shardprop.register_single_dim_rule(op)(rule)
        shardprop.enable()
        for _ in range(3):
            assert op(x).placements == (S(0),)
        assert asked == [(S(0),)] * 3
        shardprop.unregister(op)


def test_an_op_inside_a_decision_is_decided_under_the_policy_of_that(
    mesh_of: MeshOf, worker: Worker
) -> None:
    with torch.library._scoped_library("shardprop_threads", "FRAGMENT") as library:
        library.define("nested(Tensor x) -> Tensor")
        library.impl("nested", lambda x: x * 3, "CompositeExplicitAutograd")
        op = torch.ops.shardprop_threads.nested.default
        x, y = crossed(mesh_of(2, 4))
        inside: list[Any] = []

        def rule(op: Any, args: Any, kwargs: Any) -> list[list[Any]]:
            worker.run(lambda: shardprop.enable(**OPTIMAL))
            inside.append(sharded(x + y).placements)
            return [[S(0), S(0)]]

        shardprop.register_single_dim_rule(op)(rule)
        shardprop.enable()
        op(x)
        assert {*inside} == {BY_TORCH}
        assert sharded(x + y).placements == BY_OPTIMAL
        shardprop.unregister(op)


class Sample(NamedTuple):
    """An op that a thread ran, in nanoseconds from any moment."""

    start: int
    end: int
    placements: Any


class Change(NamedTuple):
    start: int
    end: int
    expected: Any


def ops_of(mesh: DeviceMesh, seed: int, goes_on: Callable[[], bool]) -> Iterator[Sample]:
    """Forward and backward, of shapes that were seen and of others."""
    chooses = random.Random(seed)
    while goes_on():
        x, y = crossed(mesh, 8 * chooses.randrange(1, 200))
        x.requires_grad_()
        for _ in range(3):
            start = time.perf_counter_ns()
            total = sharded(x + y)
            yield Sample(start, time.perf_counter_ns(), total.placements)
        torch.mm(total, y.t()).sum().backward()
        assert x.grad is not None


def changes(seed: int, goes_on: Callable[[], bool]) -> Iterator[Change]:
    chooses = random.Random(seed)
    kinds: list[tuple[Callable[[], None], Any]] = [
        (shardprop.disable, BY_TORCH),
        (shardprop.enable, BY_TORCH),
        (lambda: shardprop.enable(**OPTIMAL), BY_OPTIMAL),
        (lambda: shardprop.enable(**OPTIMAL), BY_OPTIMAL),
    ]
    while goes_on():
        change, expected = chooses.choice(kinds)
        start = time.perf_counter_ns()
        change()
        yield Change(start, time.perf_counter_ns(), expected)
        time.sleep(chooses.choice([0, 0.001, 0.02, 0.1]))
        if chooses.random() < 0.2:
            shardprop.clear_caches()


def unambiguous(samples: list[Sample], made: list[Change]) -> Iterator[tuple[Sample, Change]]:
    """Ops that began and ended between two changes."""
    place = 0
    for sample in samples:
        while place + 1 < len(made) and made[place + 1].start < sample.end:
            place += 1
        if made[place].end <= sample.start:
            yield sample, made[place]


def toggled(mesh: DeviceMesh, seed: int) -> tuple[list[Change], list[tuple[Sample, Change]]]:
    """Changes while threads decide, and what is unambiguous of that; raises what a thread does."""
    until = time.monotonic() + SECONDS
    samples: list[list[Sample]] = [[] for _ in range(THREADS)]
    errors: list[BaseException] = []

    def work(index: int) -> None:
        try:
            of_thread = seed * THREADS + index
            samples[index].extend(ops_of(mesh, of_thread, lambda: time.monotonic() < until))
        except BaseException as error:
            errors.append(error)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-4)
    threads = [threading.Thread(target=work, args=(index,)) for index in range(THREADS)]
    try:
        for thread in threads:
            thread.start()
        made = list(changes(seed, lambda: any(thread.is_alive() for thread in threads)))
    finally:
        for thread in threads:
            thread.join()
        sys.setswitchinterval(interval)
    if errors:
        raise errors[0]
    return made, [pair for each in samples for pair in unambiguous(each, made)]


@pytest.mark.slow
def test_toggling_while_threads_decide_never_raises(mesh_of: MeshOf) -> None:
    """As often as it takes to see enough: on a busy machine an op lasts longer than a policy."""
    mesh = mesh_of(2, 4)
    made: list[Change] = []
    compared: list[tuple[Sample, Change]] = []
    for seed in range(MOST_ROUNDS):
        of_round = toggled(mesh, seed)
        made += of_round[0]
        compared += of_round[1]
        seen = {change.expected for _, change in compared}
        if len(compared) > 20 * SECONDS and len(made) > 2 * SECONDS and len(seen) == 2:
            break
    wrong = [
        (sample, change) for sample, change in compared if sample.placements != change.expected
    ]
    print(f"{len(made)} changes, {len(compared)} unambiguous ops")
    assert wrong == []
    assert len(compared) > 20 * SECONDS and len(made) > 2 * SECONDS
    assert {change.expected for _, change in compared} == {BY_TORCH, BY_OPTIMAL}


class AddsInBackward(torch.autograd.Function):
    """Adds two DTensors in its backward pass, and notes how that was decided and where."""

    noted: list[tuple[int, Any]] = []  # noqa: RUF012
    operands: tuple[DTensor, DTensor]

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x * 1

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
        x, y = AddsInBackward.operands
        AddsInBackward.noted.append((threading.get_ident(), sharded(x + y).placements))
        return grad * 1


def test_a_backward_pass_in_another_thread_sees_each_change(
    mesh_of: MeshOf, worker: Worker
) -> None:
    mesh = mesh_of(2, 4)
    AddsInBackward.operands = crossed(mesh)
    AddsInBackward.noted.clear()
    of_worker = worker.run(threading.get_ident)
    for change, expected in (
        (lambda: shardprop.enable(**OPTIMAL), BY_OPTIMAL),
        (shardprop.enable, BY_TORCH),
        (lambda: shardprop.enable(**OPTIMAL), BY_OPTIMAL),
        (shardprop.disable, BY_TORCH),
    ):
        total = AddsInBackward.apply(dtensor(mesh, [S(0), S(1)]).requires_grad_()).sum()
        change()
        worker.run(total.backward)
        assert AddsInBackward.noted[-1] == (of_worker, expected)


# --- the attribute that every op reads --------------------------------------------------------


def test_the_attribute_is_as_without_us(mesh_of: MeshOf, monkeypatch: pytest.MonkeyPatch) -> None:
    shardprop.enable()
    dispatcher = DTensor._op_dispatcher
    before = dispatcher._custom_op_handlers
    assert before is vars(dispatcher)["_custom_op_handlers"]
    x = dtensor(mesh_of(2), [S(0)])
    called: list[Any] = []

    def handler(op: Any, args: Any, kwargs: Any) -> Any:
        called.append(op)
        return args[0]

    monkeypatch.setitem(dispatcher._custom_op_handlers, torch.ops.aten.sinh.default, handler)
    assert torch.ops.aten.sinh.default(x) is x
    with monkeypatch.context() as patch:
        patch.setattr(dispatcher, "_custom_op_handlers", {torch.ops.aten.cosh.default: handler})
        assert torch.ops.aten.cosh.default(x) is x
        assert torch.ops.aten.sinh.default(x).placements == (S(0),)
    assert dispatcher._custom_op_handlers is before
    assert len(called) == 2


def test_each_dispatcher_has_its_own_value() -> None:
    shardprop.enable()
    first, second = OpDispatcher(), OpDispatcher()
    first._custom_op_handlers = {}
    assert first._custom_op_handlers == {} != second._custom_op_handlers
    assert copy.copy(first)._custom_op_handlers is first._custom_op_handlers
    del first._custom_op_handlers
    for act in (lambda: first._custom_op_handlers, lambda: delattr(first, "_custom_op_handlers")):
        with pytest.raises(AttributeError, match="'OpDispatcher' object has no attribute '_custom"):
            act()
    assert "_custom_op_handlers" in vars(second)


class Plain:
    """Has a slot of its own."""


def test_a_slot_is_cleared_once_by_each_thread_that_is_behind(worker: Worker) -> None:
    from shardprop import _core

    cleared: list[int] = []
    can = [True]

    def clear() -> bool:
        cleared.append(threading.get_ident())
        return can[0]

    Plain.value = _core.GenerationSlot("value", clear)  # type: ignore[attr-defined]
    plain: Any = Plain()
    plain.value = 3
    assert vars(plain) == {"value": 3}
    assert vars(pickle.loads(pickle.dumps(plain))) == {"value": 3}
    for _ in range(2):
        _core.begin_generation()
        cleared.clear()
        assert [plain.value, plain.value] == [3, 3]
        assert [worker.run(lambda: plain.value) for _ in range(2)] == [3, 3]
        assert cleared == [threading.get_ident(), worker.run(threading.get_ident)]
    _core.fall_behind()
    can[0] = False
    cleared.clear()
    assert [plain.value, plain.value] == [3, 3]
    assert len(cleared) == 2, "what was not cleared is behind"
    can[0] = True
    assert plain.value == 3
    with pytest.raises(TypeError):
        _core.GenerationSlot(3, clear)  # type: ignore[arg-type]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_child_that_was_forked_decides_as_its_parent(mesh_of: MeshOf, worker: Worker) -> None:
    x, y = crossed(mesh_of(2, 4))
    shardprop.enable(**OPTIMAL)
    assert worker.run(lambda: sharded(x + y).placements) == sharded(x + y).placements == BY_OPTIMAL
    child = os.fork()
    if child == 0:
        status = 1
        try:
            as_parent = sharded(x + y).placements == BY_OPTIMAL
            shardprop.disable()
            status = 0 if as_parent and sharded(x + y).placements == BY_TORCH else 2
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
