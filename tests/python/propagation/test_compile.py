"""torch.compile: recompiles, results, and who decides and plans while torch traces."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch._dynamo.decorators
import torch.nn.functional as F
from torch import Tensor
from torch._dynamo.testing import CompileCounterWithBackend
from torch._dynamo.utils import clear_compilation_metrics, get_compilation_metrics
from torch._subclasses import FakeTensorMode
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Placement, _redistribute, distribute_tensor

import shardprop
from shardprop import _torch
from shardprop.propagation.propagator import torch_planner

from ..specs import P, R, S, spec_of

MeshOf = Callable[..., DeviceMesh]
Program = Callable[[Tensor], Tensor]
FEATURES = 64
# Back and forth over 128 (1-D) and 256 (2-D), where it turns which operand of mm is dearer to
# gather; even and uneven. At the turn both cost the same, and torch may recompile where we do not.
TOKENS = (64, 144, 32, 280, 1000, 61, 301)


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    shardprop.disable()
    shardprop.reset_stats()
    torch._dynamo.reset()
    yield
    shardprop.disable()
    torch._dynamo.reset()


def distributed(tensor: Tensor, mesh: DeviceMesh, placements: tuple[Placement, ...]) -> Tensor:
    return distribute_tensor(tensor, mesh, placements, src_data_rank=None)


def tokens_of(count: int, mesh: DeviceMesh) -> Tensor:
    """The same numbers for the same count, sharded over all mesh dims."""
    values = torch.arange(count * FEATURES, dtype=torch.float32).view(count, FEATURES) / 100
    return distributed(values.sin(), mesh, (S(0),) * mesh.ndim)


def parallel_mlp(mesh: DeviceMesh, gathers: bool) -> Program:
    """LayerNorm and a tensor-parallel MLP; `gathers`: the program says where the tokens move."""
    outer = mesh.ndim - 1
    generator = torch.Generator().manual_seed(0)
    up, down = (
        distributed(torch.randn(size, generator=generator) / 8, mesh, (*(R,) * outer, S(dim)))
        for size, dim in (((FEATURES, 128), 1), ((128, FEATURES), 0))
    )
    norm = distributed(torch.ones(FEATURES), mesh, (R,) * mesh.ndim)
    spread, whole = (S(0),) * mesh.ndim, (*(S(0),) * outer, R)

    def run(x: Any) -> Tensor:
        hidden: Any = F.layer_norm(x, (FEATURES,), norm, norm)
        hidden = hidden.redistribute(placements=whole) if gathers else hidden
        y: Any = torch.mm(F.silu(torch.mm(hidden, up)), down)
        return x + (y.redistribute(placements=spread) if gathers else y)

    return run


def local_part(result: Any) -> tuple[tuple[Placement, ...], Tensor]:
    return result.placements, result.to_local()


def as_marked(x: Tensor) -> None:
    torch._dynamo.mark_dynamic(x, 0)


def as_unbacked(x: Tensor) -> None:
    torch._dynamo.decorators.mark_unbacked(x, 0)


def compiled_results(
    program: Program, mesh: DeviceMesh, mark: Callable[[Tensor], None] | None
) -> tuple[int, list[Any]]:
    """Graphs that were compiled, and the results: for all sizes, or unmarked for the first."""
    torch._dynamo.reset()
    counter = CompileCounterWithBackend("aot_eager")
    compiled = torch.compile(program, backend=counter, dynamic=None if mark else False)
    results = []
    for count in TOKENS if mark else TOKENS[:1]:
        x = tokens_of(count, mesh)
        if mark:
            mark(x)
        with torch.no_grad():
            results.append(local_part(compiled(x)))
    return counter.frame_count, results


def test_a_first_decision_compares_elements_while_dynamo_traces(mesh_of: MeshOf) -> None:
    mesh = mesh_of(4)
    # Batched, so that matmul views the sharded dim as a strided shard, and back.
    x = distributed(torch.randn(2, 8, 16, 8), mesh, (S(1),))
    y = distributed(torch.randn(2, 8, 8, 16), mesh, (S(1),))
    with shardprop.enabled(strict=True):
        made: Any = torch.compile(lambda: x @ y, backend="eager", fullgraph=True)()
        assert made.placements == (S(1),)
        assert shardprop.stats().decisions > 0


@pytest.mark.slow
@pytest.mark.parametrize("gathers", [True, False], ids=["gathers", "leaves it to DTensor"])
@pytest.mark.parametrize("shape", [(4,), (2, 2)], ids=["1D", "2D"])
def test_no_recompile_that_torch_alone_would_not_have(
    shape: tuple[int, ...], gathers: bool, mesh_of: MeshOf
) -> None:
    mesh = mesh_of(*shape)
    program = parallel_mlp(mesh, gathers)
    with torch.no_grad():
        eager = [local_part(program(tokens_of(count, mesh))) for count in TOKENS]
    graphs, theirs = compiled_results(program, mesh, as_marked)
    with shardprop.enabled(strict=True):
        our_graphs, ours = compiled_results(program, mesh, as_marked)
    assert our_graphs <= graphs
    stats = shardprop.stats()
    assert stats.decisions > 0 and stats.fallbacks == {}
    for expected, compiled, result in zip(eager, theirs, ours, strict=True):
        # torch's decision in eager mode at that very size, not that of the size first compiled.
        assert result[0] == compiled[0] == expected[0]
        torch.testing.assert_close(result[1], expected[1])


@pytest.mark.slow
@pytest.mark.parametrize("shape", [(4,), (2, 2)], ids=["1D", "2D"])
def test_a_size_marked_unbacked_compiles_once(shape: tuple[int, ...], mesh_of: MeshOf) -> None:
    mesh = mesh_of(*shape)
    weight = distributed(torch.ones(FEATURES, 128), mesh, (*(R,) * (mesh.ndim - 1), S(1)))

    def program(x: Tensor) -> Tensor:
        return F.silu(torch.mm(x, weight)) * 2

    graphs, theirs = compiled_results(program, mesh, as_unbacked)
    with shardprop.enabled(strict=True):
        our_graphs, ours = compiled_results(program, mesh, as_unbacked)
    assert our_graphs == graphs == 1
    assert shardprop.stats().fallbacks == {}
    for compiled, result in zip(theirs, ours, strict=True):
        # Not the decision for the size at hand: torch guesses 8192 tokens.
        assert result[0] == compiled[0]
        torch.testing.assert_close(result[1], compiled[1])


@pytest.mark.slow
@pytest.mark.parametrize("shape", [(4,), (2, 2), (2, 2, 2)], ids=["1D", "2D", "3D"])
def test_with_static_shapes_every_plan_is_the_cores(
    shape: tuple[int, ...], mesh_of: MeshOf
) -> None:
    mesh = mesh_of(*shape)
    program = parallel_mlp(mesh, gathers=True)
    with torch.no_grad():
        expected = local_part(program(tokens_of(TOKENS[0], mesh)))
    shardprop.clear_caches()
    with shardprop.enabled(strict=True):
        graphs, (result,) = compiled_results(program, mesh, None)
    assert graphs == 1
    assert result[0] == expected[0]
    torch.testing.assert_close(result[1], expected[1])
    stats = shardprop.stats()
    assert stats.price_fallbacks == {}
    assert stats.cache_entries > 0


@pytest.mark.slow
def test_plans_while_tracing_equal_torchs(mesh_of: MeshOf) -> None:
    mesh = mesh_of(2, 2, 2)
    rng = random.Random(0)
    layouts = list(itertools.product([R, S(0), S(1), P], repeat=3))
    specs = [spec_of(mesh, (16, 9), layout) for layout in rng.sample(layouts, 20)]
    specs += [spec_of(mesh, (16, 9), (S(0), S(0), R), order=((0, (1, 0)),))]
    planned = 0
    for src, dst in itertools.permutations(specs, 2):
        with FakeTensorMode():
            try:
                expected = _redistribute._gen_transform_infos_non_cached(src, dst)
            except AssertionError:
                continue
            with shardprop.enabled(corrections=False):
                assert _redistribute._gen_transform_infos_non_cached(src, dst) == expected
        planned += 1
    assert planned > 300
    assert shardprop.stats().price_fallbacks == {}


def test_one_rank_that_traces_for_all_gets_torchs_plan(mesh_of: MeshOf) -> None:
    settings: Any = torch.compiler.config if _torch.IS_215_OR_LATER else torch.distributed.config
    mesh = mesh_of(2, 2)
    src, dst = (spec_of(mesh, (8, 8), layout) for layout in [(S(0), R), (R, S(0))])
    with settings.patch(compile_on_one_rank=True), shardprop.enabled():
        torch_planner().transform_infos(src, dst)
        assert shardprop.stats().price_fallbacks == {}
        with FakeTensorMode():
            torch_planner().transform_infos(src, dst)
    assert shardprop.stats().price_fallbacks == {"shapes of several ranks in a plan": 1}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:A number is read out:UserWarning")
def test_dynamo_compiles_nothing_of_ours_after_a_graph_break(mesh_of: MeshOf) -> None:
    mesh = mesh_of(2, 2)
    x = distributed(torch.ones(8, 8), mesh, (S(0), S(1)))

    def program(x: Tensor) -> Tensor:
        return x * x.sum().item()  # item() runs eagerly: its operand is reduced first

    with shardprop.enabled():
        clear_compilation_metrics()  # torch keeps the last 64
        result = torch.compile(program, backend="aot_eager")(x)
    assert isinstance(result, DTensor)
    assert shardprop.stats().decisions > 0, "the hook was called"
    compiled = [metrics.co_filename or "" for metrics in get_compilation_metrics()]
    assert any(name == __file__ for name in compiled)
    assert [name for name in compiled if "shardprop" in name and name != __file__] == []
