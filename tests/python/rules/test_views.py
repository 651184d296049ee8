"""Our rules for view ops against torch's registered strategies, on random questions."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch.distributed.tensor import DTensor, Placement, Replicate, Shard, distribute_tensor
from torch.distributed.tensor._dtensor_spec import DTensorSpec, TensorMeta
from torch.distributed.tensor._op_schema import OpSchema, OpStrategy
from torch.distributed.tensor._ops import _view_ops
from torch.distributed.tensor.placement_types import _StridedShard
from torch.fx.experimental import symbolic_shapes
from torch.fx.experimental.symbolic_shapes import guard_or_false

import shardprop
from shardprop.rules.families.views import VIEW_OPS, Declined, follow_view, forget_dim_maps
from shardprop.rules.families.views.declined import Endless

from ..narrow import known
from ..specs import SS, P, R, S
from .view_cases import (
    MESHES,
    Case,
    random_arguments,
    random_case,
    random_placement,
    random_shape,
)

aten = torch.ops.aten

CASES_PER_OP = 180

Answer = tuple[list[Any], list[Any]]
Ask = Callable[..., Answer | None]


@contextmanager
def _guards_at_most(limit: int) -> Iterator[None]:
    """Raise from torch code that asks about sizes without end."""
    asked = itertools.count()

    def counted(condition: Any) -> bool:
        if next(asked) > limit:
            raise RecursionError("torch does not return")
        return guard_or_false(condition)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(symbolic_shapes, "guard_or_false", counted)
        yield


def _exact(placements: Sequence[Placement]) -> list[Any]:
    """Placements such that equal means equal in kind, dim and split factor."""
    return [
        (type(p), p.dim, getattr(p, "split_factor", None))
        if isinstance(p, Shard | _StridedShard)
        else p
        for p in placements
    ]


def _spec(mesh: Any, shape: Sequence[int], placements: Sequence[Placement]) -> DTensorSpec:
    meta = TensorMeta(torch.Size(shape), (1,) * len(shape), torch.float32)
    return DTensorSpec(mesh, tuple(placements), meta, use_strided_shard_as_shard_order=False)


@pytest.fixture
def ask_torch(mesh_of: Any, monkeypatch: pytest.MonkeyPatch) -> Ask:
    """torch's registered strategy, without prices; None where it raises or does not return."""
    monkeypatch.setattr(_view_ops, "generate_redistribute_costs", lambda *_: [0.0])
    propagator = DTensor._op_dispatcher.sharding_propagator

    def ask(case: Case, **kwargs: Any) -> Answer | None:
        spec = _spec(mesh_of(*case.mesh), case.shape, case.placements)
        schema = propagator._wrap_with_op_strategy(OpSchema(case.op, (spec, *case.rest), kwargs))
        try:
            with _guards_at_most(10_000):
                strategy = propagator.op_strategy_funcs[case.op](schema)
        except Exception:
            return None
        assert isinstance(strategy, OpStrategy)
        (only,) = strategy.strategies
        return _exact(known(only.input_specs)[0].placements), _exact(only.output_spec.placements)

    return ask


@pytest.fixture
def ask_us(mesh_of: Any) -> Ask:
    """Our answer; None where we decline."""

    def ask(case: Case, **kwargs: Any) -> Answer | None:
        spec = _spec(mesh_of(*case.mesh), case.shape, case.placements)
        try:
            wanted, output = follow_view(case.op, (spec, *case.rest), kwargs, case.mesh)
        except Declined:
            return None
        assert isinstance(wanted, tuple) and isinstance(output, tuple)
        return _exact(wanted), _exact(output)

    return ask


def test_all_view_ops_of_torch_are_known() -> None:
    strategies = DTensor._op_dispatcher.sharding_propagator.op_strategy_funcs
    followed = {
        op
        for op, strategy in strategies.items()
        if strategy.__module__ == _view_ops.__name__ and strategy.__name__ == "reshape_strategy"
    }
    assert set(VIEW_OPS) == followed


def _is_fault_of_torch(case: Case) -> bool:
    """Strided shards of the last dim, which torch puts on the new one (see test_rules_sound.py)."""
    return case.op is aten.view_as_real.default and any(
        isinstance(p, _StridedShard) and p.dim == len(case.shape) - 1 for p in case.placements
    )


