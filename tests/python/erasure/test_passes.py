"""Each pass keeps what a graph computes, to the bit, and does what it is for."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import fx
from torch.fx.experimental.proxy_tensor import make_fx

from shardprop.erasure.generated import generated
from shardprop.erasure.passes import PASSES, cleaned

aten = torch.ops.aten
collective = torch.ops._c10d_functional


def traced(function: Callable[..., Any], *operands: torch.Tensor) -> fx.GraphModule:
    module: fx.GraphModule = make_fx(function, tracing_mode="fake")(*operands)
    (output,) = module.graph.find_nodes(op="output")
    made = output.args[0]
    output.args = (list(made) if isinstance(made, (list, tuple)) else [made],)
    return module


def ops_of(module: fx.GraphModule) -> list[str]:
    return [node.target.__name__ for node in module.graph.nodes if node.op == "call_function"]


def clean(module: fx.GraphModule, *passes: str) -> fx.GraphModule:
    values = [node.meta["val"] for node in module.graph.find_nodes(op="placeholder")]
    with values[0].fake_mode:
        cleaned(module.graph, passes)
    module.recompile()
    return module


def results(module: fx.GraphModule, *operands: torch.Tensor) -> list[tuple[Any, ...]]:
    made = generated(module, "forward").run([*operands])
    return [(x.tolist(), x.stride(), x.dtype) for x in made]


def same_after(
    passes: tuple[str, ...], function: Callable[..., Any], *operands: torch.Tensor
) -> list[str]:
    """The ops that are left."""
    before = results(traced(function, *operands), *operands)
    module = clean(traced(function, *operands), *passes)
    assert results(module, *operands) == before
    return ops_of(module)


@pytest.mark.parametrize("pieces", [2, 3])
@pytest.mark.parametrize("dim", [0, 1, 2])
@pytest.mark.parametrize("target", [0, 1, -1])
def test_pieces_are_moved_at_once(pieces: int, dim: int, target: int) -> None:
    shape = [4, 6, 12]
    shape[dim] = 6
    x = torch.randn(shape).transpose(0, 1).contiguous().transpose(0, 1)
    left = same_after(("pieces",), lambda x: torch.cat(x.split(6 // pieces, dim), target).sin(), x)
    assert not {"split.Tensor", "cat.default"} & {*left}


def test_pieces_that_are_not_all_or_not_alike_stay() -> None:
    x = torch.randn(7, 4)
    for function in (
        lambda x: torch.cat(x.split(2), 1 - 1),  # the last is smaller
        lambda x: torch.cat(x[:6].split(2)[::-1], 1),
        lambda x: torch.cat(x[:6].split(2)[:2], 1),
    ):
        assert "cat.default" in same_after(("pieces",), function, x)


def test_views_that_change_nothing_go() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        y = x.t().t().view(4, 6).view(24).view(2, 12).expand(2, 12).detach()
        return y.transpose(0, 1).transpose(0, 1) + 1

    left = same_after(("views",), function, torch.randn(4, 6))
    assert left == ["view.default", "add.Tensor"]


def test_results_stay_other_tensors_than_operands() -> None:
    x = torch.randn(3, 4)
    module = clean(
        traced(lambda x: [x.detach(), x.t().t(), x.clone(), x.clone().view(12)], x), *PASSES
    )
    made = generated(module, "forward").run([x])
    assert all(each is not x for each in made)
    assert [each.data_ptr() == x.data_ptr() for each in made] == [True, True, False, False]


def test_copies_that_nobody_tells_go() -> None:
    left = same_after(("copies",), lambda x: x.clone().sin(), torch.randn(3, 4))
    assert left == ["sin.default"]
    as_rows = {"memory_format": torch.contiguous_format}
    left = same_after(("copies",), lambda x: x.t().clone(**as_rows).sin(), torch.randn(3, 4))
    assert "clone.default" in left


def bucketed(function: Callable[..., Any], *operands: torch.Tensor) -> list[tuple[str, int]]:
    """The collectives that are left, and how many elements they take."""
    module = clean(traced(function, *operands), "buckets")
    return [
        (node.target.__name__.partition(".")[0], node.args[0].meta["val"].numel())
        for node in module.graph.nodes
        if node.target in (collective.all_reduce.default, collective.all_gather_into_tensor.default)
    ]


def reduced(x: torch.Tensor, op: str = "sum", group: str = "0") -> torch.Tensor:
    made: torch.Tensor = collective.wait_tensor(collective.all_reduce(x, op, group))
    return made


def gathered(x: torch.Tensor) -> torch.Tensor:
    made: torch.Tensor = collective.wait_tensor(collective.all_gather_into_tensor(x, 4, "0"))
    return made


def test_small_collectives_are_made_one() -> None:
    def at_the_first(x: torch.Tensor) -> list[torch.Tensor]:
        first = reduced(x).sin()
        return [first, reduced(x.t().cos()), reduced(x * 2) + first]

    def at_the_last(x: torch.Tensor) -> list[torch.Tensor]:
        first, drawn = reduced(x), torch.rand_like(x)  # which is not brought before
        second = reduced(drawn)
        return [first + 1, second + first]

    x = torch.randn(4, 4)
    assert bucketed(at_the_first, x) == [("all_reduce", 48)]
    assert bucketed(at_the_last, x) == [("all_reduce", 32)]


@pytest.mark.parametrize(
    "function",
    [
        lambda x: reduced(reduced(x).sin()),
        lambda x: [reduced(x), reduced(x * 2, "max")],
        lambda x: [reduced(x), reduced(x * 2, "sum", "1")],
        lambda x: [reduced(x), reduced(x.double())],
        lambda x: [reduced(x), gathered(x)],
        lambda x: [reduced(x), reduced(x.repeat(256, 256))],
        lambda x: [reduced(x), reduced(x[:0])],
        lambda x: [reduced(x).sin() + 1, reduced(torch.rand_like(x) + 1)],
    ],
)
def test_collectives_that_differ_or_are_large_stay(function: Callable[..., Any]) -> None:
    assert len(bucketed(function, torch.randn(4, 4))) == 2


def test_what_comes_out_of_a_bucket_lies_as_without(process_group: None) -> None:
    """Each in memory of its own, in a row."""

    def function(x: torch.Tensor) -> list[torch.Tensor]:
        return [gathered(x), gathered(x + 1)]

    module = clean(traced(function, torch.randn(1, 5)), "buckets")
    values = [node.meta["val"] for node in module.graph.output_node().args[0]]  # type: ignore[union-attr]
    assert [value.stride() for value in values] == [(5, 1)] * 2
    assert len({value.untyped_storage()._cdata for value in values}) == 2


def test_a_bucket_is_no_larger_than_it_may_be() -> None:
    def function(x: torch.Tensor) -> list[torch.Tensor]:
        return [gathered(x * number) for number in range(9)]

    # 256 KiB each, of what is gathered, and four of them in one.
    taken = [size for _, size in bucketed(function, torch.randn(128, 128))]
    assert taken == [4 * 128 * 128, 4 * 128 * 128, 128 * 128]


OPS: list[Callable[[torch.Tensor], torch.Tensor]] = [
    lambda x: x.t(),
    lambda x: x.clone(),
    lambda x: x.contiguous(),
    lambda x: x.reshape(x.numel()).view(x.shape),
    lambda x: x.detach(),
    lambda x: torch.cat(x.split(2, 0), 1).reshape(x.shape),
    lambda x: torch.cat(x.split(2, 1), 0).reshape(x.shape),
    lambda x: x.expand(x.shape),
    lambda x: x.unsqueeze(0).transpose(0, 1).squeeze(1),
    lambda x: x.sin(),
]


@pytest.mark.parametrize("seed", range(40))
def test_random_graphs_compute_the_same(seed: int) -> None:
    chance = random.Random(seed)
    chosen = [chance.choice(OPS) for _ in range(12)]
    returned = [chance.random() < 0.2 for _ in chosen]

    def function(x: torch.Tensor) -> list[torch.Tensor]:
        made = []
        for op, is_returned in zip(chosen, returned, strict=True):
            x = op(x)
            made += [x] if is_returned else []
        return [*made, x + 1]

    same_after(PASSES, function, torch.randn(6, 6))


def test_a_function_lets_go_of_values_and_holds_what_is_no_literal() -> None:
    inf, none = float("inf"), None

    def function(x: torch.Tensor) -> list[Any]:
        y = torch.full_like(x, inf) + x.to(torch.float64)
        return [y[1:, ::2], none, torch.where(x > 0, x, float("nan"))]

    x = torch.randn(4, 4)
    module = traced(function, x)
    run, text = generated(module, "forward")
    given = [x]
    made = run(given)
    assert given == [] and made[1] is None
    assert torch.equal(made[0], function(x)[0])
    assert "del " in text and text.startswith("def forward(_operands):\n    x_1, = _operands\n")
