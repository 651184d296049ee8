"""View rules on symbolic shapes: torch's answers, and no other guards than torch's.

Each question is put twice, to torch and to us, with sizes of two equal shape environments.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from typing import Any, NamedTuple

import pytest
import torch
from torch._dynamo.source import ConstantSource
from torch.distributed.tensor import Placement
from torch.distributed.tensor._dtensor_spec import DTensorSpec, TensorMeta
from torch.distributed.tensor._ops import _view_ops
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv

from shardprop.rules.families.views import (
    VIEW_OPS,
    Declined,
    _dim_maps,
    follow_view,
    forget_dim_maps,
)

from ..specs import SS, R, S
from .view_cases import MESHES, random_placements

aten = torch.ops.aten
Tensor = torch.Tensor

TORCH_NAMES = {
    aten.expand.default: Tensor.expand,
    aten.permute.default: torch.permute,
    aten.repeat.default: Tensor.repeat,
    aten.reshape.default: torch.reshape,
    aten.squeeze.default: torch.squeeze,
    aten.squeeze.dim: torch.squeeze,
    aten.transpose.int: torch.transpose,
    aten.unsqueeze.default: torch.unsqueeze,
    aten.view.default: Tensor.view,
    aten.view_as_real.default: torch.view_as_real,
}


class Symbols(NamedTuple):
    """How sizes are made: the first ones with a hint, the rest known only at run time.

    Attributes:
        hints: Of the sizes that have one.
        unbacked: Of the sizes that have none, a hint given by the user; 0 for none.
        small: May sizes with a hint be 0 or 1 at run time? By default they are taken to be larger,
            which spares many guards.
    """

    hints: tuple[int, ...]
    unbacked: tuple[int, ...] = ()
    small: bool = False


def _make(symbols: Symbols) -> tuple[ShapeEnv, list[Any]]:
    env = ShapeEnv(specialize_zero_one=not symbols.small)
    sizes = []
    for number, hint in enumerate(symbols.hints):
        source = ConstantSource(f"s{number}")
        symbol = env.create_symbol(hint, source=source, dynamic_dim=DimDynamic.DYNAMIC)
        sizes.append(env.create_symintnode(symbol, hint=hint, source=source))
    for hint in symbols.unbacked:
        size = env.create_unbacked_symint()
        torch._check(size >= 0)
        if hint:
            env.var_to_hint_override[size.node.expr] = hint
        sizes.append(size)
    return env, sizes


def _sizes(formula: Sequence[Any], symbols: Sequence[Any]) -> tuple[Any, ...]:
    """Sizes from letters for symbols and numbers; a tuple is a product."""

    def size(term: Any) -> Any:
        if isinstance(term, tuple):
            return math.prod(size(factor) for factor in term)
        return symbols["abcdef".index(term)] if isinstance(term, str) else term

    return tuple(size(term) for term in formula)


class Question(NamedTuple):
    op: Any
    shape: Sequence[Any]
    rest: Sequence[Any]  # a list holds sizes
    mesh: tuple[int, ...]
    placements: tuple[Placement, ...]


def _told(env: ShapeEnv) -> tuple[list[str], list[str]]:
    """The guards and the checks left for run time, in the order in which they came."""
    deferred = [
        f"{symbol}: {check.expr}"
        for symbol, checks in env.deferred_runtime_asserts.items()
        for check in checks
    ]
    return [str(guard.expr) for guard in env.guards], deferred


def _readable(placements: Sequence[Placement]) -> list[str]:
    return [f"{type(p).__name__} {p!r}" for p in placements]


def _ask(question: Question, symbols: Symbols, *, torch_itself: bool) -> tuple[Any, Any]:
    env, sizes = _make(symbols)
    shape = _sizes(question.shape, sizes)
    rest = [list(_sizes(a, sizes)) if isinstance(a, list) else a for a in question.rest]
    meta = TensorMeta(torch.Size(shape), (1,) * len(shape), torch.float32)
    spec = DTensorSpec.__new__(DTensorSpec)  # of no mesh: none is looked at
    spec.placements, spec.tensor_meta = question.placements, meta
    answer: Sequence[Sequence[Placement]]
    if not torch_itself:
        try:
            answer = follow_view(question.op, (spec, *rest), {}, question.mesh)
        except Declined:
            return None, _told(env)
    else:
        try:
            torchs_maps: dict[Any, Any] = _view_ops.dim_maps
            rule = torchs_maps[TORCH_NAMES[question.op]](spec, *rest)
            answer = _view_ops.propagate_shape_and_sharding(
                spec.placements,
                tuple(spec.shape),
                rule,
                question.mesh,
                VIEW_OPS[question.op].strict,
            )
        except Exception:
            return None, _told(env)
    return [_readable(placements) for placements in answer], _told(env)


def _assert_equal(question: Question, symbols: Symbols) -> tuple[Any, Any]:
    """Ask both, and compare answers and guards; torch's."""
    theirs, their_guards = _ask(question, symbols, torch_itself=True)
    ours, our_guards = _ask(question, symbols, torch_itself=False)
    assert ours == theirs, (question, symbols)
    if theirs is None:
        # torch is asked afterwards and adds the rest; what is there must be of the same kind.
        assert all(told in their_guards[kind] for kind in (0, 1) for told in our_guards[kind]), (
            question,
            symbols,
        )
    else:
        assert our_guards == their_guards, (question, symbols)
    return theirs, their_guards


