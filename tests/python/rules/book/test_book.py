"""The rule book: what is in it, for which calls a row of it holds, and rules with its rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import Placement

import shardprop
from shardprop.model.question import question_of
from shardprop.rules import torch_registry
from shardprop.rules.book import book
from shardprop.rules.book.book import Book
from shardprop.rules.book.completed import CompletedFollowing, CompletedRows, completed
from shardprop.rules.book.entry import Entry
from shardprop.rules.follow_rule import Candidate, FollowRule
from shardprop.rules.kept_rows import KeptRows
from shardprop.rules.rule import Origin, RowsRule

from ...specs import P, R, S, meta_of, spec_of

MeshOf = Callable[..., DeviceMesh]

aten = torch.ops.aten
LERP, FILL = aten.lerp.Scalar, aten.masked_fill.Scalar
X = meta_of((4, 6))
WHOLE = meta_of((4, 6), torch.int64)
MASK = meta_of((4, 6), torch.bool)


def _entry(**changes: Any) -> Entry:
    given: dict[str, Any] = {
        "operands": ("self", "mask"),
        "inputs": (P, R),
        "outputs": (P,),
        "zero": None,
        "calls": 3,
        "runs": 40,
    }
    return Entry(**{**given, **changes})


def _book(**changes: Any) -> Book:
    return Book.of({str(FILL): [_entry(**changes)]}, ["2.15.0"])


ROW = [P, P, R]


def test_a_row_is_for_calls_with_the_same_operands() -> None:
    assert _book().rows(FILL, (X, MASK, 0), {}, [X]) == [ROW]
    assert _book(operands=("self",), inputs=(P,)).rows(FILL, (X, MASK, 0), {}, [X]) == []
    assert _book().rows(LERP, (X, X, 0), {}, [X]) == []


@pytest.mark.parametrize(("value", "rows"), [(0, [ROW]), (0.0, [ROW]), (1, []), (False, [])])
def test_a_row_may_ask_for_a_zero(value: Any, rows: list[list[Placement]]) -> None:
    assert _book(zero="value").rows(FILL, (X, MASK, value), {}, [X]) == rows


def test_a_default_is_a_value() -> None:
    entry = _entry(operands=("self",), inputs=(P,), zero="value")
    padded = Book.of({"aten.constant_pad_nd.default": [entry]}, ["2.15.0"])
    pad = aten.constant_pad_nd.default
    assert padded.rows(pad, (X, [1, 1]), {}, [X]) == [[P, P]]
    assert padded.rows(pad, (X, [1, 1]), {"value": 2.0}, [X]) == []


def test_what_is_pending_is_floating_point() -> None:
    assert _book().rows(FILL, (WHOLE, MASK, 0), {}, [WHOLE]) == []
    assert _book().rows(FILL, (X, MASK, 0), {}, [WHOLE]) == []


def test_outputs_are_those_of_the_row() -> None:
    assert _book().rows(FILL, (X, MASK, 0), {}, [X, X]) == []
    assert _book().rows(FILL, (X, MASK, 0), {}, [None]) == []
    absent = _book(outputs=(P, None))
    assert absent.rows(FILL, (X, MASK, 0), {}, [X, None]) == [[P, None, P, R]]
    assert absent.rows(FILL, (X, MASK, 0), {}, [X, X]) == []


def test_tensors_in_lists_have_no_rows() -> None:
    assert _book().rows(aten.cat.default, ([X, X],), {}, [X]) == []


def test_rows_are_in_force_under_releases_that_they_were_proved_under(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert Book.in_force() == Book.shipped()
    monkeypatch.setattr(book, "release", lambda: "2.99")
    Book.in_force.cache_clear()
    try:
        assert Book.in_force().entries == {}
    finally:
        Book.in_force.cache_clear()


def test_a_book_is_read_as_it_was_written() -> None:
    written = Book.of(
        {str(FILL): [_entry(), _entry(zero="value")], "none": []},
        ["2.13.0", "2.15.0"],
    )
    assert Book.from_text(written.text()) == written
    assert [*written.entries] == [str(FILL)]
    assert Book.from_text(Book.shipped().text()) == Book.shipped()


def test_what_another_torch_does_not_confirm_goes() -> None:
    both, here = _entry(), _entry(outputs=(R,))
    first = Book.of({str(FILL): [both, here], str(LERP): [both]}, ["2.15.0"])
    confirmed = first.confirmed({str(FILL): [_entry(calls=9)], "aten.new": [here]}, "2.13.0")
    assert confirmed.versions == ("2.15.0", "2.13.0")
    # An op that is not there stays; one of which nothing was proved here does not come.
    assert confirmed.entries == {str(FILL): (both,), str(LERP): (both,)}
    assert Book.of({str(FILL): [both]}, []).confirmed({str(FILL): []}, "2.13.0").entries == {}


class _Rule(RowsRule):
    origin = Origin.TORCH
    outputs = 1
    leaves_written = True

    def rows_of(self, op: Any, args: Any, kwargs: Any, meta: Any) -> list[list[Placement]]:
        return [[S(0), S(0), S(0)], [P, R, P]]


def test_a_rule_has_its_rows_and_those_that_it_lacks() -> None:
    rule = CompletedRows(_Rule(), _book())
    assert rule.rows_of(FILL, (X, MASK, 0), {}, X) == [[S(0)] * 3, [P, R, P], ROW]
    assert rule.leaves_written and rule.outputs == 1
    known = CompletedRows(_Rule(), _book(inputs=(R, P)))
    assert known.rows_of(FILL, (X, X, 0), {}, X) == [[S(0)] * 3, [P, R, P]]


def _follows(question: Any) -> Candidate:
    """All reduced, and sharded along the last mesh dim as the first operand is."""
    (first, *_), mesh_dims = question.operands, question.operands[0].mesh.ndim
    kept = (*[R] * (mesh_dims - 1), first.placements[-1])
    return Candidate((kept,), (kept,) * len(question.operands))


def test_a_rule_that_follows_its_operands_leaves_them_pending(mesh_of: MeshOf) -> None:
    mesh, rule = mesh_of(2, 2), CompletedFollowing(FollowRule(_follows), _book())

    def ways(first: Placement, second: Placement) -> list[tuple[Any, Any]]:
        operands = [spec_of(mesh, (4, 6), [each, S(0)]) for each in (first, second)]
        question = question_of(torch_registry.op_schema(FILL, (*operands, 0), {}), X)
        return [(each.outputs, each.operands) for each in rule.candidates(question)]

    plain = (((R, S(0)),), ((R, S(0)), (R, S(0))))
    assert ways(P, R) == [plain, (((P, S(0)),), ((P, S(0)), (R, S(0))))]
    assert ways(R, P) == ways(S(1), R) == [plain]


def test_a_rule_of_which_rows_are_left_out_stays_as_it_is() -> None:
    kept = KeptRows(_Rule())
    assert completed(kept, LERP) is kept
    other = _Rule()
    assert completed(other, aten.relu.default) is other
    assert isinstance(completed(other, LERP), CompletedRows)


def test_policy_optimal_keeps_sums_pending(mesh_of: MeshOf) -> None:
    """torch's rules reduce first, and so does policy optimal without the book."""
    mesh = mesh_of(8)
    pending, mask = spec_of(mesh, (64, 64), [P]), spec_of(mesh, (64, 64), [R], dtype=torch.bool)
    optimal: dict[str, Any] = {"policy": "optimal", "topology": "h100-nvlink"}
    for rules, stays in (("complete", True), ("torch", False)):
        with shardprop.enabled(**optimal, rules=rules):
            decided = shardprop.propagate(aten.where.self, mask, pending, pending)
            assert (decided.outputs == ((P,),)) is stays
    with shardprop.enabled():
        assert shardprop.propagate(aten.where.self, mask, pending, pending).outputs == ((R,),)


