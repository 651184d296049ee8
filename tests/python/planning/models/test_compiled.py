"""Models compiled by their plans on a fake mesh: what runs, what stays, and what is refused.

Values are checked on real processes (programs/test_planned.py).
"""

from __future__ import annotations

import copy
import io
from collections import Counter
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import pytest
import torch
from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard
from torch.distributed.tensor.debug import CommDebugMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import checkpoint

import shardprop
from shardprop import ShardpropError, graph
from shardprop._torch import StridedShard, mesh_without_groups
from shardprop.propagation.propagator import current_policy

from ...narrow import sharded
from .models import Habits, Mlp, Transformer

# Of the hooks that CommDebugMode puts on modules.
pytestmark = pytest.mark.filterwarnings(
    "ignore:For backward hooks to be called", "ignore:Full backward hook is firing"
)

MeshOf = Callable[..., DeviceMesh]
TOPOLOGY = "h100-nvlink"
R = Replicate()
X = torch.ones(4, 16)


def planned(
    model: nn.Module, args: tuple[Any, ...], mesh: DeviceMesh, **settings: Any
) -> graph.ModelPlan:
    plan = graph.capture(model, args, mesh, topology=TOPOLOGY, **settings).solve()
    plan.compile(model)
    return plan


def sharded_mlp(mesh: DeviceMesh) -> tuple[nn.Module, graph.ModelPlan]:
    model = Mlp()
    constraints = {"up.weight": [R, Shard(0)], "down.weight": [R, Shard(1)]}
    return model, planned(model, (X,), mesh, parameters=constraints)


def collectives_of(run: Callable[[], Any]) -> int:
    with CommDebugMode() as counted:
        run()
    return counted.get_total_counts()


class Blend(nn.Module):
    """A product of which a part is kept: what is pending is best reduced at last, which takes a row
    of `lerp` that torch does not have."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(16, 32))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x @ self.weight
        return torch.lerp(y, 2 * y, 0.5)[:1]


def blended(mesh: DeviceMesh, **settings: Any) -> tuple[nn.Module, graph.ModelPlan]:
    """Of a batch of 8; its product is pending."""
    model, weight = Blend(), {"weight": [Shard(0)]}
    layouts: dict[str, Any] = {"inputs": [[Shard(1)]], "outputs": [[R]], "parameters": weight}
    return model, planned(model, (torch.ones(8, 16),), mesh, **layouts, **settings)


class Deep(nn.Module):
    """Products one after another."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(*(nn.Linear(256, 256, bias=False) for _ in range(6)))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.layers(x)
        return found.square().mean()


class Calls(TorchDispatchMode):
    """Notes what is called."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_dispatch__(
        self, op: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        self.names.append(op.__name__)
        return op(*args, **(kwargs or {}))


def test_gradients_are_reduced_as_they_are_made(mesh_of: MeshOf) -> None:
    model, x = Deep(), torch.ones(8192, 256)
    settings: dict[str, Any] = {"inputs": [[Shard(0)]], "parameters": {"*": [Shard(0)]}}
    planned(model, (x,), mesh_of(4), **settings)
    loss = model(x)
    with Calls() as calls:
        loss.backward()
    last = len(calls.names) - 1 - calls.names[::-1].index("mm.default")
    begun = [at for at, name in enumerate(calls.names) if name.startswith("reduce_scatter")]
    assert len(begun) == 6
    assert sum(at < last for at in begun) >= 4


@pytest.mark.slow
def test_the_collectives_of_a_step_are_the_plans(mesh_of: MeshOf) -> None:
    model = Transformer()
    tokens = torch.zeros(4, 16, dtype=torch.int64)
    plan = planned(model, (tokens, tokens), mesh_of(2, 2), parameter_memory=20_000)
    found = collectives_of(lambda: model(tokens, tokens).backward())
    assert found == plan.volume.collectives > 0


class Reads(nn.Module):
    """Two products of one tensor, which both read whole."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = nn.Linear(64, 64), nn.Linear(64, 64)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.one(x) * self.two(x)


