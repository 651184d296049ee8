"""Rules that a program registers: who sees them, what follows from them, how they go again."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch._ops import OpOverload
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor
from torch.distributed.tensor._ops.single_dim_strategy import register_single_dim_strategy
from torch.distributed.tensor.experimental import register_sharding

import shardprop
from shardprop import ShardingPlaceholder as H
from shardprop import ShardpropError, _torch
from shardprop.cli.coverage_table import Decider, coverage
from shardprop.rules import torch_registry

from ..custom_ops import elementwise, joining, ops, scale_into, step, step_, step_out
from ..narrow import known
from ..specs import P, R, S, meta_of, spec_of

MeshOf = Callable[..., DeviceMesh]
aten = torch.ops.aten


@pytest.fixture(autouse=True)
def rules() -> Iterator[None]:
    with shardprop.temporary_rules():
        yield


def no_dim(dim: int) -> Callable[..., list[list[Any]]]:
    """A rule of one operand that may be cut along any dim but one."""
    return lambda op, args, kwargs: [[H(d)] * 2 for d in range(len(args[0].shape)) if d != dim]


def state() -> list[dict[Any, Any]]:
    """All that registrations change of torch."""
    prop = _torch.propagator()
    tables = (
        prop.op_single_dim_strategy_funcs,
        prop.op_to_schema_info,
        prop.op_to_schema_info_for_single_dim_strategy,
        prop.op_strategy_funcs,
    )
    return [dict(table) for table in tables]


def test_an_op_of_one_overload_stands_for_it() -> None:
    shardprop.register_rule(torch.ops.shardprop_ops.step, "..., ... -> ...")
    assert torch_registry.single_dim_entry(torch.ops.shardprop_ops.step.default) is not None


def test_core_and_torch_alone_decide_alike(mesh_of: MeshOf) -> None:
    shardprop.register_single_dim_rule(step)(elementwise())
    mesh = mesh_of(4)
    x = distribute_tensor(torch.randn(8, 8), mesh, [Shard(0)])
    y = distribute_tensor(torch.randn(8, 8), mesh, [Replicate()])
    alone = step(x, y).placements
    with shardprop.enabled(strict=True):
        shardprop.reset_stats()
        assert step(x, y).placements == alone == (S(0),)
        stats = shardprop.stats()
    assert (stats.decisions, stats.fallbacks, stats.delegated) == (1, {}, {})


def test_a_list_of_ops_shares_a_rule(mesh_of: MeshOf) -> None:
    shardprop.register_single_dim_rule([step, ops.mix.default, step], variants=False)(elementwise())
    x = spec_of(mesh_of(2), (4, 4), [S(0)])
    for op in (ops.step.default, ops.mix.default):
        assert shardprop.propagate(op, x, x).outputs == ((S(0),),)


def test_a_rule_in_the_notation(mesh_of: MeshOf) -> None:
    shardprop.register_rule(step, "... m{even}, ... m -> ... m")
    for size, wanted in ((8, S(1)), (6, R)):
        x = spec_of(mesh_of(4), (8, size), [S(1)])
        assert shardprop.propagate(ops.step.default, x, x).outputs == ((wanted,),)
    x = spec_of(mesh_of(4), (8, 8), [S(1)])
    assert shardprop.propagate(ops.step_out.default, x, x, x).operands == ((S(1),),) * 3
    tensor = distribute_tensor(torch.randn(8, 8), mesh_of(4), [Shard(1)])
    with shardprop.enabled(strict=True):
        assert step(tensor, tensor).placements == (S(1),)
    assert step(tensor, tensor).placements == (R,)  # torch cannot tell whether shards are even


def test_the_notation_leaves_no_rank_without_elements(mesh_of: MeshOf) -> None:
    shardprop.register_rule(step, "m, m -> m")
    mesh = mesh_of(4)
    kept = {}
    for size in (3, 4, 5, 8):
        spec = spec_of(mesh, (size,), [S(0)])
        kept[size] = shardprop.propagate(ops.step.default, spec, spec).outputs[0]
    assert kept == {3: (R,), 4: (S(0),), 5: (S(0),), 8: (S(0),)}


def test_the_notation_for_several_outputs(mesh_of: MeshOf) -> None:
    shardprop.register_rule(ops.pair.default, "... -> ..., ...")
    x = spec_of(mesh_of(4), (8, 8), [S(1)])
    assert shardprop.propagate(ops.pair.default, x, True).outputs == ((S(1),), (S(1),))


def test_the_decorator_returns_the_function() -> None:
    rule = elementwise()
    assert shardprop.register_single_dim_rule(step)(rule) is rule


def test_unregister_restores_what_was_there(mesh_of: MeshOf) -> None:
    before = state()
    shardprop.register_single_dim_rule(aten.mm.default, override=True)(lambda *_: [])
    x = spec_of(mesh_of(2), (4, 4), [S(0)])
    assert shardprop.propagate(aten.mm.default, x, x).outputs == ((R,),)
    shardprop.unregister(aten.mm.default)
    assert state() == before
    assert shardprop.propagate(aten.mm.default, x, x).outputs != ((R,),)


def test_override_of_a_registered_rule_is_undone_to_torchs() -> None:
    before = state()
    shardprop.register_single_dim_rule(step)(elementwise())
    shardprop.register_single_dim_rule(step, override=True)(lambda *_: [])
    shardprop.unregister(step)
    assert state() == before


@pytest.mark.parametrize("op", [aten._softmax.default, aten.sort.default], ids=str)
def test_a_rule_takes_the_place_of_one_of_another_kind(mesh_of: MeshOf, op: Any) -> None:
    before = state()
    args = (0, False)
    shardprop.register_single_dim_rule(op, override=True)(lambda *_: [])
    x = spec_of(mesh_of(2), (4, 4), [S(1)])
    assert shardprop.propagate(op, x, *args).operands == ((R,),)
    shardprop.unregister(op)
    assert state() == before


def test_temporary_rules_nest_and_survive_exceptions() -> None:
    shardprop.register_single_dim_rule(step)(elementwise())
    before = state()
    with pytest.raises(KeyError), shardprop.temporary_rules():
        shardprop.unregister(step)
        with shardprop.temporary_rules():
            shardprop.register_single_dim_rule(ops.mix.default)(elementwise())
        assert torch_registry.single_dim_entry(ops.mix.default) is None
        assert torch_registry.single_dim_entry(ops.step.default) is None
        raise KeyError
    assert [set(table) for table in state()] == [set(table) for table in before]
    assert torch_registry.single_dim_entry(ops.step.default) is not None


def test_decisions_made_before_do_not_outlive_a_registration(mesh_of: MeshOf) -> None:
    x = distribute_tensor(torch.randn(8, 8), mesh_of(4), [Shard(0)])
    for context in (shardprop.enabled(strict=True), shardprop.temporary_rules()):
        with context:
            shardprop.register_single_dim_rule(step)(elementwise())
            assert step(x, x).placements == (S(0),)
            shardprop.register_single_dim_rule(step, override=True)(lambda *_: [])
            assert step(x, x).placements == (R,)
            shardprop.unregister(step)
            with pytest.raises(NotImplementedError, match="does not have a sharding strategy"):
                step(x, x)


@pytest.mark.parametrize("on", [True, False], ids=["core", "torch alone"])
@pytest.mark.parametrize(
    ("position", "values"),
    [
        (0, (0, 1)),
        (1, (0.5, 1.5)),
        (2, ("a", "b")),
        (3, (True, False)),
        (4, ([1, 2], [2, 1])),
        ("k", (2, 1)),
        ("t", ("a", "b")),
    ],
    ids=["int", "float", "str", "bool", "ints", "keyword int", "keyword str"],
)
def test_cached_decisions_are_told_apart_by_each_argument(
    mesh_of: MeshOf, on: bool, position: Any, values: tuple[Any, Any]
) -> None:
    def rows(op: Any, args: Any, kwargs: Any) -> list[list[Any]]:
        given = args[1:][position] if isinstance(position, int) else kwargs.get(position)
        return [] if given == values[0] else [[H(0)] * 2]

    shardprop.register_single_dim_rule(ops.statics.default)(rows)
    x = distribute_tensor(torch.randn(8, 8), mesh_of(4), [Shard(0)])
    shardprop.enable() if on else None
    try:
        for _ in range(3):
            for value, wanted in zip(values, (R, S(0)), strict=True):
                args: list[Any] = [7, 7.0, "", False, [7]]
                kwargs = {}
                if isinstance(position, int):
                    args[position] = value
                else:
                    kwargs[position] = value
                assert ops.statics(x, *args, **kwargs).placements == (wanted,)
    finally:
        shardprop.disable()


def test_an_optional_operand_is_not_taken_for_the_next_one(mesh_of: MeshOf) -> None:
    seen = []

    def rows(op: Any, args: Any, kwargs: Any) -> list[list[Any]]:
        seen.append([x is None for x in args])
        return [[H(0)] * 3]

    shardprop.register_single_dim_rule(ops.between.default)(rows)
    x = distribute_tensor(torch.randn(8, 8), mesh_of(4), [Shard(0)])
    with shardprop.enabled(strict=True):
        ops.between(x, x, None), ops.between(x, None, x)
    assert seen == [[False, False, True], [False, True, False]]


def test_keyword_operands_have_the_order_of_the_schema(mesh_of: MeshOf) -> None:
    x, b, a = (spec_of(mesh_of(2), (4, 4), [p]) for p in (S(0), S(1), R))
    shardprop.register_single_dim_rule(ops.keyed.default)(lambda *_: [[S(0), S(0), S(1), R]])
    for kwargs in ({"b": b, "a": a}, {"a": a, "b": b}):
        decision = shardprop.propagate(ops.keyed.default, x, **kwargs)
        assert decision.outputs == ((S(0),),)
        assert decision.cost == 0


def test_keyword_operands_stay_where_they_are(mesh_of: MeshOf) -> None:
    """torch's dispatcher does not move them, whatever is decided."""
    shardprop.register_single_dim_rule(ops.mix.default)(elementwise())
    x, w = (spec_of(mesh_of(4), shape, [p]) for shape, p in (((64, 64), S(0)), ((64, 64), S(1))))
    assert shardprop.propagate(ops.mix.default, x, x, w=w).operands == ((S(1),),) * 3


