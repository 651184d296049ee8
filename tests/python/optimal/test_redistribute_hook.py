"""Plans in the place of torch's: where torch's stay, what tools see of them, tracing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Literal

import pytest
import torch
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import (
    DTensor,
    Partial,
    Placement,
    Replicate,
    Shard,
    _api,
    _dispatch,
    _redistribute,
    distribute_tensor,
)
from torch.distributed.tensor._utils import ExplicitRedistributionContext
from torch.distributed.tensor.debug import CommDebugMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils._debug_mode import DebugMode

from shardprop import _torch
from shardprop.model.plan_steps import Layout, Step
from shardprop.redistribution.execution import run
from shardprop.redistribution.hook import layout_text, plan_text, redistribute_with

from ..narrow import sharded
from ..specs import SS, spec_of
from .local import fault, split
from .planned import random_plans
from .ranks import all_groups, flattened, numbers
from .walks import Tensor

R, S, P = Replicate(), Shard, Partial
CUBE = (2, 2, 2)
MODULES = (_redistribute, _dispatch, _api)


@pytest.fixture
def cube(process_group: None) -> DeviceMesh:
    return flattened(CUBE, all_groups(CUBE))


def one_step(
    kind: str,
    before: tuple[Placement, ...],
    after: tuple[Placement, ...],
    group: tuple[int, ...],
    shape: tuple[int, ...] = (8, 8),
) -> Step:
    tensor = Tensor(shape, CUBE)
    return Step(kind, group, tensor.layout(before), tensor.layout(after), 0.0, 0.0, 0, 0)


GATHER = one_step("all_gather", (S(0), R, S(0)), (R, R, R), (0, 2))
PERMUTE = one_step("permute", (S(0), R, R), (R, R, S(0)), (0, 2))


@pytest.fixture
def install() -> Iterator[Callable[..., list[Any]]]:
    """Installs plans of one step each, and gives the list of the pairs that are asked for."""

    def installing(*steps: Step) -> list[Any]:
        asked: list[Any] = []
        plans = {(step.before.placements, step.after.placements): [step] for step in steps}

        def plan_of(source: Any, target: Any) -> list[Step] | None:
            pair = source.placements, target.placements
            asked.append(pair)
            return plans.get(pair)

        _torch.install_redistribute(redistribute_with(plan_of))
        return asked

    yield installing
    _torch.uninstall_redistribute()


def placed(mesh: DeviceMesh, placements: tuple[Placement, ...], **options: Any) -> DTensor:
    whole = torch.arange(64.0).reshape(8, 8)
    result = distribute_tensor(whole, mesh, placements, src_data_rank=None)
    return sharded(result.requires_grad_(**options)) if options else result


def test_every_module_of_torch_is_given_the_function_and_gets_its_own_back(
    install: Callable[..., list[Any]],
) -> None:
    install()
    functions = {module.redistribute_local_tensor for module in MODULES}
    assert len(functions) == 1 and _torch.torch_redistribute not in functions
    from torch.distributed.tensor.experimental import _tp_transform

    assert vars(_tp_transform)["redistribute_local_tensor"] in functions
    _torch.uninstall_redistribute()
    for module in (*MODULES, _tp_transform):
        assert module.redistribute_local_tensor is _torch.torch_redistribute


def test_a_flattened_gather_is_one_collective(
    cube: DeviceMesh, install: Callable[..., list[Any]]
) -> None:
    x = placed(cube, (S(0), R, S(0)))
    install(GATHER)
    mode = CommDebugMode()
    with mode:
        assert x.redistribute(placements=(R, R, R)).to_local().shape == (8, 8)
    assert mode.get_total_counts() == 1
    (counted,) = mode.get_comm_counts()
    assert "all_gather_into_tensor" in str(counted)


def test_without_a_plan_torch_has_its_own(
    cube: DeviceMesh, install: Callable[..., list[Any]]
) -> None:
    x = placed(cube, (S(0), R, R))
    asked = install()
    assert x.redistribute(placements=(R, R, R)).to_local().shape == (8, 8)
    assert asked == [((S(0), R, R), (R, R, R))]


def test_torch_refuses_what_it_refused(
    cube: DeviceMesh, mesh_of: Callable[..., DeviceMesh], install: Callable[..., list[Any]]
) -> None:
    asked = install()
    redistribute: Any = _redistribute.redistribute_local_tensor
    one, other = spec_of(cube, (8,), (S(0), R, R)), spec_of(mesh_of(8), (8,), (R,))
    with pytest.raises(NotImplementedError, match="Cross device mesh"):
        redistribute(torch.ones(4), one, other)
    mixed = spec_of(cube, (8,), (P("max"), P("sum"), R))
    with pytest.raises(ValueError, match="ixed"):
        redistribute(torch.ones(4), one, mixed)
    assert asked == []


def test_a_rank_outside_the_mesh_keeps_what_it_has(install: Callable[..., list[Any]]) -> None:
    mesh = DeviceMesh("cpu", torch.tensor([[4, 5], [6, 7]]), mesh_dim_names=("a", "b"))
    asked = install()
    local = torch.ones(0)
    redistribute: Any = _redistribute.redistribute_local_tensor
    specs = spec_of(mesh, (8,), (S(0), R)), spec_of(mesh, (8,), (R, R))
    assert redistribute(local, *specs) is local
    assert asked == []


def test_one_of_torchs_planners_that_is_asked_for_plans(
    cube: DeviceMesh, install: Callable[..., list[Any]]
) -> None:
    asked = install(GATHER)
    redistribute: Any = _redistribute.redistribute_local_tensor
    specs = spec_of(cube, (8, 8), (S(0), R, S(0))), spec_of(cube, (8, 8), (R, R, R))
    made = redistribute(torch.ones(2, 8), *specs, use_graph_based_transform=True)
    assert made.shape == (8, 8) and asked == []


@pytest.mark.parametrize("step", [GATHER, PERMUTE], ids=lambda step: step.kind)
@pytest.mark.parametrize("async_op", [False, True], ids=["", "async"])
def test_only_async_results_are_left_to_be_waited_for(
    step: Step, async_op: bool, cube: DeviceMesh, install: Callable[..., list[Any]]
) -> None:
    install(step)
    redistribute: Any = _redistribute.redistribute_local_tensor
    specs = [spec_of(cube, (8, 8), x.placements) for x in (step.before, step.after)]
    rows = 8 // (4 if step is GATHER else 2)
    made = redistribute(torch.ones(rows, 8), *specs, async_op=async_op)
    assert (type(made) is torch.Tensor) != async_op
    assert _torch.waited(made).shape == ((8, 8) if step is GATHER else (4, 8))


def test_what_an_op_needs_goes_by_a_plan_too_unless_the_program_forbids_it(
    cube: DeviceMesh,
) -> None:
    x, y = placed(cube, (S(0), R, R)), placed(cube, (S(1), R, R))
    expected = sharded(x + y)
    with random_plans() as planner:
        result = sharded(x + y)
        assert result.placements == expected.placements
        assert result.to_local().shape == expected.to_local().shape
        assert len(planner.plans) == 1 and planner.plans[0]
        with ExplicitRedistributionContext(), pytest.raises(RuntimeError, match="mplicit"):
            x + y
    assert len(planner.plans) == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("before", "after", "plan"),
    [
        ((S(0), R, S(0)), (R, R, R), [GATHER]),
        ((S(0), R, R), (R, R, R), [one_step("all_gather", (S(0), R, R), (R, R, R), (0,))]),
        ((S(0), S(1), P()), (S(0), S(1), P()), []),
    ],
    ids=["flattened", "one dim", "nothing to do"],
)
def test_debug_mode_shows_a_plan_as_it_shows_torchs(
    before: tuple[Placement, ...],
    after: tuple[Placement, ...],
    plan: list[Step],
    cube: DeviceMesh,
) -> None:
    def shown(redistribute: Any) -> list[str]:
        specs = spec_of(cube, (8, 8), before), spec_of(cube, (8, 8), after)
        with DebugMode(record_torchfunction=False) as mode:
            local = torch.ones(2 if before[2] == S(0) else 4, 8)
            redistribute(local, *specs, is_explicit=True)
        return [line for line in mode.debug_string().splitlines() if "redistribute" in line]

    theirs = shown(_torch.torch_redistribute)
    assert len(theirs) == 1
    assert shown(redistribute_with(lambda *_: plan)) == theirs


@pytest.mark.parametrize(
    ("before", "after", "plan", "told"),
    [
        ((S(0), R, S(0)), (R, R, R), [GATHER], "S(0)[0]RS(0)[1]-->RRR"),
        ((S(0), S(1), P()), (S(0), S(1), P()), [], "S(0)S(1)P(sum)"),
    ],
    ids=["a plan", "nothing to do"],
)
def test_a_recorder_is_told_the_layouts_that_a_plan_passes(
    before: tuple[Placement, ...],
    after: tuple[Placement, ...],
    plan: list[Step],
    told: str,
    cube: DeviceMesh,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    texts: list[str] = []

    def recorded(*arguments: Any) -> AbstractContextManager[None]:
        _, _, _, transforms, _ = arguments
        texts.append(transforms())
        return nullcontext()

    monkeypatch.setattr(_torch, "recorded_redistribution", recorded)
    specs = spec_of(cube, (8, 8), before), spec_of(cube, (8, 8), after)
    redistribute_with(lambda *_: plan)(torch.ones(2, 8), *specs)
    assert texts == [told]


def test_a_plan_as_text() -> None:
    tensor = Tensor((8, 8), (2, 1, 2))
    before = tensor.layout((S(0), S(0), S(0)))
    after = Layout(before.placements, ((0, (2, 0)),))
    steps = [
        Step("permute", (0, 2), before, after, 0.0, 0.0, 0, 0),
        Step("all_gather", (0,), after, tensor.layout((R, S(0), S(0))), 0.0, 0.0, 0, 0),
    ]
    assert plan_text(steps) == "S(0)[0]S(0)S(0)[1]-->S(0)[1]S(0)S(0)[0]->RS(0)S(0)"
    assert layout_text(tensor.layout((SS(1, 2), R, P("max")))) == "_S(1, 2)RP(max)"
    assert plan_text([]) == ""


STEPS = [
    GATHER,
    PERMUTE,
    one_step("all_to_all", (S(0), R, S(0)), (S(1), R, S(1)), (0, 2)),
    one_step("reduce_scatter", (P(), P("avg"), R), (S(0), S(0), R), (0, 1)),
    one_step("zero_fill", (S(0), R, R), (P(), R, R), (0,)),
    one_step("partition", (R, R, R), (P(), R, R), (0,)),
    one_step("chunk", (R, R, R), (R, R, SS(0, 2)), (2,)),
    one_step("all_gather", (R, R, SS(0, 2)), (R, R, R), (2,)),
]


TracingMode = Literal["fake", "symbolic"]


@pytest.mark.slow
@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.kind)
@pytest.mark.parametrize("mode", ["fake", "symbolic"])
def test_steps_are_traced(step: Step, mode: TracingMode, cube: DeviceMesh) -> None:
    spec = spec_of(cube, (8, 8), step.before.placements)
    local = torch.ones(*_torch_local_shape(spec))
    traced = make_fx(lambda x: run([step], x, cube, (8, 8)), tracing_mode=mode)(local)
    eager = run([step], local, cube, (8, 8))
    assert traced(local).shape == eager.shape
    called = [str(node.target) for node in traced.graph.nodes]
    waits = [target for target in called if "wait_tensor" in target]
    assert len(waits) == (step.kind not in ("chunk", "partition", "zero_fill"))


def _torch_local_shape(spec: Any) -> tuple[int, ...]:
    from torch.distributed.tensor._utils import compute_local_shape_and_global_offset

    shape, _ = compute_local_shape_and_global_offset(spec.shape, spec.mesh, spec.placements)
    return tuple(shape)


@pytest.mark.slow
@pytest.mark.parametrize("step", STEPS[:4], ids=lambda step: step.kind)
@pytest.mark.parametrize("dynamic", [False, True], ids=["", "dynamic"])
def test_plans_are_compiled(
    step: Step, dynamic: bool, cube: DeviceMesh, install: Callable[..., list[Any]]
) -> None:
    torch._dynamo.reset()
    asked = install(step)

    def program(x: Any) -> Any:
        return (x.redistribute(placements=step.after.placements) * 2.0).to_local()

    compiled = torch.compile(program, backend="aot_eager", fullgraph=True, dynamic=dynamic)
    for rows in (8, 24) if dynamic else (8,):
        spec = spec_of(cube, (rows, 8), step.before.placements)
        x = DTensor.from_local(
            torch.ones(*_torch_local_shape(spec)),
            cube,
            step.before.placements,
            run_check=False,
            shape=torch.Size((rows, 8)),
            stride=(8, 1),
        )
        with torch.no_grad():
            expected, made = program(x), compiled(x)
        assert made.shape == expected.shape and made.dtype == expected.dtype
    # Each size eagerly, and once for all in the graph.
    assert len(asked) >= 2 and len(set(asked)) == 1


def test_gradients_go_back_by_plans(cube: DeviceMesh, install: Callable[..., list[Any]]) -> None:
    back = one_step("permute", (R, R, S(0)), (S(0), R, R), (0, 2))
    asked = install(PERMUTE, back)
    x = placed(cube, (S(0), R, R), requires_grad=True)
    y = x.redistribute(placements=(R, R, S(0)))
    y.backward(torch.ones_like(y))
    assert sharded(x.grad).to_local().shape == (4, 8)
    pair = (S(0), R, R), (R, R, S(0))
    assert asked == [pair, pair[::-1]]


def test_one_process_redistributes_for_all_ranks(cube: DeviceMesh) -> None:
    tensor = Tensor((8, 5), CUBE, all_groups(CUBE))
    whole = numbers(tensor.shape, torch.float32)
    before, after = tensor.layout((S(0), P(), S(1))), tensor.layout((S(1), S(0), R))
    with random_plans() as planner, _torch.all_ranks_at_once(8):
        local = _torch.as_one_tensor(split(whole, before, CUBE, 0))
        held = DTensor.from_local(
            local, cube, before.placements, run_check=False, shape=whole.shape, stride=(5, 1)
        )
        made = held.redistribute(placements=after.placements).to_local()
        assert fault(_torch.tensors_of_ranks(made, 8), whole, after, CUBE) is None
    assert planner.plans and planner.plans[0]