@pytest.mark.slow
@pytest.mark.parametrize("small", [False, True], ids=["at least two", "any size"])
@pytest.mark.parametrize(
    "question",
    [
        Question(aten.permute.default, "abc", [(2, 0, 1)], (2, 2), (S(0), S(2))),
        Question(aten.transpose.int, "abc", [0, 1], (2, 2), (SS(0, 2), S(0))),
        Question(aten.unsqueeze.default, "abc", [1], (2,), (S(1),)),
        Question(aten.squeeze.default, ["a", 1, "b"], [], (2,), (S(2),)),
        Question(aten.squeeze.dim, ["a", 1, "b"], [1], (2,), (S(2),)),
        Question(aten.expand.default, [1, "a"], [["b", -1, "a"]], (2,), (S(1),)),
        Question(aten.expand.default, ["a", 1], [["a", "c"]], (2,), (S(0),)),
        Question(aten.repeat.default, "ab", [["c", 1, 2]], (2, 2), (S(0), S(1))),
        Question(aten.view.default, "abc", [[("a", "b"), "c"]], (2, 2), (S(0), S(2))),
        Question(aten.view.default, "abc", [["a", ("b", "c")]], (4, 2), (S(0), R)),
        Question(aten.view.default, "abc", [["a", -1]], (2, 3), (S(0), S(1))),
        Question(aten.view.default, [("a", "b"), "c"], [["a", "b", "c"]], (2, 2), (S(0), R)),
        Question(aten.view.default, [("a", 2)], [[2, "a"]], (2, 2), (S(0), SS(0, 2))),
        Question(aten.view.default, [("a", "b")], [["a", "b"]], (4,), (R,)),
        Question(aten.reshape.default, "abc", [["a", ("b", "c")]], (3,), (S(1),)),
        Question(aten.reshape.default, ["a", "b", 2], [["b", "a", 2]], (2,), (S(0),)),
        Question(aten.view_as_real.default, "ab", [], (2, 2), (S(0), S(1))),
    ],
    ids=lambda q: f"{q.op}{q.shape}{q.rest}".replace(" ", ""),
)
def test_sizes_with_hints(question: Question, small: bool) -> None:
    symbols = Symbols(hints=(8, 6, 4), small=small)
    theirs, _ = _assert_equal(question, symbols)
    assert theirs is not None


