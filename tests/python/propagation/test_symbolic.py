"""Symbolic sizes: the core decides as torch does, with guards that torch's imply."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
import torch
from torch._ops import OpOverload
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Placement
from torch.distributed.tensor._op_schema import OpSchema

import shardprop
from shardprop.model.symbolic_guards import Candidate, SymbolicSizes

from .. import specs
from ..narrow import known
from ..specs import P, R, S
from ..symbolic import Answer, Arguments, Symbols, ask, grid, spec_of

aten = torch.ops.aten
MeshOf = Callable[..., DeviceMesh]
Question = Callable[[DeviceMesh, Symbols], Arguments]

SIZES = (*range(2, 20), 31, 32, 63, 64, 65, 100, 128, 255, 256, 257, 500, 512, 1000, 1024)
LARGE = (1500, 2048, 4096, 10_000, 65_536, 1_000_000)


@pytest.fixture(autouse=True)
def disabled_afterwards() -> Iterator[None]:
    shardprop.reset_stats()
    yield
    shardprop.disable()


def both(op: OpOverload, mesh: DeviceMesh, question: Question) -> tuple[Answer, Answer]:
    """torch's answer, then ours. The mesh comes ready made: making one is not to be traced."""
    theirs = ask(op, lambda symbols: question(mesh, symbols))
    with shardprop.enabled():
        return theirs, ask(op, lambda symbols: question(mesh, symbols))


def mm(
    tokens: Any, left: Sequence[Placement], right: Sequence[Placement], features: int = 128
) -> Question:
    """[tokens, features] @ [features, 256]"""

    def arguments(mesh: DeviceMesh, symbols: Symbols) -> Arguments:
        size = symbols.backed("tokens", tokens) if isinstance(tokens, int) else tokens(symbols)
        n = mesh.ndim
        a = spec_of(mesh, (size, features), left[:n])
        return (a, spec_of(mesh, (features, 256), right[:n])), {}

    return arguments


def add(shape: tuple[int, ...], left: Sequence[Placement], right: Sequence[Placement]) -> Question:
    """A bias over the last dim, onto [batch, seq, features] with batch and seq symbolic."""

    def arguments(mesh: DeviceMesh, symbols: Symbols) -> Arguments:
        batch, seq, features = shape
        sizes = (symbols.backed("batch", batch), symbols.backed("seq", seq), features)
        n = mesh.ndim
        return (spec_of(mesh, sizes, left[:n]), spec_of(mesh, (features,), right[:n])), {}

    return arguments


def layer_norm(placements: Sequence[Placement]) -> Question:
    def arguments(mesh: DeviceMesh, symbols: Symbols) -> Arguments:
        sizes = (symbols.backed("batch", 64), symbols.backed("seq", 128), 32)
        weight = spec_of(mesh, (32,), [R] * mesh.ndim)
        x = spec_of(mesh, sizes, placements[: mesh.ndim])
        return (x, [32], weight, weight, 1e-5), {}

    return arguments


def embedding(table: Sequence[Placement], tokens: Sequence[Placement]) -> Question:
    def arguments(mesh: DeviceMesh, symbols: Symbols) -> Arguments:
        sizes = (symbols.backed("batch", 64), symbols.backed("seq", 128))
        ids = spec_of(mesh, sizes, tokens[: mesh.ndim], torch.int64)
        return (spec_of(mesh, (1024, 64), table[: mesh.ndim]), ids), {}

    return arguments


def softmax(placements: Sequence[Placement]) -> Question:
    def arguments(mesh: DeviceMesh, symbols: Symbols) -> Arguments:
        sizes = (symbols.backed("batch", 64), symbols.backed("seq", 128), 32)
        return (spec_of(mesh, sizes, placements[: mesh.ndim]), -1, False), {}

    return arguments


CASES: dict[str, tuple[OpOverload, Question]] = {
    "mm, nothing moves": (aten.mm.default, mm(64, [S(0)] * 3, [R] * 3)),
    "mm, too few tokens to cut": (aten.mm.default, mm(6, [R] * 3, [S(1)] * 3)),
    "mm, few tokens to gather": (aten.mm.default, mm(64, [S(0)] * 3, [S(1)] * 3)),
    "mm, many tokens": (aten.mm.default, mm(4096, [S(0)] * 3, [S(0)] * 3)),
    "mm, partial": (aten.mm.default, mm(1000, [P] * 3, [S(0)] * 3)),
    "mm, mixed": (aten.mm.default, mm(96, [S(0), P, R], [S(1), S(0), S(1)])),
    "add, aligned": (aten.add.Tensor, add((64, 128, 32), [S(0), S(1), R], [R] * 3)),
    "add, bias cut": (aten.add.Tensor, add((64, 128, 32), [S(0), P, S(1)], [S(0)] * 3)),
    "layer_norm, sequence": (aten.native_layer_norm.default, layer_norm([S(1), S(0), R])),
    "layer_norm, features": (aten.native_layer_norm.default, layer_norm([S(2), S(2), S(1)])),
    "embedding, vocabulary": (aten.embedding.default, embedding([S(0), R, R], [R, S(0), S(1)])),
    "embedding, features": (aten.embedding.default, embedding([S(1), S(1), R], [S(1), R, S(0)])),
    "softmax, other dims": (aten._softmax.default, softmax([S(0), S(1), R])),
    "softmax, its dim": (aten._softmax.default, softmax([S(2), S(0), S(2)])),
}


