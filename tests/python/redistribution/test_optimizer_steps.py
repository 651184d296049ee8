"""Steps of optimizers made on what ranks hold: as torch's, seen by whoever looks, and left to
torch's code where something would move."""

from __future__ import annotations

import functools
import inspect
import itertools
import subprocess
import sys
from collections.abc import Callable, Iterator
from itertools import chain
from types import FunctionType
from typing import Any
from unittest import mock

import pytest
import torch
from torch import nn
from torch._dynamo.testing import CompileCounter
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Placement
from torch.distributed.tensor.debug import CommDebugMode
from torch.distributed.tensor.experimental import implicit_replication
from torch.optim import adam, sgd
from torch.overrides import TorchFunctionMode
from torch.testing._internal.two_tensor import TwoTensor
from torch.utils._python_dispatch import TorchDispatchMode

import shardprop

from ..device import DEVICE
from ..programs.outcome import differing, freeze
from ..specs import P, R, S

MeshOf = Callable[..., DeviceMesh]
STEPS = 5
LAYOUTS = [((8, 6), (S(0), S(1))), ((7, 5), (S(0), R)), ((9, 2), (S(0), S(0))), ((4,), (R, R))]

OPTIMIZERS: dict[str, tuple[type[torch.optim.Optimizer], dict[str, Any]]] = {
    "Adadelta": (torch.optim.Adadelta, {"weight_decay": 0.1}),
    "Adagrad": (torch.optim.Adagrad, {"lr_decay": 0.1}),
    "Adam": (torch.optim.Adam, {"amsgrad": True, "maximize": True}),
    "AdamW": (torch.optim.AdamW, {}),
    "Adamax": (torch.optim.Adamax, {"weight_decay": 0.1}),
    "ASGD": (torch.optim.ASGD, {"t0": 2.0, "weight_decay": 0.1}),
    "NAdam": (torch.optim.NAdam, {"decoupled_weight_decay": True}),
    "RAdam": (torch.optim.RAdam, {"weight_decay": 0.1}),
    "RMSprop": (torch.optim.RMSprop, {"momentum": 0.9, "centered": True}),
    "SGD": (torch.optim.SGD, {"lr": 0.1}),
    "SGD with momentum": (torch.optim.SGD, {"lr": 0.1, "momentum": 0.9, "nesterov": True}),
}
WAYS = [{"foreach": False}, {"foreach": True}]


def spread(mesh: DeviceMesh, shape: tuple[int, ...], at: tuple[Placement, ...], seed: int) -> Any:
    values = torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(DEVICE)
    whole = DTensor.from_local(values, mesh, [R] * mesh.ndim, run_check=False)
    return whole.redistribute(placements=at)


def parameters(mesh: DeviceMesh) -> list[nn.Parameter]:
    return [nn.Parameter(spread(mesh, shape, at, seed=0)) for shape, at in LAYOUTS]


def give_gradients(of: list[nn.Parameter], seed: int) -> None:
    for parameter in of:
        held: Any = parameter
        parameter.grad = spread(held.device_mesh, held.shape, held.placements, seed)


def trained(
    mesh: DeviceMesh, make: Callable[[list[nn.Parameter]], torch.optim.Optimizer]
) -> dict[str, Any]:
    """Parameters, gradients and state after some steps."""
    learned = parameters(mesh)
    optimizer = make(learned)
    for step in range(1, STEPS + 1):
        give_gradients(learned, seed=step)
        optimizer.step()
    gradients = [parameter.grad for parameter in learned]
    state = optimizer.state_dict()["state"]
    return freeze({"parameters": learned, "gradients": gradients, "state": state})  # type: ignore[return-value]


@pytest.fixture(autouse=True)
def enabled() -> Iterator[None]:
    with shardprop.enabled():
        yield


