"""The bytes that a graph is said to hold, beside those that its function allocates."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx

from shardprop.erasure import LocalGraphs, footprint_of
from shardprop.erasure.generated import generated

from .allocated import allocated

aten = torch.ops.aten
X = torch.ones(64, 64)
BYTES = X.numel() * 4


def chain(x: torch.Tensor) -> list[torch.Tensor]:
    return [x.exp().sin().cos()]


def branches(x: torch.Tensor) -> list[torch.Tensor]:
    early = x.exp()
    late = early.sin().cos().tan()
    return [late + early]


def views(x: torch.Tensor) -> list[torch.Tensor]:
    made = x.exp()
    rows = made.view(-1)[: made.numel() // 2]
    return [rows.cos(), x.t().sin()]


def several(x: torch.Tensor) -> list[torch.Tensor]:
    normed, mean, _ = aten.native_layer_norm.default(x, [64], None, None, 1e-5)
    return [normed.sum(), mean]


def parts(x: torch.Tensor) -> list[torch.Tensor]:
    first, second = x.exp().split(32)
    return [first.cos(), second.sin()]


def chosen(x: torch.Tensor) -> list[torch.Tensor]:
    values, _ = aten.max.dim(x, 0)
    return [x.exp() * values]


@pytest.mark.parametrize("program", [chain, branches, views, several, parts, chosen])
def test_the_most_at_once_is_what_is_allocated(
    program: Callable[[torch.Tensor], list[torch.Tensor]],
) -> None:
    module = make_fx(program)(X)
    run = generated(module, "forward").run
    run([X])
    made, most = allocated(lambda: run([X]))
    found = footprint_of(LocalGraphs(module.graph, None, len(made)))
    assert found.forward == most
    assert (found.kept, found.backward) == (0, 0)


def ahead(x: torch.Tensor) -> list[Any]:
    made = x.exp()
    # What is written, a result, and what is kept: one value, as it is and turned, and an operand.
    return [x + 1, made.sum(), made, x, made.t()]


def back(made: torch.Tensor, x: torch.Tensor, turned: torch.Tensor, tangent: torch.Tensor) -> Any:
    return [(made * x * turned) * tangent]


FORWARD = make_fx(ahead)(X).graph
BACKWARD = make_fx(back)(X, X, X.t(), torch.ones(())).graph


def test_what_is_kept_for_the_backward_is_counted_once() -> None:
    found = footprint_of(LocalGraphs(FORWARD, BACKWARD, 1, written=1))
    assert found.kept == BYTES
    assert found.forward == 2 * BYTES + 4
    # The result and its gradient; what was kept, and two products.
    assert found.backward == 2 * 4 + 3 * BYTES


def test_gradients_that_do_not_come_in_take_nothing() -> None:
    found = footprint_of(LocalGraphs(FORWARD, BACKWARD, 1, written=1, absent=[0]))
    assert found.backward == 4 + 3 * BYTES


def test_what_a_graph_has_of_its_own_is_not_counted() -> None:
    own = torch.ones(64, 64)
    module = make_fx(lambda x: [x + own + own.t()])(X)
    assert module.graph.find_nodes(op="get_attr")
    assert footprint_of(LocalGraphs(module.graph, None, 1)).forward == 2 * BYTES
