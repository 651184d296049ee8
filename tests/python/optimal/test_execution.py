"""Plans carried out on simulated ranks leave the data of their last layout."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import Partial, Placement, Replicate, Shard

import shardprop
from shardprop import _torch
from shardprop.model.plan_steps import Layout, Step
from shardprop.redistribution.execution import run

from .local import cut, fault, places, split
from .ranks import all_groups, carried_out, fault_of, flattened, numbers
from .walks import Tensor, random_walk

R, S, P = Replicate(), Shard, Partial

# torch's simulation cannot gather along a later dim where some ranks have no rows and the sizes
# along that dim differ by rank, which takes three mesh dims; real processes can.
SHAPES: dict[tuple[int, ...], list[tuple[int, ...]]] = {
    (2, 2): [(8, 4), (5, 3), (1, 6), (0, 4), (7,)],
    (2, 4): [(16, 8), (9, 5), (3, 8), (2, 0), (1,)],
    (3, 2): [(12, 6), (7, 5), (7,), (1, 1)],
    (2, 2, 2): [(8, 16), (5, 9), (8, 8, 4), (3,), (1,)],
    (2, 2, 2, 2): [(16, 16), (16, 9), (7,)],
    (1, 4): [(8, 4), (5, 2), (3,)],
    (4, 1, 2): [(8, 8), (9, 5)],
}
WALKS = 20


@pytest.mark.slow
@pytest.mark.parametrize("sizes", SHAPES, ids=str)
def test_random_plans_leave_the_data_of_their_last_layout(sizes: tuple[int, ...]) -> None:
    for shape, seed in itertools.product(SHAPES[sizes], range(WALKS)):
        tensor = Tensor(shape, sizes, all_groups(sizes))
        steps = random_walk(tensor, 5, random.Random(f"{sizes} {shape} {seed}"))
        if steps:
            reason = fault_of(steps, tensor, seed, async_op=seed % 2 == 0)
            assert reason is None, f"{shape} {seed}: {steps}\n{reason}"


def test_random_plans_have_steps_of_all_kinds() -> None:
    done = Counter(
        (step.kind, len(step.mesh_dims) > 1)
        for sizes, shapes in SHAPES.items()
        for shape, seed in itertools.product(shapes, range(WALKS))
        for step in random_walk(
            Tensor(shape, sizes, all_groups(sizes)), 5, random.Random(f"{sizes} {shape} {seed}")
        )
    )
    assert len(done) == 12 and min(done.values()) >= 5, done


Placements = tuple[Placement, ...]


def step(
    kind: str,
    before: Placements,
    after: Placements,
    group: tuple[int, ...],
    tensor: Tensor,
) -> Step:
    return Step(kind, group, tensor.layout(before), tensor.layout(after), 0.0, 0.0, 0, 0)


@pytest.mark.parametrize(
    ("kind", "before", "after", "group"),
    [
        ("all_gather", (S(1), R, S(1)), (R, R, R), (0, 2)),
        ("all_reduce", (P(), S(0), P()), (R, S(0), R), (0, 2)),
        ("all_reduce", (P("avg"), R, P()), (R, R, R), (0, 2)),
        ("all_reduce", (P("avg"), P("avg"), P("avg")), (R, R, R), (0, 1, 2)),
        ("all_reduce", (P("max"), P("max"), R), (R, R, R), (0, 1)),
        ("reduce_scatter", (P(), S(0), P()), (S(0), S(0), S(0)), (0, 2)),
        ("reduce_scatter", (P(), P("avg"), P("avg")), (S(1), S(1), S(1)), (0, 1, 2)),
        ("all_to_all", (S(0), R, S(0)), (S(1), R, S(1)), (0, 2)),
        ("permute", (S(0), R, S(1)), (S(1), R, S(0)), (0, 2)),
        ("permute", (S(0), S(1), R), (R, S(0), S(1)), (0, 1, 2)),
    ],
    ids=str,
)
@pytest.mark.parametrize("async_op", [False, True], ids=["", "async"])
def test_steps_on_flattened_mesh_dims(
    kind: str, before: Placements, after: Placements, group: tuple[int, ...], async_op: bool
) -> None:
    tensor = Tensor((8, 16), (2, 2, 2), all_groups((2, 2, 2)))
    if before == (P(), S(0), P()) and kind == "reduce_scatter":
        # Appended to what cuts the dim already.
        cuts = Layout(after, ((0, (1, 0, 2)),))
        steps = [Step(kind, group, tensor.layout(before), cuts, 0.0, 0.0, 0, 0)]
    else:
        steps = [step(kind, before, after, group, tensor)]
    assert fault_of(steps, tensor, async_op=async_op) is None


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.uint8, torch.bool], ids=str)
def test_integers_and_flags_stay_what_they_are_in_a_pending_sum(dtype: torch.dtype) -> None:
    tensor = Tensor((3, 2), (2, 3))
    whole = (numbers((3, 2)) % 2).to(dtype)
    before = tensor.layout((R, R))
    steps = [
        step("partition", (R, R), (R, P()), (1,), tensor),
        step("partition", (R, P()), (P(), P()), (0,), tensor),
    ]
    made = carried_out(steps, tensor, split(whole, before, tensor.sizes, 0))
    assert fault(made, whole, steps[-1].after, tensor.sizes) is None


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64], ids=str)
@pytest.mark.parametrize("pending", ["sum", "avg", "max", "min"])
def test_of_a_pending_sum_floats_are_divided_and_all_else_is_as_it_was(
    pending: str, dtype: torch.dtype
) -> None:
    tensor = Tensor((2, 2), (2,))
    whole = torch.tensor([[-1, 2], [3, -4]]).to(dtype)
    to_pending = step("partition", (R,), (Partial(pending),), (0,), tensor)
    held = [whole, whole]
    if pending == "sum":
        held = [whole / 2] * 2 if dtype.is_floating_point else [whole, torch.zeros_like(whole)]
    made = carried_out([to_pending], tensor, [whole.clone(), whole.clone()])
    assert [each.dtype for each in made] == [dtype, dtype]
    assert [each.tolist() for each in made] == [each.tolist() for each in held]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64, torch.bool], ids=str)
@pytest.mark.parametrize("shape", [(5, 3), (1, 3), (0, 3)], ids=str)
def test_a_shard_becomes_a_pending_sum(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    tensor = Tensor(shape, (2, 2))
    whole = (numbers(shape) % 2).to(dtype)
    steps = [
        step("zero_fill", (S(0), S(0)), (S(0), P()), (1,), tensor),
        step("zero_fill", (S(0), P()), (P(), P()), (0,), tensor),
    ]
    made = carried_out(steps, tensor, split(whole, steps[0].before, tensor.sizes, 0))
    assert fault(made, whole, steps[-1].after, tensor.sizes) is None


def test_no_steps_leave_the_tensor() -> None:
    local = torch.ones(3)
    assert run([], local, flattened((2, 2), ()), (3,)) is local


def test_a_masked_partial_is_reduced_with_its_mask() -> None:
    """Rows that a rank looked up in vain are no part of the sum, and the mask is let go."""
    tensor = Tensor((4, 2), (2,))
    found = torch.tensor([True, False, True, False])
    mesh = flattened((2,), ())
    local = [torch.ones(4, 2), torch.full((4, 2), 5.0)]
    expected = torch.where(found[:, None], local[0], local[1])
    for kind, after in (("all_reduce", R), ("reduce_scatter", S(0))):
        masked: Any = _torch.mask_partial((8, 2), 0)
        plan = [step(kind, (masked,), (after,), (0,), tensor)]
        with _torch.all_ranks_at_once(2):
            masked.mask_buffer.materialize_mask(_torch.as_one_tensor([~found, found]))
            held = _torch.as_one_tensor([each.clone() for each in local])
            made = _torch.tensors_of_ranks(run(plan, held, mesh, (4, 2)), 2)
        for rank, each in enumerate(made):
            assert torch.equal(each, expected if after == R else expected.chunk(2)[rank])
        assert masked.mask_buffer.data is None


@pytest.mark.parametrize(("kind", "after"), [("all_reduce", R), ("reduce_scatter", S(0))], ids=str)
@pytest.mark.parametrize("group", [(0,), (0, 1)], ids=str)
def test_a_pending_norm_is_the_root_of_a_sum_of_powers(
    kind: str, after: Placement, group: tuple[int, ...]
) -> None:
    """On one mesh dim beside a shard, and on two at once."""
    sizes = (2, 2)
    tensor, norm = Tensor((4, 6), sizes, all_groups(sizes)), _torch.norm_partial(3)
    before, then = (tuple(p if m in group else S(1) for m in range(2)) for p in (norm, after))
    reduce = step(kind, before, then, group, tensor)
    counts = [2 if m in group else 1 for m in range(2)]
    parts = torch.rand(*counts, 4, 6, generator=torch.Generator().manual_seed(3))
    held = [
        cut(parts[i % counts[0], j % counts[1]], reduce.before, sizes, (i, j))
        for i, j in places(sizes)
    ]
    made = carried_out([reduce], tensor, held)
    assert fault(made, (parts**3).sum((0, 1)) ** (1 / 3), reduce.after, sizes) is None


def test_a_norm_made_pending_is_the_same_norm() -> None:
    tensor, norm = Tensor((3, 2), (2, 3)), _torch.norm_partial(2)
    whole = numbers((3, 2))
    there_and_back = [
        step("partition", (R, R), (R, norm), (1,), tensor),
        step("partition", (R, norm), (norm, norm), (0,), tensor),
        step("all_reduce", (norm, norm), (norm, R), (1,), tensor),
        step("all_reduce", (norm, R), (R, R), (0,), tensor),
    ]
    made = carried_out(there_and_back, tensor, [whole.clone() for _ in range(6)])
    assert fault(made, whole, tensor.layout((R, R)), tensor.sizes) is None


def test_a_step_over_dims_that_are_not_flattened_says_what_to_do() -> None:
    tensor = Tensor((8,), (2, 2, 2), ((0, 1),))
    plan = [step("all_gather", (S(0), R, S(0)), (R, R, R), (0, 2), tensor)]
    with pytest.raises(shardprop.ShardpropError, match=r"mesh\['a', 'c'\]._flatten\(\)"):
        run(plan, torch.ones(2), flattened((2, 2, 2), ((0, 1),)), (8,))


def test_of_a_mesh_without_names_no_dims_are_flattened(mesh_of: Callable[..., DeviceMesh]) -> None:
    mesh = mesh_of(2, 2)
    tensor = Tensor((8,), (2, 2))
    plan = [step("all_reduce", (P(), P()), (R, R), (0, 1), tensor)]
    assert _torch.flattened_groups(mesh) == ()
    with pytest.raises(shardprop.ShardpropError, match="give names to the dims"):
        run(plan, torch.ones(8), mesh, (8,))
    with pytest.raises(shardprop.ShardpropError, match="mesh_dim_names"):
        _torch.flatten_dims(mesh, (0, 1))


def test_an_unknown_step_is_refused() -> None:
    tensor = Tensor((8,), (2, 2))
    plan = [step("broadcast", (R, R), (R, R), (0,), tensor)]
    with pytest.raises(shardprop.ShardpropError, match=r"all_gather, .*, got 'broadcast'"):
        run(plan, torch.ones(8), flattened((2, 2), ()), (8,))