def test_what_is_read_twice_in_the_same_layout_is_moved_once(mesh_of: MeshOf) -> None:
    model, x = Reads(), torch.ones(64, 64)
    columns = {"*.weight": [Shard(0)], "*.bias": [Shard(0)]}
    settings = {"inputs": [[Shard(0)]], "outputs": [[Shard(1)]], "parameters": columns}
    plan = planned(model, (x,), mesh_of(4), **settings)
    read = [each for each in plan.redistributions if each.tensor.node == plan.program.inputs[0]]
    assert {len(each.run) for each in read} == {0, 1}
    found = collectives_of(lambda: model(x).sum().backward())
    assert found == plan.volume.collectives < sum(len(each.steps) for each in plan.redistributions)


@pytest.mark.slow
def test_models_have_habits(mesh_of: MeshOf) -> None:
    model = Habits()
    x, scale = torch.ones(8, 16), torch.ones(16)
    plan = planned(model, (x,), mesh_of(2, 2), example_kwargs={"scale": scale})

    def step() -> None:
        outputs = model(x, scale=scale)
        outputs["loss"].backward()
        assert list(outputs) == ["loss", "y"]
        assert outputs["y"].placements == plan.placements().outputs[1]

    assert collectives_of(step) == plan.volume.collectives
    assert model.first is model.again
    assert model.tied.weight is model.first.weight
    assert model.unused.grad is None


def test_gradients_are_placed_like_parameters_and_add_up(mesh_of: MeshOf) -> None:
    model, plan = sharded_mlp(mesh_of(2, 2))
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(2):  # the second adds to the gradients of the first
        model(X).sum().backward()
    optimizer.step()
    wanted = plan.placements().parameters
    for name, parameter in model.named_parameters():
        assert sharded(parameter.grad).placements == wanted[name] == sharded(parameter).placements


def test_nothing_has_to_be_enabled(mesh_of: MeshOf) -> None:
    model, plan = sharded_mlp(mesh_of(2, 2))
    assert not shardprop.is_enabled()
    with torch.no_grad():
        output = model(X)
    assert isinstance(output, DTensor)
    assert output.placements == plan.placements().outputs[0]
    with shardprop.enabled(strict=True):
        assert collectives_of(lambda: model(X).sum().backward()) >= plan.volume.collectives


def test_gradients_of_outputs_are_moved_to_where_the_plan_has_them(mesh_of: MeshOf) -> None:
    model = Mlp()
    plan = planned(model, (X,), mesh_of(4), outputs=[[Shard(0)]])
    output = model(X)
    assert output.placements == (Shard(0),)
    output.backward(sharded(output).redistribute(placements=[R]).detach())
    assert plan.placements().outputs == ((Shard(0),),)
    assert all(parameter.grad is not None for parameter in model.parameters())


def test_inputs_have_gradients_where_they_were_captured_with_them(mesh_of: MeshOf) -> None:
    model, x = Mlp(), torch.ones(4, 16, requires_grad=True)
    plan = planned(model, (x,), mesh_of(4), inputs=[[Shard(0)]])
    model(x).sum().backward()
    assert x.grad is not None
    assert x.grad.shape == x.shape
    whole = DTensor.from_local(X, mesh_of(4), [R], run_check=False)
    there = whole.redistribute(placements=plan.placements().inputs[0]).detach().requires_grad_()
    model(there).sum().backward()
    assert sharded(there.grad).placements == (Shard(0),)
    with torch.no_grad():
        assert not model(x).requires_grad


def test_hooks_at_the_border_run_and_names_stay(mesh_of: MeshOf) -> None:
    model = Mlp()
    names = [*model.state_dict()]
    seen: Counter[str] = Counter()
    model.register_forward_pre_hook(lambda module, args: seen.update(["before"]))
    model.register_forward_hook(lambda module, args, output: seen.update(["after"]))
    planned(model, (X,), mesh_of(4))
    seen.clear()
    model(X)
    assert seen == {"before": 1, "after": 1}
    assert [*model.state_dict()] == names
    assert type(model) is Mlp


def test_a_model_can_be_captured_and_compiled_again(mesh_of: MeshOf) -> None:
    model, plan = sharded_mlp(mesh_of(2, 2))
    again = planned(model, (X,), mesh_of(2, 2), inputs=[[Shard(0), R]])
    assert collectives_of(lambda: model(X).sum().backward()) == again.volume.collectives
    assert again.program.parameters.keys() == plan.program.parameters.keys()