@pytest.mark.slow
@pytest.mark.parametrize("known_hints", [False, True], ids=["no hints", "user's hints"])
@pytest.mark.parametrize(
    "question",
    [
        Question(aten.view.default, "abc", [[("a", "b"), "c"]], (2,), (S(2),)),
        Question(aten.view.default, ["a", "b", 4], [[("a", "b"), 4]], (2,), (R,)),
        Question(aten.view.default, ["b", "c", 4], [["b", ("c", 4)]], (2, 2), (S(0), R)),
        Question(aten.view.default, [4, "b", "c"], [[4, ("b", "c")]], (2,), (S(2),)),
        Question(aten.view.default, [("b", "c")], [["b", "c"]], (2,), (SS(0, 6),)),
        Question(aten.view.default, [("b", "c")], [["c", "b"]], (2,), (R,)),
        Question(aten.view.default, ["b", "c"], [["c", "b"]], (2,), (R,)),
        Question(aten.view.default, ["b", "c"], [[-1]], (2,), (S(0),)),
        Question(aten.view.default, ["b", "c"], [[(2, "d"), 1]], (2,), (S(1),)),
        Question(aten.view.default, ["b", "c"], [[("b", "c", 1)]], (2,), (R,)),
        Question(aten.view.default, ["a", "b"], [["b", "a"]], (2,), (R,)),
        Question(aten.squeeze.default, "bc", [], (2,), (S(0),)),
        Question(aten.expand.default, ["b", 1], [["b", "c"]], (2,), (S(0),)),
        Question(aten.transpose.int, "bc", [0, 1], (2,), (SS(0, 2),)),
    ],
    ids=lambda q: f"{q.op}{q.shape}{q.rest}".replace(" ", "") if isinstance(q, Question) else None,
)
def test_sizes_known_only_at_run_time(question: Question, known_hints: bool) -> None:
    _assert_equal(question, Symbols((8,), (6, 4, 12) if known_hints else (0, 0, 0)))


def _random_groups(rng: random.Random, factors: Sequence[Any]) -> list[Any]:
    left, groups = list(factors), []
    while left:
        count = rng.choice((1, 1, 1, 2, 2, 3))
        groups.append(tuple(left[:count]))
        left = left[count:]
    return groups


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["at least two", "any size", "known at run time"])
def test_random_reshapes(kind: str) -> None:
    rng = random.Random(kind)
    answered = guarded = 0
    for _ in range(40):
        hints = [rng.choice((2, 4, 6, 8, 12)) for _ in range(3)]
        backed = 1 if kind == "known at run time" else len(hints)
        symbols = Symbols(tuple(hints[:backed]), tuple(hints[backed:]), kind == "any size")
        factors: list[Any] = ["a", "b", "c", *rng.choices((2, 3, 4, 8), k=rng.randint(0, 2))]
        rng.shuffle(factors)
        shape = _random_groups(rng, factors)
        if rng.random() < 0.2:
            rng.shuffle(factors)
        target = _random_groups(rng, factors)
        if rng.random() < 0.2:
            target[rng.randrange(len(target))] = -1
        mesh = rng.choice(MESHES)
        question = Question(
            rng.choice((aten.view.default, aten.reshape.default)),
            shape,
            [target],
            mesh,
            random_placements(rng, len(shape), len(mesh)),
        )
        answer, told = _assert_equal(question, symbols)
        answered += answer is not None
        guarded += answer is not None and told != _told(_make(symbols)[0])
    assert answered > 15
    assert guarded > (0 if kind == "known at run time" else 5)


def test_dim_maps_are_kept_for_plain_sizes_only() -> None:
    forget_dim_maps()
    question = Question(aten.view.default, "ab", [[("a", "b")]], (2,), (S(0),))
    _ask(question, Symbols((8, 6)), torch_itself=False)
    assert len(_dim_maps) == 0
    _ask(
        Question(aten.view.default, (8, 6), [[48]], (2,), (S(0),)), Symbols(()), torch_itself=False
    )
    assert len(_dim_maps) == 1