# On a 3-D mesh torch takes seconds for what moves.
SHAPES = [(name, shape) for name in CASES for shape in [(8,), (4, 8)]]
SHAPES += [(name, (2, 2, 4)) for name in ("mm, few tokens to gather", "softmax, its dim")]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "shape"), SHAPES, ids=lambda s: s if isinstance(s, str) else f"{len(s)}D"
)
def test_decision_is_torchs(name: str, shape: tuple[int, ...], mesh_of: MeshOf) -> None:
    op, question = CASES[name]
    mesh = mesh_of(*shape)
    theirs, ours = both(op, mesh, question)
    assert ours.said == theirs.said
    assert not isinstance(ours.said, str), "an error is no decision"
    assert shardprop.stats().fallbacks == {}
    assert ours.stands_wherever(theirs, grid(theirs.values, SIZES + LARGE))


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_every_test_of_shardability_is_guarded_as_torch_guards_it(
    name: str, mesh_of: MeshOf
) -> None:
    op, question = CASES[name]
    theirs, ours = both(op, mesh_of(4, 8), question)

    def cuts(answer: Answer) -> set[str]:
        # torch compares one symbol with a product of mesh sizes.
        products = {"4", "8", "32"}
        return {
            str(guard)
            for guard in answer.guards
            if len(guard.args) == 2 and guard.args[0].is_Symbol and str(guard.args[1]) in products
        }

    assert cuts(ours) == cuts(theirs)


def placements_for(tokens: int, mesh: DeviceMesh) -> tuple[tuple[Placement, ...], ...]:
    """What torch alone wants of mm(x: S(0), w: S(0)) for so many tokens, without any symbol."""
    n = mesh.ndim
    x = specs.spec_of(mesh, (tokens, 128), [S(0)] * n)
    w = specs.spec_of(mesh, (128, 256), [S(0)] * n)
    propagator = DTensor._op_dispatcher.sharding_propagator
    wanted = propagator.propagate_op_sharding_non_cached(OpSchema(aten.mm.default, (x, w), {}))
    return tuple(spec.placements for spec in known(wanted.redistribute_schema).args_spec)


@pytest.mark.slow
@pytest.mark.parametrize("shape", [(8,), (4, 8)], ids=["1D", "2D"])
@pytest.mark.parametrize("tokens", [64, 4096])
def test_the_price_is_guarded_where_the_decision_turns(
    tokens: int, shape: tuple[int, ...], mesh_of: MeshOf
) -> None:
    mesh = mesh_of(*shape)
    question = mm(tokens, [S(0)] * 3, [S(0)] * 3)
    theirs, ours = both(aten.mm.default, mesh, question)
    (symbol,) = ours.values
    kept = [size for size in range(mesh.size(), 5000) if ours.holds_for({symbol: size})]
    assert kept == list(range(kept[0], kept[-1] + 1))
    now = placements_for(tokens, mesh)
    for size in (kept[0], tokens, kept[-1]):
        assert placements_for(size, mesh) == now
    turns = kept[-1] + 1 if tokens == 64 else kept[0] - 1
    assert placements_for(turns, mesh) != now
    assert len(theirs.guards) > len(ours.guards)