def test_each_kind_of_call_has_its_plan(mesh_of: MeshOf) -> None:
    model, plan = sharded_mlp(mesh_of(2, 2))
    same = plan.placements().parameters
    planned(model, (torch.ones(8, 16),), mesh_of(2, 2), parameters=same)
    model.eval()
    planned(model, (X,), mesh_of(2, 2), parameters=same, backward=False)
    with torch.no_grad():
        assert model(X).shape == (4, 16)
    with pytest.raises(ShardpropError, match="requires a gradient, and none is planned"):
        model(X)
    with pytest.raises(ShardpropError, match="training mode"):
        model(torch.ones(8, 16))
    model.train()
    assert model(X).requires_grad
    assert model(torch.ones(8, 16)).shape == (8, 16)


def test_a_model_can_be_copied(mesh_of: MeshOf) -> None:
    model, plan = sharded_mlp(mesh_of(2, 2))
    twin = copy.deepcopy(model)
    assert collectives_of(lambda: twin(X).sum().backward()) == plan.volume.collectives
    assert twin.get_parameter("up.weight").grad is not None
    assert model.get_parameter("up.weight").grad is None


def test_a_model_is_saved_without_its_plan(mesh_of: MeshOf) -> None:
    model, _ = sharded_mlp(mesh_of(2, 2))
    saved = io.BytesIO()
    for parameter in model.parameters():  # a mesh of no real processes is not saved
        parameter.data = torch.ones(1)
    torch.save(model, saved)
    saved.seek(0)
    loaded = torch.load(saved, weights_only=False)
    assert loaded.forward.__func__ is Mlp.forward
    assert loaded.forward.__self__ is loaded


def test_arguments_by_name_may_come_in_any_order(mesh_of: MeshOf) -> None:
    class Two(Mlp):
        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:  # type: ignore[override]
            return super().forward(x - y)

    model = Two()
    x, y = torch.ones(4, 16), torch.ones(4, 1)
    planned(model, (), mesh_of(2, 2), example_kwargs={"y": y, "x": x})
    model(x=x, y=y).sum().backward()
    assert model.up.weight.grad is not None


class Numbers(Mlp):
    """Takes a number and gives one back."""

    def forward(self, x: torch.Tensor, scale: float = 2.0) -> Any:
        return {"y": super().forward(x) * scale, "scale": scale, "none": None}


def test_what_is_no_tensor_stays_as_it_was_captured(mesh_of: MeshOf) -> None:
    model = Numbers()
    planned(model, (X, 3.0), mesh_of(4))
    made = model(X, 3.0)
    assert (made["scale"], made["none"]) == (3.0, None)
    with pytest.raises(ShardpropError, match=r"Expected the argument 3.0 .* got 4.0"):
        model(X, 4.0)