def test_written_operands_stay_where_they_are(mesh_of: MeshOf) -> None:
    shardprop.register_single_dim_rule(scale_into)(elementwise(0))
    x, y = spec_of(mesh_of(4), (64, 64), [S(0)]), spec_of(mesh_of(4), (8, 8), [S(1)])
    assert shardprop.propagate(ops.scale_into.default, x, y).operands == ((S(1),),) * 2


def test_a_written_operand_on_another_mesh_is_refused_in_torchs_words(mesh_of: MeshOf) -> None:
    """It stays where it is, but that is not what is wrong."""
    shardprop.register_single_dim_rule(ops.mix.default)(elementwise())

    def message() -> str:
        x, y = (distribute_tensor(torch.ones(8, 8), mesh_of(n), [S(0)]) for n in (2, 4))
        with pytest.raises(RuntimeError) as caught:
            ops.mix_(x, y)
        return str(caught.value)

    alone = message()
    with shardprop.enabled():
        assert message() == alone


def test_the_notation_is_told_the_outputs_that_a_decision_has_found_out(mesh_of: MeshOf) -> None:
    runs: list[int] = []

    def split(x: torch.Tensor, heads: int) -> torch.Tensor:
        runs.append(heads)
        return x.new_empty(x.shape[0], heads, x.shape[1] // heads)

    with torch.library._scoped_library("shardprop_heads", "DEF") as library:
        library.define("split(Tensor x, int heads) -> Tensor")
        library.impl("split", split, "Meta")
        op = torch.ops.shardprop_heads.split.default
        shardprop.register_rule(op, "b (h d) -> b h d")
        runs.clear()
        decision = shardprop.propagate(op, spec_of(mesh_of(2), (8, 12), [S(1)]), 4)
        shardprop.unregister(op)
    assert decision.outputs == ((S(1),),)
    assert runs == [4]


def test_variants_get_their_rules(mesh_of: MeshOf) -> None:
    shardprop.register_single_dim_rule(ops.mix.default)(
        lambda op, args, kwargs: [[S(0), S(0), S(0)], [P, P, R], [S(1), R, S(1)]]
    )
    x = spec_of(mesh_of(2), (4, 4), [S(0)])
    p = spec_of(mesh_of(2), (4, 4), [P])
    r = spec_of(mesh_of(2), (4, 4), [R])
    assert shardprop.propagate(ops.mix_.default, x, r).operands == ((S(0),), (S(0),))
    assert shardprop.propagate(ops.mix_.default, p, r).outputs == ((P,),)
    assert shardprop.propagate(ops.mix.out, p, r, out=x).operands == ((S(0),),) * 3
    rows = known(torch_registry.single_dim_entry(ops.mix_.default)).func(
        ops.mix_.default, *metas(x, r)
    )
    assert rows == [[S(0), S(0), S(0)], [P, P, R]]
    rows = known(torch_registry.single_dim_entry(ops.mix.out)).func(
        ops.mix.out, *metas(x, r, out=x)
    )
    assert rows == [[S(0), S(0), S(0), S(0)], [P, P, R, P], [S(1), R, S(1), S(1)]]


def metas(*args: Any, **kwargs: Any) -> tuple[Any, Any]:
    return tuple(x.tensor_meta for x in args), {k: x.tensor_meta for k, x in kwargs.items()}


def torch_rule(op: OpOverload) -> Callable[..., Any]:
    """The function that torch's registry has for an op."""
    return known(torch_registry.single_dim_entry(op)).func


def test_variants_of_several_outputs_and_of_custom_ops() -> None:
    shardprop.register_single_dim_rule([ops.pair.default, step])(elementwise())
    for op in (ops.pair.out, ops.step_.default, ops.step_out.default):
        assert torch_registry.single_dim_entry(op) is not None
    assert torch_registry.single_dim_entry(ops.mix.three) is None


def test_a_rule_of_a_list_op_places_each_element(mesh_of: MeshOf) -> None:
    shardprop.register_single_dim_rule(aten._foreach_sqrt.default, override=True)(no_dim(0))
    tensors = [spec_of(mesh_of(4), (8, 8), [S(dim)]) for dim in (0, 1)]
    found = shardprop.propagate(aten._foreach_sqrt.default, tensors)
    assert found.operands == found.outputs == ((R,), (S(1),))


@pytest.mark.skipif(not _torch.IS_215_OR_LATER, reason="torch 2.13 places no lists by rows")
def test_torch_is_shown_rows_of_an_op_that_returns_a_list() -> None:
    """How many outputs there are, torch does not tell a rule."""
    rows: list[list[Any]] = [[S(0)] * 4, [R] * 4]
    shardprop.register_single_dim_rule(ops.chunks.default)(lambda *_: rows)
    assert torch_rule(ops.chunks.default)(ops.chunks.default, (meta_of((8, 8)), 3), {}) == rows


@pytest.mark.skipif(not _torch.IS_215_OR_LATER, reason="torch 2.13 places no lists by rows")
@pytest.mark.parametrize("pieces", [2, 3, 4])
def test_rows_of_an_op_that_returns_a_list_name_each_of_its_outputs(
    mesh_of: MeshOf, pieces: int
) -> None:
    shardprop.register_single_dim_rule(ops.chunks.default)(lambda *_: [[S(0)] * 4, [R] * 4])
    spec = spec_of(mesh_of(4), (8, 8), [S(0)])
    if pieces == 3:
        found = shardprop.propagate(ops.chunks.default, spec, pieces)
        assert found.outputs == ((S(0),),) * 3
        return
    message = rf"row 0: Expected {pieces} outputs and 1 operands \('x'\), got 4 placements"
    with pytest.raises(ShardpropError, match=message):
        shardprop.propagate(ops.chunks.default, spec, pieces)


def test_variants_go_with_the_op() -> None:
    before = state()
    shardprop.register_single_dim_rule(ops.mix.default)(elementwise())
    shardprop.unregister(ops.mix.default)
    assert state() == before


def test_variants_are_optional() -> None:
    shardprop.register_single_dim_rule(step, variants=False)(elementwise())
    assert torch_registry.single_dim_entry(ops.step_.default) is None


@pytest.mark.parametrize("first", [True, False], ids=["before", "after"])
def test_a_variants_own_rule_comes_first(first: bool) -> None:
    own = elementwise()

    def register_own() -> None:
        shardprop.register_single_dim_rule(ops.mix_.default)(own)

    if first:
        register_own()
    shardprop.register_single_dim_rule(ops.mix.default)(elementwise())
    if not first:
        register_own()
    assert known(torch_registry.single_dim_entry(ops.mix_.default)).function is own
    shardprop.unregister(ops.mix_.default)
    assert known(torch_registry.single_dim_entry(ops.mix_.default)).derived_from is ops.mix.default


def test_variants_that_torch_has_a_rule_for_keep_it_unless_overridden() -> None:
    torchs = torch_registry.single_dim_entry(aten.add_.Tensor)
    shardprop.register_single_dim_rule(aten.mul.Tensor, override=True, variants=False)(
        elementwise()
    )
    assert torch_registry.single_dim_entry(aten.mul_.Tensor).__class__ is torchs.__class__
    shardprop.register_single_dim_rule(aten.add.Tensor, override=True)(elementwise())
    assert known(torch_registry.single_dim_entry(aten.add_.Tensor)).derived_from is aten.add.Tensor
    shardprop.unregister(aten.add.Tensor)
    assert torch_registry.single_dim_entry(aten.add_.Tensor) is torchs


def test_register_sharding_works_beside(mesh_of: MeshOf) -> None:
    shardprop.register_single_dim_rule(ops.mix.default)(elementwise())
    prop = _torch.propagator()
    try:
        register_sharding(ops.step.default)(lambda x, y: [([S(0)], [S(0), S(0)])])
        x = distribute_tensor(torch.randn(8, 8), mesh_of(4), [Shard(0)])
        with shardprop.enabled(strict=True):
            assert step(x, x).placements == ops.mix(x, x).placements == (S(0),)
            assert shardprop.stats().delegated
    finally:
        prop.op_strategy_funcs.pop(ops.step.default)
        prop.op_to_schema_info.pop(ops.step.default)


@pytest.mark.parametrize("how", ["register_sharding", "register_single_dim_strategy"])
@pytest.mark.parametrize("on", [True, False], ids=["core", "torch alone"])
def test_the_last_registration_counts_whoever_makes_it(
    mesh_of: MeshOf, how: str, on: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """torch alone would go on with ours, since it asks single-dim rules first."""
    prop = _torch.propagator()
    op = ops.step.default
    x = distribute_tensor(torch.randn(8, 8), mesh_of(4), [Shard(0)])
    shardprop.enable() if on else None
    try:
        shardprop.register_single_dim_rule(step)(lambda *_: [])
        assert step(x, x).placements == (R,)
        if how == "register_sharding":
            register_sharding(op)(lambda x, y: [([S(0)], [S(0), S(0)]), ([R], [R, R])])
        else:
            register_single_dim_strategy(op)(lambda *_: [[S(0)] * 3])
        assert "gives way" in caplog.text
        assert step(x, x).placements == (S(0),)
        with pytest.raises(ShardpropError, match="got one that torch decides by"):
            shardprop.register_single_dim_rule(step)(elementwise())
        with pytest.raises(ShardpropError, match="got one without"):
            shardprop.unregister(step)
        shardprop.register_single_dim_rule(step, override=True)(lambda *_: [])
        assert step(x, x).placements == (R,)
        shardprop.unregister(step)
        assert step(x, x).placements == (S(0),)
    finally:
        shardprop.disable()
        for table in (
            prop.op_strategy_funcs,
            prop.op_single_dim_strategy_funcs,
            prop.op_to_schema_info,
            prop.op_to_schema_info_for_single_dim_strategy,
        ):
            table.pop(op, None)


def test_a_derived_rule_gives_way_too() -> None:
    prop = _torch.propagator()
    shardprop.register_single_dim_rule(ops.mix.default)(elementwise())
    try:
        register_single_dim_strategy(ops.mix_.default)(lambda *_: [])
        shardprop.register_single_dim_rule(step)(elementwise())
        assert not hasattr(torch_registry.single_dim_entry(ops.mix_.default), "derived_from")
    finally:
        prop.op_single_dim_strategy_funcs.pop(ops.mix_.default)


def test_threads_register_and_decide_at_once(mesh_of: MeshOf) -> None:
    mesh, problems = mesh_of(2), []
    all_ops = [ops.mix.default, ops.step.default, ops.pair.default, ops.join.default]
    barrier = threading.Barrier(len(all_ops))

    def work(op: Any) -> None:
        try:
            barrier.wait()
            for _ in range(20):
                shardprop.register_single_dim_rule(op)(lambda *_: [])
                x = spec_of(mesh, (4, 4), [R])
                if op is ops.step.default:
                    assert shardprop.propagate(op, x, x).outputs == ((R,),)
                shardprop.unregister(op)
        except Exception as error:
            problems.append(error)

    before = state()
    threads = [threading.Thread(target=work, args=(op,)) for op in all_ops]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert problems == []
    assert state() == before


def test_coverage_names_registered_rules() -> None:
    assert coverage().named("shardprop_ops.step.default").ops == ()
    shardprop.register_single_dim_rule(step)(elementwise())
    (found,) = coverage().named("shardprop_ops.step.default").ops
    assert found.decider is Decider.REGISTERED_RULE
    assert found.how is not None and "custom_ops.py" not in found.how
    assert "test_registration.py" in found.how
    assert coverage().named("shardprop_ops.step_.default").ops[0].decider is Decider.REGISTERED_RULE


def test_rules_of_ops_inside_decompositions_are_seen(mesh_of: MeshOf) -> None:
    """aten.sgn_ or the like come apart into ops that may be registered anew."""
    x = spec_of(mesh_of(2), (4, 4), [S(0)])
    with shardprop.enabled():
        schema = torch_registry.op_schema(aten.hardswish_backward.default, (x, x), {})
        hook = _torch.propagator().propagate_op_sharding_non_cached
        assert hook(schema).output_spec.placements == (S(0),)
        names = [op for op in (aten.where.self, aten.mul.Tensor)]
        shardprop.register_single_dim_rule(names, override=True)(lambda *_: [])
        assert hook(schema).output_spec.placements == (R,)


def values(tensor: Any) -> torch.Tensor:
    full = tensor.full_tensor()
    return full._local_tensors[0] if hasattr(full, "_local_tensors") else full


@pytest.mark.slow
@pytest.mark.parametrize("order", [(0, 1), (1, 0)], ids=["first", "second"])
def test_values_are_right_for_every_form_of_op(order: tuple[int, int]) -> None:
    """One process stands in for eight ranks, so that what is computed can be compared."""
    from torch.distributed._local_tensor import LocalTensorMode
    from torch.distributed.device_mesh import init_device_mesh

    shardprop.register_single_dim_rule([ops.mix.default, step])(elementwise())
    shardprop.register_single_dim_rule(scale_into)(elementwise(0))
    shardprop.register_single_dim_rule(ops.join.default)(joining)
    shardprop.register_single_dim_rule(ops.pair.default)(
        lambda op, args, kwargs: [[H(d), H(d) if args[1] else None, H(d)] for d in range(2)]
    )
    whole = torch.arange(64.0).reshape(8, 8)
    with LocalTensorMode(frozenset(range(8))), shardprop.enabled(strict=True):
        mesh = init_device_mesh("cpu", (2, 4))

        def laid_out(*placements: Any) -> DTensor:
            return distribute_tensor(whole.clone(), mesh, placements)

        x, y = laid_out(S(0), S(1)), laid_out(S(1), R)
        x, y = (x, y) if order == (0, 1) else (y, x)
        checks: list[tuple[Any, torch.Tensor]] = [
            (ops.mix(x, y, s=2.0), whole * 4),
            (ops.mix(x, y, w=laid_out(S(0), S(0))), 2 * whole * whole),
            (step(x, y), whole * 2),
            (ops.join([x, y], None, 0), torch.cat([whole] * 2)),
            (ops.join([x, y], y, 1), torch.cat([whole] * 3, 1)),
            (ops.pair(x, True)[1], whole * 2),
            (ops.pair(x, False)[0], whole + 1),
        ]
        assert ops.pair(x, False)[1] is None
        for result, wanted in checks:
            assert torch.equal(values(result), wanted)
        for placements in ((S(0), S(1)), (S(1), S(0)), (R, S(1)), (S(0), S(0))):
            target = laid_out(*placements)
            ops.mix_(target, y)
            assert torch.equal(values(target), whole * 2)
            target = laid_out(*placements)
            ops.mix(x, y, out=target)
            assert torch.equal(values(target), whole * 2)
            assert target.placements == placements
            target = laid_out(*placements)
            step_(target, y)
            assert torch.equal(values(target), whole * 2)
            step_out(x, y, target)
            assert torch.equal(values(target), whole * 2)
            target = laid_out(*placements)
            scale_into(x, target)
            assert torch.equal(values(target), whole * whole)
            first, second = laid_out(*placements), laid_out(*placements)
            ops.pair.out(x, True, first=first, second=second)
            assert torch.equal(values(first), whole + 1)
            assert torch.equal(values(second), whole * 2)
