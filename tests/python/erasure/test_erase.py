"""What `erase` makes of programs, and what it says of that."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from unittest import mock

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor
from torch.distributed.tensor.debug import CommDebugMode
from torch.utils.checkpoint import checkpoint

import shardprop
from shardprop import ShardpropError, _torch
from shardprop.erasure import PASSES, ROUNDING_PASSES, backend, erase

from ..specs import R, S
from .block import block, tokens
from .seen import seen, spread, trained

MeshOf = Callable[..., DeviceMesh]
Program = Callable[..., Any]


pytestmark = pytest.mark.usefixtures("enabled")


def with_gradients(program: Program, operands: list[Tensor]) -> Any:
    """What a program returns, and the gradients of its operands."""
    leaves = [x.detach().requires_grad_(x.is_floating_point() or x.is_complex()) for x in operands]
    made = program(*leaves)
    found = seen(made)
    results = made if isinstance(made, (list, tuple)) else [made]
    local = [x.to_local() if isinstance(x, DTensor) else x for x in results if x.requires_grad]
    if local:
        torch.stack([x.abs().sin().sum() for x in local]).sum().backward()
    return found, [None if x.grad is None else seen(x.grad) for x in leaves]


def uneven(mesh: DeviceMesh) -> list[Tensor]:
    return [spread(mesh, (7, 6), S(0)), spread(mesh, (6, 5), R)]


def square(mesh: DeviceMesh) -> list[Any]:
    return [spread(mesh, (8, 8), S(0)), spread(mesh, (8, 8), S(1), seed=1)]


def complex_ones(mesh: DeviceMesh) -> list[Any]:
    return [x.to(torch.complex64) for x in square(mesh)]


def halves(mesh: DeviceMesh) -> list[Tensor]:
    return [x.to(torch.bfloat16) for x in square(mesh)]


def one_plain(mesh: DeviceMesh) -> list[Tensor]:
    return [spread(mesh, (8, 8), S(0)), torch.randn(8, 8)]


def mixed(x: Any, y: Any) -> Any:
    plain = DTensor.from_local(y, x.device_mesh, [R], run_check=False)
    return (x @ plain).redistribute(placements=[R]).to_local() * 2


def moved(x: Any, y: Any) -> Any:
    return (x @ y).redistribute(placements=[S(1)]).sin()


def gathered(x: Any, y: Any) -> Any:
    made: Any = F.relu(x @ y)
    return made.redistribute(placements=[R])


def in_place(x: Any, y: Any) -> Any:
    made = x * 2
    made.add_(1)
    made[:2].zero_()
    return made @ y


PROGRAMS: dict[str, tuple[Program, Callable[[DeviceMesh], list[Tensor]]]] = {
    "matrix product": (lambda x, y: x @ y, square),
    "pending": (lambda x, y: x.t() @ y.t(), square),
    "explicit": (moved, square),
    "uneven": (gathered, uneven),
    "several": (lambda x, y: (x @ y, x.sum(), x > 0), square),
    "plain tensors": (mixed, one_plain),
    "complex": (lambda x, y: x * 2 + x.conj(), complex_ones),
    "of 16 bits": (lambda x, y: torch.softmax(x @ y, -1), halves),
    "written inside": (in_place, square),
    "no gradient": (lambda x, y: (x.detach() @ y.detach()).sin(), square),
    "reductions": (lambda x, y: x.sum(0) + y.amax(1), square),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_bits_and_gradients_are_those_of_dtensor(name: str, mesh_of: MeshOf) -> None:
    program, operands_of = PROGRAMS[name]
    operands = operands_of(mesh_of(4))
    expected = with_gradients(program, operands)
    erased = erase(program, fullgraph=True)
    for _ in range(3):
        assert with_gradients(erased, operands) == expected
    assert [piece.left_to_dtensor for piece in erased.pieces] == [None]


def test_what_returns_views_is_left_to_dtensor(mesh_of: MeshOf) -> None:
    x = spread(mesh_of(4), (8, 8), S(0))

    def views(x: Any) -> Any:
        return x.t(), x + 1

    erased = erase(views)
    for _ in range(3):
        assert seen(erased(x)) == seen(views(x))
    (piece,) = erased.pieces
    assert "or a view of one" in (piece.left_to_dtensor or "")
    with pytest.raises(ShardpropError, match=r"captured whole .*or a view of one"):
        erase(views, fullgraph=True)(x)


def test_a_module_is_erased_in_place(mesh_of: MeshOf) -> None:
    mesh = mesh_of(4)
    model, alone = block(mesh), block(mesh)
    names = [*model.state_dict()]
    erased = erase(model, fullgraph=True)
    x = tokens(mesh)
    for run in (model, erased, erased):
        assert trained(run, x) == trained(alone, x)
    assert erased.program is model
    assert [*model.state_dict()] == names
    assert all(isinstance(each, DTensor) for each in model.parameters())
    (piece,) = erased.pieces
    assert "block.py" in piece.place
    assert piece.collectives_before == {"all_gather_into_tensor": 5, "reduce_scatter_tensor": 6}
    assert piece.collectives == {"all_gather_into_tensor": 3, "reduce_scatter_tensor": 6}
    text = str(erased)
    assert "all_gather_into_tensor: 5 in DTensor, 3 here" in text
    assert "def forward(" in text and "def backward(" in text
    assert "float32[2, 16, 32], (Shard(dim=1),) on (4,), here float32[2, 4, 32]" in text


def test_what_is_not_whole_runs_on_dtensors_and_says_why(mesh_of: MeshOf) -> None:
    x = spread(mesh_of(4), (8, 8), S(0))

    def program(x: Any) -> Any:
        y = x.sin()
        torch._dynamo.graph_break()
        return y @ y

    erased = erase(program)
    for _ in range(3):
        assert seen(erased(x)) == seen(program(x))
    (piece,) = erased.pieces
    assert piece.left_to_dtensor is not None and "graph_break" in piece.left_to_dtensor
    assert "test_erase.py" in piece.place
    with pytest.raises(ShardpropError, match=r"captured whole .*test_erase.py.*graph_break"):
        erase(program, fullgraph=True)(x)


def test_submodules_of_what_is_not_whole_are_erased(mesh_of: MeshOf) -> None:
    mesh = mesh_of(4)

    class Two(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.blocks = nn.ModuleList([block(mesh), block(mesh)])

        def forward(self, x: Any) -> Any:
            for each in self.blocks:
                x = each(x)
                torch._dynamo.graph_break()
            return x

    x = tokens(mesh)
    model, alone = Two(), Two()
    erased = erase(model)
    for _ in range(3):
        assert trained(model, x) == trained(alone, x)
    assert [piece.left_to_dtensor is None for piece in erased.pieces] == [False, True, True]


def test_results_that_nobody_uses_have_no_gradient(mesh_of: MeshOf) -> None:
    x, y = square(mesh_of(4))
    zeros = torch.zeros_like(x)

    def program(x: Any, y: Any, z: Any) -> Any:
        return x.sqrt() + z, (x * 2) @ y, x.sin() + z

    def gradients_of(program: Program, used: list[int]) -> Any:
        leaves = [each.detach().requires_grad_() for each in (zeros, y, zeros)]
        made = program(*leaves)
        torch.stack([made[at].to_local().sum() for at in used]).sum().backward()
        return [None if leaf.grad is None else seen(leaf.grad) for leaf in leaves]

    erased = erase(program, fullgraph=True)
    for used in ([1], [0, 2], [0, 1], [2], [0, 1, 2], [1]):
        expected = gradients_of(program, used)
        assert repr(gradients_of(erased, used)) == repr(expected), used
    assert len(erased.pieces) == 1


def test_what_is_written_into_before_the_backward_is_told(mesh_of: MeshOf) -> None:
    x, y = square(mesh_of(4))

    def program(x: Any, y: Any) -> Any:
        return (x @ y).exp()

    def result(made: Any, y: Any) -> None:
        made.mul_(0)

    def operand(made: Any, y: Any) -> None:
        y.mul_(2)

    erased = erase(program, fullgraph=True)
    for write in (result, operand):
        for run in (program, erased):
            leaves: list[Any] = [each.detach().clone().requires_grad_() for each in (x, y)]
            made: Any = run(*leaves)
            total = made.to_local().sum()
            with torch.no_grad():
                write(made, leaves[1])
            with pytest.raises(RuntimeError, match="modified by an inplace operation"):
                total.backward()


def test_a_gradient_that_is_handed_on_is_nobody_elses(mesh_of: MeshOf) -> None:
    x, _ = square(mesh_of(4))

    def accumulated(program: Program) -> Any:
        leaves = [each.detach().requires_grad_() for each in (x, x)]
        gradient = spread(x.device_mesh, (8, 8), S(0), seed=5)
        for _ in range(3):
            program(*leaves).backward(gradient)
        return [seen(leaf.grad) for leaf in leaves], seen(gradient)

    def program(x: Any, y: Any) -> Any:
        return x + y

    assert accumulated(erase(program)) == accumulated(program)


def test_a_hook_that_comes_later_runs(mesh_of: MeshOf) -> None:
    mesh = mesh_of(4)
    model, alone = block(mesh), block(mesh)
    erase(model)
    x: Any = tokens(mesh)
    for _ in range(3):
        assert seen(model(x)) == seen(alone(x))
        for each in (model, alone):
            each.norm1.register_forward_hook(lambda module, args, made: made * 2)
    assert seen(model(x)) == seen(alone(x))
    for each in (model, alone):
        each.to(torch.float64)
    assert seen(model(x.to(torch.float64))) == seen(alone(x.to(torch.float64)))


def test_gradients_of_gradients_are_left_to_dtensor_or_refused(mesh_of: MeshOf) -> None:
    x = spread(mesh_of(4), (8, 8), S(0)).requires_grad_()

    def program(x: Any) -> Any:
        return x.sin()

    def twice(made: Any) -> Any:
        (gradient,) = torch.autograd.grad(made.sum(), x, create_graph=True)
        return torch.autograd.grad(gradient.sum(), x)

    erased = erase(program)
    for _ in range(2):
        assert seen(twice(erased(x))) == seen(twice(program(x)))
    assert [piece.left_to_dtensor for piece in erased.pieces] == [
        "program: its gradients have gradients (create_graph=True)"
    ]
    erased = erase(program)
    erased(x).sum().backward()
    with pytest.raises(ShardpropError, match="without create_graph=True"):
        twice(erased(x))


def test_each_pass_can_be_left_out(mesh_of: MeshOf) -> None:
    mesh = mesh_of(4)
    x = tokens(mesh)
    expected = seen(block(mesh)(x))
    for left_out in PASSES:
        model = block(mesh)
        erase(model, passes=[name for name in PASSES if name != left_out])
        assert seen(model(x)) == expected


@pytest.mark.filterwarnings("ignore:DTensor random operators")
def test_less_is_kept_where_calls_are_made_again(mesh_of: MeshOf) -> None:
    operands: list[Tensor] = [spread(mesh_of(4), (8, 8), S(0))]

    def program(x: Any) -> Any:
        return F.dropout((x * 2).sin() * (x + 1).cos(), 0.5).exp()

    def drawn(program: Program) -> Any:
        torch.manual_seed(0)
        return with_gradients(program, operands), torch.rand(1).item()

    expected = drawn(program)
    kept = []
    for recompute in (False, True):
        erased = erase(program, fullgraph=True, recompute=recompute)
        for _ in range(3):
            assert drawn(erased) == expected
        (piece,) = erased.pieces
        kept.append(piece.code[0].splitlines()[-1].count(","))
    assert kept[1] < kept[0]


def test_sums_over_ranks_are_made_at_once_where_rounding_may_differ(mesh_of: MeshOf) -> None:
    mesh = mesh_of(4)
    model, alone = block(mesh), block(mesh)
    erased = erase(model, passes=[*PASSES, *ROUNDING_PASSES])
    x = tokens(mesh)
    for _ in range(3):
        found = []
        for run in (model, alone):
            run.zero_grad()
            trained(run, x)
            gradients: list[Any] = [parameter.grad for parameter in run.parameters()]
            found.append([gradient.to_local() for gradient in gradients])
        torch.testing.assert_close(*found)
    (piece,) = erased.pieces
    assert piece.collectives == {"all_gather_into_tensor": 3, "reduce_scatter_tensor": 4}


def test_what_is_no_program_is_refused() -> None:
    unknown: Any = "nothing"
    with pytest.raises(ShardpropError, match="module or a function, got str"):
        erase(unknown)
    with pytest.raises(ShardpropError, match=r"passes among equal, .*, got shorter"):
        erase(nn.Linear(2, 2), passes=["shorter"])


def test_without_shardprop_torch_decides(mesh_of: MeshOf) -> None:
    x, y = square(mesh_of(4))
    with shardprop.enabled():
        erased = erase(lambda x, y: x @ y)
        erased(x, y)
        shardprop.disable()
        made = erased(x, y)
        assert len(erased.pieces) == 2
        shardprop.enable()
        erased(x, y)
        assert len(erased.pieces) == 2
    assert made.placements == (x @ y).placements


def test_under_a_trace_it_runs_op_by_op(mesh_of: MeshOf) -> None:
    x, y = square(mesh_of(4))
    erased = erase(lambda x, y: x @ y)
    for _ in range(2):
        erased(x, y)
        with shardprop.trace() as trace:
            erased(x, y)
        assert "mm" in str(trace)
    with CommDebugMode() as mode:
        erased(x.t(), y)
    assert mode.get_total_counts() == 1
    assert len(erased.pieces) == 1
    assert [*erased.passed.values()] == [2, 1]


def test_groups_that_are_made_anew_are_followed_anew(mesh_of: MeshOf) -> None:
    """A mesh equals one of before torch.distributed has begun anew, and its groups have names of
    which others may have been then."""
    x = spread(mesh_of(4), (8, 8), S(0))
    erased = erase(lambda x: x.redistribute(placements=[R]))
    for world in (None, object(), None):
        with mock.patch.object(_torch, "world", lambda world=world: world):
            erased(x)
    assert len(erased.pieces) == 2


def test_the_profiler_sees_modules(mesh_of: MeshOf) -> None:
    mesh = mesh_of(4)
    model = block(mesh)
    erase(model)
    for _ in range(2):
        trained(model, tokens(mesh))
    with torch.profiler.profile() as profile:
        model(tokens(mesh)).sum().backward()
    names = {event.name for event in profile.events()}
    assert {"forward of norm1", "forward of q", "backward of down"} <= names


@pytest.mark.filterwarnings("ignore:DTensor random operators")
@pytest.mark.parametrize("is_inside", [True, False])
def test_checkpointed_activations(mesh_of: MeshOf, is_inside: bool) -> None:
    mesh = mesh_of(4)

    class Checkpointed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = block(mesh)
            self.inner.dropout = 0.5

        def forward(self, x: Any) -> Any:
            return checkpoint(self.inner, x, use_reentrant=False)

    model, alone = Checkpointed(), Checkpointed()
    erased = erase(model if is_inside else model.inner)
    x = tokens(mesh)
    for step in range(4):
        found = []
        for run in (model, alone):
            torch.manual_seed(step)
            made = run(x)
            made.to_local().sin().sum().backward()
            found.append(
                (seen(made), [seen(p.grad) for p in run.parameters()], torch.rand(1).item())
            )
        assert found[0] == found[1]
    *left, whole = [piece.left_to_dtensor for piece in erased.pieces]
    assert whole is None and len(left) == is_inside


def test_another_compiler(mesh_of: MeshOf) -> None:
    operands = square(mesh_of(4))
    program = PROGRAMS["several"][0]
    expected = with_gradients(program, operands)
    graphs: list[Any] = []

    def compiler(graph: Any, example: Any) -> Any:
        graphs.append(graph)
        return graph

    erased = erase(program, compiler=compiler)
    for _ in range(3):
        assert with_gradients(erased, operands) == expected
    assert len(graphs) == 2
    with pytest.raises(ShardpropError, match=r"compiler: Expected one of .*inductor.*, got 'none'"):
        erase(program, compiler="none")


def test_a_module_in_an_erased_one_may_be_erased_too(mesh_of: MeshOf) -> None:
    mesh = mesh_of(4)
    model, alone = nn.Sequential(block(mesh), block(mesh)), nn.Sequential(block(mesh), block(mesh))
    erase(model[0])
    erased = erase(model)
    x = tokens(mesh)
    for _ in range(3):
        assert trained(model, x) == trained(alone, x)
    assert [piece.left_to_dtensor for piece in erased.pieces] == [None]


@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor")
def test_as_a_backend_of_torch_compile(mesh_of: MeshOf) -> None:
    """Graphs between which a program breaks are erased each by itself."""

    def program(x: Any) -> Any:
        y = x.sin()
        torch._dynamo.graph_break()
        return y * y.shape[0]

    compiled = torch.compile(program, backend=backend, dynamic=False)
    for rows in (6, 6, 6, 9, 9, 9):
        leaves: list[Any] = []
        found = []
        for run in (program, compiled):
            leaves.append(spread(mesh_of(4), (rows, 8), S(0)).detach().requires_grad_())
            found.append((trained(run, leaves[-1]), seen(leaves[-1].grad)))
        assert found[0] == found[1]
    with pytest.raises(ShardpropError, match=r"shapes \[\(6, 8\)\], got \[\(7, 8\)\]"):
        compiled(spread(mesh_of(4), (7, 8), S(0)).requires_grad_())