class Scaled(nn.Module):
    """A product, and a parameter and an input whose gradients nobody asks for."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(16, 16)
        self.unused = nn.Parameter(torch.ones(3))

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return self.inner(x) * y.detach()


def test_what_gets_no_gradient_may_require_one(mesh_of: MeshOf) -> None:
    model = Scaled()
    x, y = (torch.ones(4, 16, requires_grad=True) for _ in range(2))
    planned(model, (x, y), mesh_of(4))
    model(x, y).sum().backward()
    assert x.grad is not None
    assert y.grad is None
    assert model.unused.grad is None


class Checkpointed(nn.Module):
    """A part that is run again in the backward."""

    def __init__(self, part: nn.Module) -> None:
        super().__init__()
        self.part = nn.Sequential(nn.Linear(16, 16), part)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        made: torch.Tensor = checkpoint(self.part, x, use_reentrant=False)
        return made


@pytest.mark.parametrize(
    ("part", "message"),
    [
        (nn.Dropout(0.5), r"bernoulli.* in 'part\.1': Expected random numbers .* in the forward"),
        (nn.BatchNorm1d(16), r"part\.1\.running_mean: Expected a buffer .* in the forward"),
    ],
    ids=["dropout", "batch norm"],
)
def test_what_a_checkpointed_part_may_not_do_twice(
    part: nn.Module, message: str, mesh_of: MeshOf
) -> None:
    with pytest.raises(ShardpropError, match=message):
        planned(Checkpointed(part), (X,), mesh_of(4))


def test_modules_that_are_replaced_or_added_are_noticed(mesh_of: MeshOf) -> None:
    model = nn.Sequential(nn.Linear(16, 16), nn.Sigmoid())
    planned(model, (X,), mesh_of(4))
    model(X)
    model[1] = nn.ReLU()
    with pytest.raises(ShardpropError, match="1: Expected a Sigmoid, as captured, got a ReLU"):
        model(X)
    model.append(nn.ReLU())
    with pytest.raises(ShardpropError, match="Expected 3 modules, as captured, got 4"):
        model(X)
    planned(model, (X,), mesh_of(4))
    with torch.no_grad():
        assert (sharded(model(X))._local_tensor >= 0).all()
    model[0] = nn.Linear(16, 16)
    with pytest.raises(ShardpropError, match=r"0\.weight: Expected a DTensor"):
        model(X)
    planned(model, (X,), mesh_of(4))
    model(X)


def test_a_kind_of_call_has_one_plan(mesh_of: MeshOf) -> None:
    model = Mlp()
    for _ in range(3):
        planned(model, (X,), mesh_of(4), parameters={"*": [R]})
    with pytest.raises(ShardpropError) as refused:
        model(torch.ones(5, 16))
    assert str(refused.value).count("input_0") == 1


class Twice(nn.Module):
    """The same call made twice, and one result that is given back twice."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(16, 16)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = self.inner(x)
        return torch.relu(y), torch.relu(y), y, y


def test_results_share_memory_only_where_the_models_do(mesh_of: MeshOf) -> None:
    model = Twice()
    planned(model, (X,), mesh_of(4))
    for grad_mode in (torch.no_grad, torch.enable_grad):
        with grad_mode():
            one, other, y, again = (sharded(made)._local_tensor for made in model(X))
        assert one.data_ptr() != other.data_ptr()
        assert y.data_ptr() == again.data_ptr()


class Counts(nn.Module):
    """Writes into one buffer and reads another."""

    def __init__(self, *, apart: bool) -> None:
        super().__init__()
        count = torch.ones(16)
        self.weight = nn.Parameter(torch.ones(1))
        self.register_buffer("count", count)
        self.register_buffer("read", torch.ones(16) if apart else count[:])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.get_buffer("count").add_(1)
        return (self.get_buffer("read") * x * self.weight).sum()


def test_buffers_that_are_written_have_memory_of_their_own(mesh_of: MeshOf) -> None:
    model = Counts(apart=True)
    planned(model, (X,), mesh_of(2))
    model(X)
    with torch.inference_mode():
        model(X)
    assert (sharded(model.get_buffer("count"))._local_tensor == 3).all()
    model = Counts(apart=False)
    planned(model, (X,), mesh_of(1))
    with pytest.raises(ShardpropError, match="memory of their own"):
        model(X)


def test_without_gradients_the_forward_runs_alone(mesh_of: MeshOf) -> None:
    model, _ = sharded_mlp(mesh_of(2, 2))
    with torch.inference_mode():
        assert model(X).is_inference()
    with torch.no_grad():
        assert not model(X).requires_grad
    assert model(X).requires_grad


class Thing:
    """Something that may change."""


class OfThings(Mlp):
    def forward(self, x: torch.Tensor, thing: Any = None) -> Any:
        return super().forward(x), Thing() if thing is None else 0


@pytest.mark.parametrize("args", [(X, Thing()), (X,)], ids=["takes", "returns"])
def test_values_that_may_change_are_refused(mesh_of: MeshOf, args: Any) -> None:
    with pytest.raises(ShardpropError, match=r"(takes|returns) a Thing"):
        planned(OfThings(), args, mesh_of(4))