@pytest.mark.slow
@pytest.mark.parametrize("op", VIEW_OPS, ids=str)
def test_answers_are_torchs_and_declined_is_what_torch_raises_for(
    op: Any, ask_torch: Ask, ask_us: Ask
) -> None:
    rng = random.Random(str(op))
    answered = moved = 0
    different = []
    for _ in range(CASES_PER_OP):
        case = random_case(rng, op)
        theirs, ours = ask_torch(case), ask_us(case)
        if theirs != ours and not _is_fault_of_torch(case):
            different.append((case, theirs, ours))
        if theirs is not None:
            answered += 1
            moved += theirs[0] != theirs[1] or theirs[0] != _exact(case.placements)
    assert different == []
    assert answered > CASES_PER_OP // 2
    assert moved > CASES_PER_OP // 60


_FLATTENING = (aten.view.default, aten._unsafe_view.default, aten.view_copy.default)
_MOVING = (aten.permute.default, aten.squeeze.default, aten.transpose.int, aten.unsqueeze.default)


def test_views_of_views_follow_the_strided_shards_of_the_ones_before(
    ask_torch: Ask, mesh_of: Any
) -> None:
    rng = random.Random(0)
    different = []
    resolved = kept = 0
    for _ in range(400):
        shape = (rng.choice((2, 4, 6)), rng.choice((2, 4, 8)), *random_shape(rng, least=1)[:2])
        if 0 in shape:
            continue
        mesh = rng.choice(MESHES)
        before = shape
        placements = tuple(
            random_placement(rng, len(shape)) if rng.random() < 0.3 else S(rng.randrange(2))
            for _ in mesh
        )
        for _ in range(4):
            flatten = len(shape) > 1 and rng.random() < 0.5
            op = rng.choice(_FLATTENING if rng.random() < 0.8 else _MOVING)
            rest = random_arguments(rng, op, shape)
            if op in _FLATTENING:
                if flatten:
                    rest = ([shape[0] * shape[1], *shape[2:]],)
                elif math.prod(before) == math.prod(shape):
                    rest = (list(before),)
            case = Case(op, shape, rest, mesh, placements)
            spec = _spec(mesh_of(*mesh), shape, placements)
            theirs = ask_torch(case)
            try:
                wanted, output = follow_view(op, (spec, *rest), {}, mesh)
                ours = _exact(wanted), _exact(output)
            except Declined:
                ours = None
            if theirs != ours:
                different.append((case, theirs, ours))
            if ours is None or theirs is None:
                break
            pairs = [
                (type(a), type(b))
                for a, b in zip(placements, output, strict=True)
                if not isinstance(a, Replicate)
            ]
            resolved += (_StridedShard, Shard) in pairs
            kept += (_StridedShard, _StridedShard) in pairs
            before = shape
            shape = tuple(op(torch.empty(shape, device="meta"), *rest).shape)
            placements = output
    assert different == []
    assert resolved > 20
    assert kept > 20


def test_an_inner_shard_comes_back_when_its_dims_are_merged_and_cut_again(mesh_of: Any) -> None:
    mesh, placements = mesh_of(2), (S(1),)
    spec = _spec(mesh, (2, 4, 6), placements)
    _, flat = follow_view(aten.view.default, (spec, [8, 6]), {}, (2,))
    assert isinstance(flat[0], _StridedShard)
    spec = _spec(mesh, (8, 6), flat)
    _, back = follow_view(aten.view.default, (spec, [2, 4, 6]), {}, (2,))
    assert _exact(back) == _exact(placements)


@pytest.mark.parametrize(
    ("op", "shape", "kwargs"),
    [
        (aten.permute.default, (2, 3, 4), {"dims": [2, 0, 1]}),
        (aten.transpose.int, (2, 3, 4), {"dim0": 0, "dim1": -1}),
        (aten.unsqueeze.default, (2, 3), {"dim": 1}),
        (aten.squeeze.dim, (2, 1), {"dim": 1}),
        (aten.reshape.default, (2, 6), {"shape": [12]}),
        (aten.view.default, (2, 6), {"size": [12]}),
        (aten.expand.default, (2, 1), {"size": [2, 4]}),
        (aten.expand.default, (2, 1), {"implicit": True}),
        (aten.squeeze.default, (2, 1), {"dims": [1]}),
    ],
    ids=str,
)
def test_keyword_arguments_are_taken_as_torch_takes_them(
    op: Any, shape: tuple[int, ...], kwargs: dict[str, Any], ask_torch: Ask, ask_us: Ask
) -> None:
    rest = ([2, 4],) if "implicit" in kwargs else ()
    case = Case(op, shape, rest, (2,), (S(0),))
    assert ask_us(case, **kwargs) == ask_torch(case, **kwargs)