@pytest.mark.slow
def test_sizes_that_grow_apart_are_compared_by_torchs_expressions(mesh_of: MeshOf) -> None:
    def question(mesh: DeviceMesh, symbols: Symbols) -> Arguments:
        m, n = symbols.backed("m", 512), symbols.backed("n", 300)
        return (spec_of(mesh, (m, 64), [S(0)]), spec_of(mesh, (64, n), [S(1)])), {}

    theirs, ours = both(aten.mm.default, mesh_of(8), question)
    assert ours.said == theirs.said
    assert any("FloatTrueDiv" in text for text in ours.guard_texts)
    assert ours.stands_wherever(theirs, grid(theirs.values, SIZES + LARGE))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("left", "right"),
    [([S(0), S(1)], [S(1), P]), ([P, R], [P, R]), ([R, S(0)], [R, P])],
    ids=["shards", "partials", "both"],
)
def test_equal_prices_fall_as_torchs_expressions_fall(
    left: list[Placement],
    right: list[Placement],
    mesh_of: MeshOf,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    level: list[int] = []
    compare = SymbolicSizes.cheapest

    def counted(self: SymbolicSizes, candidates: Sequence[Candidate]) -> int:
        level.append(len(candidates))
        return compare(self, candidates)

    monkeypatch.setattr(SymbolicSizes, "cheapest", counted)
    question = mm(64, left, right)
    theirs, ours = both(aten.mm.default, mesh_of(4, 4), question)
    assert level[0] > 1, "several strategies at the least price"
    assert ours.said == theirs.said
    assert ours.stands_wherever(theirs, grid(theirs.values, SIZES + LARGE))


@pytest.mark.slow
def test_uneven_sizes_do_not_recompile_for_a_price(mesh_of: MeshOf) -> None:
    question = mm(64, [S(0)] * 3, [S(1)] * 3)
    theirs, ours = both(aten.mm.default, mesh_of(4, 8), question)
    assert any("Mod" in text for text in theirs.guard_texts)
    assert not any("Mod" in text for text in ours.guard_texts)


@pytest.mark.slow
def test_a_list_op_decides_each_symbolic_element(mesh_of: MeshOf) -> None:
    def question(mesh: DeviceMesh, symbols: Symbols) -> Arguments:
        rows = symbols.backed("rows", 64)
        left = [spec_of(mesh, (rows, 8), [S(0), P]), spec_of(mesh, (16, 8), [R, S(0)])]
        right = [spec_of(mesh, (rows, 8), [S(1), R]), spec_of(mesh, (16, 8), [S(1), R])]
        return (left, right), {}

    theirs, ours = both(aten._foreach_add.List, mesh_of(2, 4), question)
    assert ours.said == theirs.said
    assert not isinstance(ours.said, str)
    assert shardprop.stats().fallbacks == {}
    assert ours.stands_wherever(theirs, grid(theirs.values, SIZES + LARGE))


UNBACKED = {
    "nothing known": {},
    "large enough": {"least": 64},
    "too small": {"most": 3},
    "bounded": {"most": 100},
    "hinted": {"hint": 640},
}


@pytest.mark.slow
@pytest.mark.parametrize("known", UNBACKED.values(), ids=list(UNBACKED))
@pytest.mark.parametrize("shape", [(8,), (4, 8)], ids=["1D", "2D"])
@pytest.mark.parametrize(
    "left", [[R, R], [S(0), S(0)], [P, S(0)]], ids=["replicate", "shard", "partial"]
)
def test_unbacked_sizes_are_decided_as_torch_decides_them(
    left: list[Placement], shape: tuple[int, ...], known: dict[str, int], mesh_of: MeshOf
) -> None:
    question = mm(lambda symbols: symbols.unbacked(**known), left, [S(1), S(0)])
    theirs, ours = both(aten.mm.default, mesh_of(*shape), question)
    assert ours.said == theirs.said
    assert not isinstance(ours.said, str)
    assert ours.asserts <= theirs.asserts
    assert ours.guards == theirs.guards == ()
    assert shardprop.stats().fallbacks == {}


def test_a_rule_that_assumes_nothing_of_unbacked_sizes_gets_torchs_error(mesh_of: MeshOf) -> None:
    def question(mesh: DeviceMesh, symbols: Symbols) -> Arguments:
        ids = spec_of(mesh, (symbols.unbacked(),), [R], torch.int64)
        return (spec_of(mesh, (64, 128), [S(0)]), ids), {}

    theirs, ours = both(aten.embedding.default, mesh_of(8), question)
    assert ours.said == theirs.said == "GuardOnDataDependentSymNode"
    assert shardprop.stats().refused == {"size that only the data can tell": 1}


def test_prices_in_backed_and_unbacked_sizes_are_left_to_torch(mesh_of: MeshOf) -> None:
    def question(mesh: DeviceMesh, symbols: Symbols) -> Arguments:
        a = spec_of(mesh, (symbols.unbacked(), 128), [S(1)])
        return (a, spec_of(mesh, (128, symbols.backed("n", 256)), [S(1)])), {}

    theirs, ours = both(aten.mm.default, mesh_of(8), question)
    assert ours.said == theirs.said == "KeyError", "torch has no number for the backed size"
    assert shardprop.stats().refused == {"prices in backed and unbacked sizes": 1}