class Ops(TorchDispatchMode):
    """The ops of DTensors that a block runs."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if DTensor in types:
            self.seen.append(str(func))
        return func(*args, **(kwargs or {}))


@pytest.fixture
def on_locals() -> Iterator[mock.Mock]:
    """Counts the steps made on what a rank holds."""
    as_on_locals = shardprop._torch.as_on_locals
    with mock.patch("shardprop._torch.as_on_locals", wraps=as_on_locals) as counted:
        yield counted


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS, ids=["one by one", "foreach"])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_steps_are_torchs(
    mesh_of: MeshOf, on_locals: mock.Mock, name: str, way: dict[str, Any]
) -> None:
    kind, options = OPTIMIZERS[name]

    def make(learned: list[nn.Parameter]) -> torch.optim.Optimizer:
        return kind(learned, **options, **way)

    mesh = mesh_of(2, 2)
    found = trained(mesh, make)
    # The first is torch's own, and one more where that one makes the state.
    assert on_locals.call_count >= STEPS - 2
    shardprop.disable()
    assert [*differing(trained(mesh, make), found, "")] == []


@pytest.mark.parametrize("lr", [0.1, torch.tensor(0.1)], ids=["number", "tensor"])
def test_fused_steps_are_torchs(mesh_of: MeshOf, on_locals: mock.Mock, lr: Any) -> None:
    def make(learned: list[nn.Parameter]) -> torch.optim.Optimizer:
        return torch.optim.AdamW(learned, lr=lr, fused=True, amsgrad=True)

    found = trained(mesh_of(2, 2), make)
    assert on_locals.call_count == STEPS - 1
    shardprop.disable()
    assert [*differing(trained(mesh_of(2, 2), make), found, "")] == []


def stepping(mesh: DeviceMesh, **options: Any) -> tuple[list[nn.Parameter], Any]:
    learned = parameters(mesh)
    give_gradients(learned, seed=1)
    optimizer = torch.optim.Adam(learned, **options)
    optimizer.step()
    return learned, optimizer.step


def test_a_mode_sees_the_ops_that_it_saw(mesh_of: MeshOf, on_locals: mock.Mock) -> None:
    _, step = stepping(mesh_of(2, 2), foreach=False)
    step()
    assert on_locals.call_count == 1
    with Ops() as ops:
        step()
    assert ops.seen.count("aten.lerp_.Scalar") == len(LAYOUTS)
    with CommDebugMode():
        step()
    with torch.profiler.profile() as profile:
        step()
    assert "aten::lerp_" in {event.key for event in profile.key_averages()}
    assert on_locals.call_count == 1


def test_a_function_mode_sees_dtensors(mesh_of: MeshOf, on_locals: mock.Mock) -> None:
    _, step = stepping(mesh_of(2, 2), fused=True)
    seen = []

    class Functions(TorchFunctionMode):
        def __torch_function__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            seen.append(DTensor in map(type, args[0]) if isinstance(args[0], list) else None)
            return func(*args, **(kwargs or {}))

    with Functions():
        step()
    assert True in seen
    assert on_locals.call_count == 0


def test_a_trace_counts_every_op(mesh_of: MeshOf, on_locals: mock.Mock) -> None:
    _, step = stepping(mesh_of(2, 2), foreach=True)
    step()
    counted = []
    for _ in range(2):
        with shardprop.trace() as trace, Ops() as ops:
            step()
        counted.append((trace.hits + trace.misses, len(ops.seen)))
        with shardprop.trace() as trace:
            step()
        counted.append((trace.hits + trace.misses, len(ops.seen)))
    assert counted == [counted[0]] * 4
    assert counted[0][0] >= 5
    assert on_locals.call_count == 1


@pytest.mark.parametrize("way", [*WAYS, {"fused": True}], ids=["one by one", "foreach", "fused"])
def test_autograd_sees_what_it_saw(
    mesh_of: MeshOf, on_locals: mock.Mock, way: dict[str, Any]
) -> None:
    def versions() -> Any:
        """Of all that a program can get hold of; and what it may no longer differentiate."""
        learned, step = stepping(mesh_of(2, 2), **way)
        held: Any = learned[0]
        local = held.to_local()
        for _ in range(3):
            step()
        loss = (held * held).sum()
        step()
        try:
            loss.backward()
            refused = ""
        except RuntimeError as error:
            refused = str(error).partition(":")[0]
        state = step.__self__.state
        tensors = [
            *learned,
            *(p.grad for p in learned),
            *chain(*(s.values() for s in state.values())),
        ]
        seen = [(each._version, getattr(each, "_local_tensor", each)._version) for each in tensors]
        return refused, seen, local.sum().item()

    found = versions()
    assert on_locals.call_count == 4
    shardprop.disable()
    assert versions() == found


def test_an_error_in_a_step_comes_after_the_parameters_before_it(
    mesh_of: MeshOf, on_locals: mock.Mock
) -> None:
    def seen() -> Any:
        learned, step = stepping(mesh_of(2, 2), foreach=False)
        step()
        broken: Any = learned[1]
        step.__self__.state[broken]["exp_avg"]._local_tensor = torch.ones(99)
        with pytest.raises(RuntimeError, match="99"):
            step()
        return freeze(learned)

    found = seen()
    assert on_locals.call_count == 2
    shardprop.disable()
    assert seen() == found


def test_handlers_of_the_program_are_called(mesh_of: MeshOf, on_locals: mock.Mock) -> None:
    called = []

    def handler(op_call: Any, args: Any, kwargs: Any) -> Any:
        called.append(op_call)
        local = args[0]._local_tensor
        local.add_(args[1]._local_tensor, **kwargs)
        return args[0]

    mesh = mesh_of(4)
    weight: Any = nn.Parameter(spread(mesh, (4, 4), (S(0),), seed=0))
    weight.grad = spread(mesh, (4, 4), (S(0),), seed=1)
    step = torch.optim.SGD([weight], foreach=False).step
    handlers: Any = DTensor._op_dispatcher._custom_op_handlers
    with mock.patch.dict(handlers, {torch.ops.aten.add_.Tensor: handler}):
        for _ in range(3):
            step()
    assert len(called) == 3
    assert on_locals.call_count == 0


@pytest.mark.slow
def test_torchscript_compiles_the_optimizers_that_it_compiled() -> None:
    def scripted(before: str) -> str:
        program = (
            f"import shardprop, torch; {before}; import torch.distributed.optim; print('imported');"
            "torch.jit.script(torch.optim._functional.adagrad); print('scripted')"
        )
        command = [sys.executable, "-W", "ignore", "-c", program]
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout

    found = scripted("shardprop.enable()")
    assert "imported" in found
    assert found == scripted("pass")  # torch 2.15 itself compiles it no more


def test_functions_that_are_called_in_other_ways_are_torchs(mesh_of: MeshOf) -> None:
    mesh = mesh_of(4)
    options: Any = dict.fromkeys(["weight_decay", "momentum", "dampening"], 0.0)
    options.update(lr=0.5, nesterov=False, maximize=False, foreach=False)
    weight, gradient = (spread(mesh, (4, 4), (S(0),), seed=seed) for seed in (0, 1))
    expected = weight.to_local() - 3 * 0.5 * gradient.to_local()
    with torch.no_grad():
        for _ in range(3):
            sgd.sgd((weight,), (gradient,), (), **options)  # type: ignore[arg-type]
    torch.testing.assert_close(weight.to_local(), expected)


def test_what_moves_is_left_to_torch(mesh_of: MeshOf, on_locals: mock.Mock) -> None:
    mesh = mesh_of(2, 2)
    for at, of_gradient in itertools.product([(R, R), (S(0), R)], [(R, P), (S(1), R)]):
        weight: Any = nn.Parameter(spread(mesh, (4, 4), at, seed=0))
        local = spread(mesh, (4, 4), tuple(R if p is P else p for p in of_gradient), seed=1)
        weight.grad = DTensor.from_local(local.to_local(), mesh, of_gradient, run_check=False)
        optimizer = torch.optim.SGD([weight], foreach=False)
        for _ in range(3):
            optimizer.step()
    assert on_locals.call_count == 0


def test_one_by_one_only_what_moves_is_left_to_torch(mesh_of: MeshOf, on_locals: mock.Mock) -> None:
    mesh = mesh_of(2, 2)

    def run() -> Any:
        weights: list[Any] = [nn.Parameter(spread(mesh, (4, 4), (S(0), R), i)) for i in range(3)]
        weights.append(nn.Parameter(torch.ones(2)))
        optimizer = torch.optim.SGD(weights, lr=0.1, momentum=0.9, foreach=False)
        for step in range(STEPS):
            for weight, at in zip(weights, [(S(0), R), (S(1), R), (S(0), R)], strict=False):
                weight.grad = spread(mesh, (4, 4), at, seed=step)
            weights[-1].grad = torch.full((2,), float(step))
            optimizer.step()
        return freeze([weights, optimizer.state_dict()["state"]])

    found = run()
    # The first makes the state, the second is the first to meet it; later ones leave one to torch.
    assert on_locals.call_count == (STEPS - 2) * 3
    shardprop.disable()
    assert [*differing(run(), found, "")] == []


def test_another_layout_is_learned_anew(mesh_of: MeshOf, on_locals: mock.Mock) -> None:
    mesh = mesh_of(2, 2)
    weight: Any = nn.Parameter(spread(mesh, (4, 4), (S(0), R), seed=0))
    optimizer = torch.optim.SGD([weight], foreach=False)
    counted = []
    for dim in (0, 0, 1, 0, 0):
        weight.grad = spread(mesh, (4, 4), (S(dim), R), seed=1)
        optimizer.step()
        counted.append(on_locals.call_count)
    assert counted == [0, 1, 1, 1, 2]


def test_what_is_held_in_a_class_of_the_programs_own_is_torchs(
    mesh_of: MeshOf, on_locals: mock.Mock
) -> None:
    mesh = mesh_of(4)
    twice = TwoTensor(torch.ones(2), torch.ones(2))
    weight: Any = nn.Parameter(DTensor.from_local(twice, mesh, [R]))
    weight.grad = DTensor.from_local(torch.ones(2), mesh, [R])
    optimizer = torch.optim.SGD([weight], foreach=False)
    for _ in range(3):
        optimizer.step()
    assert on_locals.call_count == 0
    assert weight.to_local().b.tolist() == pytest.approx([1 - 3e-3] * 2)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of what Dynamo imports
def test_plain_tensors_are_torchs_even_where_dynamo_follows(on_locals: mock.Mock) -> None:
    weights = [torch.ones(3, requires_grad=True) for _ in range(2)]
    for weight in weights:
        weight.grad = torch.ones(3)
    eager = torch.optim.SGD(weights[:1], lr=0.5, foreach=False).step
    followed = torch.optim.SGD(weights[1:], lr=0.5, foreach=False).step
    torch.compile(followed, backend="eager")()
    eager()
    assert [weight.tolist() for weight in weights] == [[0.5] * 3] * 2
    assert on_locals.call_count == 0


def test_steps_around_which_dynamo_was_before(mesh_of: MeshOf, on_locals: mock.Mock) -> None:
    _, step = stepping(mesh_of(2, 2), fused=True)
    shardprop.disable()
    dynamos = torch._dynamo.disable(inspect.unwrap(adam._fused_adam))
    with mock.patch.object(adam, "_fused_adam", dynamos):
        with shardprop.enabled():
            assert adam._fused_adam is not dynamos
            step()
            step()
            assert on_locals.call_count == 1
        assert adam._fused_adam is dynamos


def test_torchs_functions_come_back_and_others_stay() -> None:
    standing_in = adam._single_tensor_adam
    shardprop.disable()
    torchs = adam._single_tensor_adam
    assert torchs is not standing_in
    assert torchs.__module__ == "torch.optim.adam"
    with mock.patch.object(sgd, "_single_tensor_sgd") as foreign:
        with shardprop.enabled():
            assert sgd._single_tensor_sgd is foreign
        assert sgd._single_tensor_sgd is foreign
    with shardprop.enabled(executor=False):
        assert adam._single_tensor_adam is torchs


def test_what_somebody_put_around_ours_does_as_ours_would(
    mesh_of: MeshOf, on_locals: mock.Mock
) -> None:
    _, step = stepping(mesh_of(2, 2), foreach=False)
    with mock.patch.object(adam, "_single_tensor_adam", wraps=adam._single_tensor_adam) as around:
        functools.update_wrapper(around, around._mock_wraps)
        step()
        assert on_locals.call_count == 1
        shardprop.disable()
        step()
        assert on_locals.call_count == 1
        with shardprop.enabled():
            step()
            step()
            assert on_locals.call_count == 2
        assert around.call_count == 4


@pytest.mark.parametrize("is_placed", [False, True])
def test_an_iterator_is_torchs(is_placed: bool, mesh_of: MeshOf) -> None:
    weight: Any = spread(mesh_of(2), (4,), (R,), 0) if is_placed else torch.ones(4)
    before = weight.clone()
    way: Any = {"weight_decay": 0.0, "momentum": 0.0, "lr": 0.5, "dampening": 0.0}
    way |= {"nesterov": False, "maximize": False, "foreach": False}
    with torch.no_grad():
        sgd.sgd(iter([weight]), [before], [None], **way)  # type: ignore[arg-type]
        assert torch.equal(weight, before * 0.5)


def test_handlers_exchanged_for_others_are_called(mesh_of: MeshOf, on_locals: mock.Mock) -> None:
    _, step = stepping(mesh_of(2, 2), foreach=False)
    handlers: Any = DTensor._op_dispatcher._custom_op_handlers
    handled: list[Any] = []

    def handler(op: Any, args: Any, kwargs: Any) -> Any:
        handled.append(op)
        return args[0]

    with mock.patch.dict(handlers):
        del handlers[torch.ops.aten.is_same_size.default]
        handlers[torch.ops.aten.lerp_.Scalar] = handler
        step()
    assert len(handled) == len(LAYOUTS)
    assert on_locals.call_count == 0


@pytest.mark.parametrize("handler", [torch.Tensor.sin, FunctionType((lambda: None).__code__, {})])
def test_handlers_without_a_module_are_somebodys(
    handler: Any, mesh_of: MeshOf, on_locals: mock.Mock
) -> None:
    handlers: Any = DTensor._op_dispatcher._custom_op_handlers
    with mock.patch.dict(handlers, {torch.ops.aten.sin.default: handler}):
        _, step = stepping(mesh_of(2, 2))
        step()
    assert on_locals.call_count == 0


def test_what_torch_refuses_is_refused_once_known(mesh_of: MeshOf, on_locals: mock.Mock) -> None:
    learned, step = stepping(mesh_of(2, 2), foreach=False)
    step()
    state = step.__self__.state[learned[0]]
    with torch.inference_mode():
        state["exp_avg"] = state["exp_avg"].clone()
    before = learned[0].full_tensor()  # type: ignore[attr-defined]
    with pytest.raises(RuntimeError, match="inference tensor"):
        step()
    assert torch.equal(learned[0].full_tensor(), before)  # type: ignore[attr-defined]
    assert on_locals.call_count == 1


def test_gradients_made_in_inference_mode_are_read(mesh_of: MeshOf) -> None:
    learned, step = stepping(mesh_of(2, 2), foreach=False)
    gradients: list[Any] = [each.grad for each in learned]
    with torch.inference_mode():
        for each, gradient in zip(learned, gradients, strict=True):
            mesh, at, meta = gradient.device_mesh, gradient.placements, gradient._spec.tensor_meta
            way: Any = {"run_check": False, "shape": meta.shape, "stride": meta.stride}
            each.grad = DTensor.from_local(gradient._local_tensor, mesh, at, **way)
    assert all(each.grad.is_inference() for each in learned)  # type: ignore[union-attr]
    before = learned[0].full_tensor()  # type: ignore[attr-defined]
    step()
    assert not torch.equal(learned[0].full_tensor(), before)  # type: ignore[attr-defined]


def test_plain_tensors_count_as_replicated_only_where_the_program_says(mesh_of: MeshOf) -> None:
    mesh = mesh_of(2)
    learned: Any = [nn.Parameter(spread(mesh, (4,), (R,), 0)), nn.Parameter(torch.ones(4))]
    for each in learned:
        each.grad = each.detach().clone()
    step = torch.optim.SGD(learned, foreach=True).step
    with implicit_replication():
        step()
    with pytest.raises(RuntimeError, match="got mixed"):
        step()


def test_versions_are_torchs_when_options_change(mesh_of: MeshOf) -> None:
    def seen() -> list[int]:
        learned, step = stepping(mesh_of(2, 2), foreach=False)
        versions = []
        for weight_decay in (0.0, 0.0, 0.1, 0.1, 0.0, 0.0):
            step.__self__.param_groups[0]["weight_decay"] = weight_decay
            step()
            versions.append(learned[0]._version)
        return versions

    found = seen()
    shardprop.disable()
    assert found == seen()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of what Dynamo imports
def test_compiled_steps_on_plain_tensors_are_compiled_once(mesh_of: MeshOf) -> None:
    weight = torch.ones(3, requires_grad=True)
    weight.grad = torch.ones(3)
    torch._dynamo.reset()
    counted = CompileCounter()
    followed = torch.compile(torch.optim.SGD([weight], foreach=False).step, backend=counted)
    for _ in range(4):
        shardprop.disable()
        with shardprop.enabled():
            followed()
    assert counted.frame_count == 1
