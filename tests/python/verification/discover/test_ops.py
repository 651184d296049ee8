"""Ops whose rules are known, found without being told."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from shardprop import _torch
from shardprop.verification.calls.samples import Samples
from shardprop.verification.discover.discovery import Wanted, discover
from shardprop.verification.discover.results import Discovery

from . import gated_rowscale

aten = torch.ops.aten

# What torch 2.15 claims of uneven shards, of which the average of averages is no average.
WRONG_IN_215 = {aten.mean.dim: {"S(0) -> P(avg)", "S(1) -> P(avg)"}}

# The rule of each op. Beyond the examples of docs/notation.md: what moves data only passes the
# maximum and the minimum on, and weights of a layer norm are whole whatever their shape.
RULES = {
    aten.mm.default: "*m k, *k n -> m n",
    aten.addmm.default: "+m n, *m k, *k n -> m n",
    aten.cat.default: "[+... n@dim!] -> ... n@dim; P(max) -> P(max); P(min) -> P(min)",
    aten._softmax.default: "... n@dim! -> ... n@dim",
    aten.native_layer_norm.default: (
        "... n#normalized_shape!, _, _ -> "
        "... n#normalized_shape, ... 1#normalized_shape, ... 1#normalized_shape; "
        "R, P(avg), P(avg) -> P(avg), R, R; "
        "R, R, P(max) -> P(max), R, R; R, R, P(min) -> P(min), R, R"
    ),
    aten.cumsum.default: "+... n@dim! -> ... n@dim",
    aten.gather.default: (
        "+... n@dim!, ... m@dim -> ... m@dim; P(max), R -> P(max); P(min), R -> P(min)"
    ),
    aten.amax.default: "... n@dim:max -> ...; P(max) -> P(max)",
    aten.mean.dim: "+... n@dim:avg -> ...",
    aten.sum.dim_IntList: "+... n@dim -> ...",
    aten.mul.Tensor: "*..., *... -> ...",
    aten.stack.default: "[+...] -> ... n@dim; P(max) -> P(max); P(min) -> P(min)",
}


@pytest.fixture(scope="module", autouse=True)
def _one_thread() -> Iterator[None]:
    """Small tensors: a second thread is only waited for."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def samples() -> Samples:
    return Samples(list(RULES))


@pytest.fixture(scope="module", params=RULES, ids=str)
def found(request: pytest.FixtureRequest, samples: Samples) -> Discovery:
    op = request.param
    return discover(op, samples.calls(op), Wanted(diff=True))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_the_rule_is_found(found: Discovery) -> None:
    op = next(op for op in RULES if str(op) == found.op)
    assert found.rule == RULES[op]
    # The op's present rule has nothing that this one has not, be it right or wrong.
    present = {one.row for one in found.differences if one.only_in != "discovered"}
    assert present == (WRONG_IN_215.get(op, set()) if _torch.IS_215_OR_LATER else set())
    assert not any(one.holds for one in found.differences if one.only_in != "discovered")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_rows_beyond_torch_are_partials(samples: Samples) -> None:
    """Of a scan torch passes no pending sum on, which is linear all the same."""
    op = aten.cumsum.default
    beyond = [
        one.row
        for one in discover(op, samples.calls(op), Wanted(diff=True)).differences
        if one.only_in == "discovered"
    ]
    # torch's rule of 2.15 has them.
    expected = [] if _torch.IS_215_OR_LATER else ["P(avg) -> P(avg)", "P(sum) -> P(sum)"]
    assert sorted(beyond) == expected


@pytest.mark.slow
def test_an_op_of_a_user() -> None:
    from shardprop.verification.calls.call import Call

    op = torch.ops.discovered.gated_rowscale.default
    calls = [Call(op, args, kwargs) for args, kwargs in gated_rowscale.samples(op)]
    found = discover(op, calls[:2])
    assert found.rule == "*... n@dim!, ... n@dim, *w! -> ... n@dim"
    assert [(one.name, one.calls) for one in found.factors] == [("...", found.calls)]


def test_what_one_call_shows_is_no_more_than_that() -> None:
    """Made-up calls with other dims tell a rule for all dims from one for the last."""
    from shardprop.verification.calls.call import Call

    x = torch.randn(4, 6, 8, dtype=torch.float64)
    op = aten.cumsum.default
    assert discover(op, [Call(op, (x, -1))]).rule == "+... n@dim! -> ... n@dim"


@torch.library.custom_op("discovered::doubled", mutates_args=())
def doubled(x: torch.Tensor) -> torch.Tensor:
    """Each row twice, exponentiated."""
    return x.repeat_interleave(2, 0).exp()


def test_what_the_notation_cannot_say_is_told() -> None:
    """A dim that becomes twice as long may be cut where it divides. A pending sum becomes a pending
    product."""
    from shardprop.verification.calls.call import Call

    op = torch.ops.discovered.doubled.default
    x = torch.randn(6, 4, dtype=torch.float64)
    found = discover(op, [Call(op, (x,))])
    assert found.rule is not None
    pattern, *rows = found.rule.split("; ")
    assert pattern.startswith("w! m -> ")
    assert rows == ["P(max) -> P(max)", "P(min) -> P(min)", "P(sum) -> P(product)"]
    left = {one.row: one.fails_on for one in found.left_out}
    assert left["S(0) -> S(0)"] == "(5x3) on 2 ranks"


def test_no_call_is_no_rule() -> None:
    found = discover(aten.mm.default, [])
    assert found.rule is None
    assert "give others with --samples" in (found.error or "")