def test_a_vocabulary_that_is_sharded_is_looked_up_as_planned(mesh_of: MeshOf) -> None:
    model, ids = nn.Embedding(4096, 64), torch.zeros(2, 4, dtype=torch.int64)
    plan = planned(model, (ids,), mesh_of(4), parameters={"weight": [Shard(0)]})
    found = collectives_of(lambda: model(ids).sum().backward())
    assert found == plan.volume.collectives
    (op,) = (n.index for n in plan.program.nodes if n.op is torch.ops.aten.embedding.default)
    assert plan.wanted(op)[0] == (Shard(0),)


def test_what_is_sharded_in_strides_is_gathered(mesh_of: MeshOf) -> None:
    model, x = nn.Flatten(0, 1), torch.ones(6, 8, 4)
    settings: dict[str, Any] = {"inputs": [[Shard(1)]], "outputs": [[R]], "backward": False}
    found = graph.capture(model, (x,), mesh_of(4), topology=TOPOLOGY, **settings)
    (view,) = (n.index for n in found.program.nodes if n.op is not None)
    offered = found.labelled.offered(view)
    found.problem.allow(view, [offered.index((StridedShard(0, split_factor=6),))])
    plan = found.solve()
    plan.compile(model)
    assert collectives_of(lambda: model(x)) == plan.volume.collectives == 1


def test_a_graph_module_is_saved_by_its_state(mesh_of: MeshOf) -> None:
    model = torch.fx.symbolic_trace(nn.Sequential(nn.Linear(16, 16), nn.ReLU()))
    planned(model, (X,), mesh_of(4))
    model(X).sum().backward()
    with pytest.raises(ShardpropError, match="state_dict"):
        torch.save(model, io.BytesIO())


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ((torch.ones(5, 16),), r"input_0: Expected the shape and dtype .* \(4, 16\)"),
        ((X.double(),), r"input_0: .* got \(4, 16\) and torch.float64"),
        ((X, torch.ones(1)), "Expected arguments as they were captured"),
        ((None,), "Expected arguments as|input_0: Expected a tensor, got NoneType"),
        ((X.clone().requires_grad_(),), "input_0: Expected an input without a gradient"),
        ((torch.ones(4, 16, device="meta"),), "input_0: Expected a tensor on cpu"),
    ],
    ids=["other shape", "other dtype", "one more", "none", "with a gradient", "elsewhere"],
)
def test_other_inputs_are_refused(mesh_of: MeshOf, args: tuple[Any, ...], message: str) -> None:
    model, _ = sharded_mlp(mesh_of(2, 2))
    with pytest.raises(ShardpropError, match=message):
        model(*args)


def test_other_modes_are_refused(mesh_of: MeshOf) -> None:
    model, _ = sharded_mlp(mesh_of(2, 2))
    with pytest.raises(ShardpropError, match="Expected autocast"), torch.autocast("cpu"):
        model(X)
    model.get_submodule("up").eval()
    with pytest.raises(ShardpropError, match="up: Expected training mode"):
        model(X)


def test_a_model_that_is_not_what_was_compiled_is_refused(mesh_of: MeshOf) -> None:
    model, _ = sharded_mlp(mesh_of(2, 2))
    model.get_submodule("up").requires_grad_(False)
    model(X)
    frozen = Mlp().requires_grad_(False)
    frozen.down.requires_grad_(True)
    planned(frozen, (X,), mesh_of(2, 2))
    frozen.requires_grad_(True)
    with pytest.raises(ShardpropError, match=r"up\.weight: Expected .* requires a gradient"):
        frozen(X)
    with torch.no_grad():
        frozen(X)
    model.double()
    with pytest.raises(ShardpropError, match=r"up\.weight: Expected .* got one of torch.float64"):
        model(X)
    model.float().get_submodule("up").weight = nn.Parameter(torch.ones(32, 16))
    with pytest.raises(ShardpropError, match=r"up\.weight: Expected a DTensor .* got a Parameter"):
        model(X)


def test_inputs_may_be_dtensors_on_the_mesh_of_the_plan(mesh_of: MeshOf) -> None:
    mesh = mesh_of(2, 2)
    model, plan = sharded_mlp(mesh)
    whole = DTensor.from_local(X, mesh, [R, R], run_check=False)
    assert model(whole).placements == plan.placements().outputs[0]
    elsewhere = DTensor.from_local(X, mesh_of(4), [R], run_check=False)
    with pytest.raises(ShardpropError, match="on the mesh of the plan"):
        model(elsewhere)