def test_strategies_have_the_rows_of_the_book(mesh_of: MeshOf) -> None:
    mesh, sources = mesh_of(2), [[(P,), (R,)], [(P,), (R,)]]

    def pending(**settings: Any) -> int:
        found = shardprop.strategies(LERP, [X, X, 0.5], mesh=mesh, sources=sources, **settings)
        return sum(each.outputs == ((P,),) for each in found)

    assert (pending(), pending(rules="torch")) == (1, 0)
    with shardprop.enabled(policy="optimal", topology="h100-nvlink"):
        assert (pending(), pending(rules="torch")) == (1, 0)


@pytest.mark.parametrize("given", [{"rules": "all"}, {"rules": None}])
def test_rules_are_complete_or_torchs(given: dict[str, Any], mesh_of: MeshOf) -> None:
    with pytest.raises(shardprop.ShardpropError, match=r"rules: Expected 'complete' or 'torch'"):
        shardprop.enable(policy="optimal", topology="h100-nvlink", **given)
    with pytest.raises(shardprop.ShardpropError, match=r"rules: Expected 'complete' or 'torch'"):
        shardprop.strategies(LERP, [X, X, 0.5], mesh=mesh_of(2), **given)
    assert not shardprop.is_enabled()


def test_policy_torch_has_no_book() -> None:
    with pytest.raises(shardprop.ShardpropError, match="Expected rules with policy 'optimal'"):
        shardprop.enable(rules="torch")