@pytest.mark.parametrize(
    ("op", "shape", "rest", "placements"),
    [
        (aten.view_as_real.default, (4, 1), (), (SS(1, 1), R)),
        (aten.view_copy.default, (8, 3), ([4, 6],), (SS(0, 2), R)),
        (aten.view.default, (8,), ([2, 2, 2],), (SS(0, 1), S(0))),
        (aten.view.default, (2, 4, 6), ([48],), (S(1), S(2))),
        (aten.reshape.default, (6, 4), ([2, 12],), (R, S(0))),
        (aten.repeat.default, (4, 4), ([2, 1],), (SS(0, 2), S(1))),
    ],
    ids=[
        "a strided shard fits two pieces",
        "a run of a strided shard spans merged dims",
        "the first piece is taken by a strided shard",
        "nested strided shards",
        "a piece smaller than the mesh dim",
        "repeated",
    ],
)
def test_corners(
    op: Any,
    shape: tuple[int, ...],
    rest: tuple[Any, ...],
    placements: tuple[Placement, ...],
    ask_torch: Ask,
    ask_us: Ask,
) -> None:
    for mesh in ((2, 2), (2, 3), (4, 2)):
        case = Case(op, shape, rest, mesh, placements)
        assert ask_us(case) == ask_torch(case)


def test_placements_that_are_not_shards_are_handed_through_as_they_are(mesh_of: Any) -> None:
    class Foreign(Placement):
        pass

    placements = (Foreign(), P, S(0))
    spec = _spec(mesh_of(2, 2, 2), (4, 2), placements)
    for op, rest in ((aten.view.default, [8]), (aten.transpose.int, None)):
        args = (spec, 0, 1) if rest is None else (spec, rest)
        wanted, output = follow_view(op, args, {}, (2, 2, 2))
        assert wanted[0] is output[0] is placements[0]
        assert wanted[1] is output[1] is placements[1]


def test_subclasses_of_shard_come_out_as_plain_shards_as_in_torch(
    ask_torch: Ask, ask_us: Ask
) -> None:
    class OwnShard(Shard):
        pass

    for op, rest in ((aten.transpose.int, (0, 1)), (aten.view.default, ([8],))):
        case = Case(op, (4, 2), rest, (2,), (OwnShard(0),))
        ours = ask_us(case)
        assert ours is not None
        assert ours == ask_torch(case)


def test_answers_do_not_depend_on_what_was_asked_before(ask_us: Ask) -> None:
    rng = random.Random(1)
    cases = [random_case(rng, rng.choice(list(VIEW_OPS))) for _ in range(200)]
    warm = [ask_us(case) for case in cases]
    warm = [ask_us(case) for case in cases]
    forget_dim_maps()
    assert [ask_us(case) for case in reversed(cases)] == warm[::-1]


@pytest.mark.parametrize(
    ("op", "shape", "rest", "placements"),
    [
        (aten.view.default, (3, 4), ([12],), (S(0),)),
        (aten.view.default, (6,), ([3, 2],), (S(0),)),
        (aten.squeeze.dim, (1, 4), (0,), (S(0),)),
        (aten.expand.default, (1, 4), ([3, 4],), (S(0),)),
        (aten.view.default, (0, 3), ([3, 0],), (R,)),
        (aten.view.default, (), ([1],), (S(0),)),
    ],
    ids=["uneven merge", "uneven cut", "squeezed", "broadcast", "zero size", "no such dim"],
)
def test_what_torch_raises_for_is_declined_with_a_reason(
    op: Any,
    shape: tuple[int, ...],
    rest: tuple[Any, ...],
    placements: tuple[Placement, ...],
    ask_torch: Ask,
    mesh_of: Any,
) -> None:
    assert ask_torch(Case(op, shape, rest, (2,), placements)) is None
    with pytest.raises(Declined, match=r"\w+"):
        follow_view(op, (_spec(mesh_of(2), shape, placements), *rest), {}, (2,))


def test_view_of_an_empty_tensor_is_declined_where_torch_does_not_return(
    ask_torch: Ask, mesh_of: Any
) -> None:
    case = Case(aten.view.default, (0, 3), ([-1],), (2,), (Replicate(),))
    assert ask_torch(case) is None
    with pytest.raises(Endless, match="left over"):
        follow_view(case.op, (_spec(mesh_of(2), case.shape, case.placements), [-1]), {}, (2,))


def test_a_view_that_torch_does_not_return_from_is_an_error(mesh_of: Any) -> None:
    x = distribute_tensor(torch.empty(0, 3), mesh_of(2), [Replicate()], src_data_rank=None)
    with shardprop.enabled(), pytest.raises(RuntimeError, match="to_local"):  # torch's wrapping
        x.view(-1)