def test_another_model_is_refused_and_left_as_it_was(mesh_of: MeshOf) -> None:
    _, plan = sharded_mlp(mesh_of(2, 2))
    other = nn.Sequential(nn.Linear(16, 16))
    for use in (plan.apply, plan.compile):
        with pytest.raises(ShardpropError, match=r"differs in 0\.bias"):
            use(other)
        with pytest.raises(ShardpropError, match=r"Expected up\.weight of shape \(32, 16\)"):
            use(Mlp(hidden=64))
        with pytest.raises(ShardpropError, match=r"Expected up\.weight .* got .* torch\.float64"):
            use(Mlp().double())
        half = Mlp()
        half.down.weight = nn.Parameter(
            DTensor.from_local(half.down.weight.detach(), mesh_of(4), [R], run_check=False)
        )
        with pytest.raises(ShardpropError, match=r"Expected down\.weight on the mesh of the plan"):
            use(half)
        assert not isinstance(half.up.weight, DTensor)
    assert not any(isinstance(parameter, DTensor) for parameter in other.parameters())
    assert other(torch.ones(1, 16)).shape == (1, 16)


def test_an_op_that_does_not_run_as_planned_is_named(mesh_of: MeshOf) -> None:
    model, x = Mlp(), X
    plan = graph.capture(model, (x,), mesh_of(4), topology=TOPOLOGY).solve()
    (relu,) = (n for n in plan.program.nodes if n.op is torch.ops.aten.relu.default)
    given = plan.given
    object.__setattr__(
        plan, "given", lambda node: ((Shard(1),),) if node == relu.index else given(node)
    )
    wanted = plan.wanted
    object.__setattr__(
        plan, "wanted", lambda node: ((Partial(),),) if node == relu.index else wanted(node)
    )
    with pytest.raises(ShardpropError, match=r"aten.relu.default.*Expected an op that runs"):
        plan.compile(model)
    assert not any(isinstance(parameter, DTensor) for parameter in model.parameters())


@pytest.mark.parametrize("before", [None, "torch", "torch's rows", "optimal"])
def test_rows_of_the_rule_book_are_run(mesh_of: MeshOf, before: str | None) -> None:
    """Whatever is enabled when it is compiled, and when it runs."""
    settings: dict[str, Any] = {"strict": True}
    if before != "torch":
        settings |= {"policy": "optimal", "topology": "cpu-gloo"}
        settings["rules"] = "complete" if before == "optimal" else "torch"
    with nullcontext() if before is None else shardprop.enabled(**settings):
        policy = current_policy()
        model, plan = blended(mesh_of(4))
        assert current_policy() is policy
        x = torch.ones(8, 16)
        assert collectives_of(lambda: model(x).sum().backward()) >= plan.volume.collectives
    (lerp,) = (n.index for n in plan.program.nodes if n.op is torch.ops.aten.lerp.Scalar)
    assert plan.wanted(lerp) == ((Partial(),), (Partial(),))


def test_rules_are_torchs_or_complete(mesh_of: MeshOf) -> None:
    blended(mesh_of(4), rules="torch")
    with pytest.raises(ShardpropError, match="rules: Expected 'complete' or 'torch'"):
        blended(mesh_of(4), rules="all")


def test_unknown_passes_and_compilers_are_refused(mesh_of: MeshOf) -> None:
    model = Mlp()
    plan = graph.capture(model, (X,), mesh_of(4), topology=TOPOLOGY).solve()
    with pytest.raises(ShardpropError, match="Expected passes among"):
        plan.compile(model, passes=("none",))
    with pytest.raises(ShardpropError, match="nowhere"):
        plan.compile(model, compiler="nowhere")
    assert not isinstance(model.up.weight, DTensor)


def test_a_mesh_without_groups_takes_a_model_without_data(process_group: None) -> None:
    mesh = mesh_without_groups(torch.arange(4))
    with torch.device("meta"):
        model = Mlp()
    plan = graph.capture(model, (X,), mesh, topology=TOPOLOGY).solve()
    with torch.device("meta"):
        plan.apply(model)
    assert all(isinstance(each, DTensor) for each in model.parameters())
