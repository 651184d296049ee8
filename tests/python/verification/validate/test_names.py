"""Which ops a name on the command line means."""

from __future__ import annotations

import pytest
import torch

from shardprop.verification.names import (
    UnknownOpError,
    ops_decided,
    ops_named,
    ops_with_rules,
    overload,
)

aten = torch.ops.aten


@pytest.mark.parametrize(
    "name", ["aten.mm.default", "aten::mm.default", "aten::mm", "aten.mm", "mm", "mm.default"]
)
def test_an_op_goes_by_several_names(name: str) -> None:
    assert aten.mm.default in ops_named([name])
    assert all(op.overloadpacket is aten.mm for op in ops_named([name]))


def test_without_an_overload_all_with_a_rule_are_meant() -> None:
    named = ops_named(["add"])
    assert {aten.add.Tensor, aten.add.Scalar} <= set(named)
    assert set(named) <= set(ops_with_rules())


def test_with_an_overload_it_is_that_one() -> None:
    assert ops_named(["add.Tensor"]) == [aten.add.Tensor]


def test_a_glob_means_ops_with_a_rule_or_a_decomposition() -> None:
    named = set(ops_named(["*softmax*", "*mse_loss"]))
    assert {aten._softmax.default, aten._log_softmax_backward_data.default} <= named
    assert aten.mse_loss.default in named and aten.mse_loss.default not in ops_with_rules()
    assert named <= set(ops_decided())
    assert set(ops_with_rules()) < set(ops_decided())


def test_each_op_comes_once_and_in_order() -> None:
    named = ops_named(["mul.Tensor", "add.Tensor", "aten::add.Tensor"])
    assert named == [aten.add.Tensor, aten.mul.Tensor]


def test_an_op_without_a_rule_is_found_too() -> None:
    assert aten.addr.default not in ops_with_rules()
    assert aten.addr.default in ops_named(["addr"])


def test_an_op_of_another_namespace_needs_its_name() -> None:
    with torch.library._scoped_library("shardprop_named", "FRAGMENT") as library:
        library.define("twice(Tensor x) -> Tensor")
        named = ops_named(["shardprop_named::twice"])
        assert list(map(str, named)) == ["shardprop_named.twice.default"]


def test_an_unknown_name_is_refused_with_what_is_close() -> None:
    with pytest.raises(UnknownOpError, match=r"got 'sofmax'\. Close to it: .*softmax") as caught:
        ops_named(["sofmax"])
    assert str(caught.value).startswith("Expected the name of an op, such as aten.mm.default")
    assert "--module" not in str(caught.value)


@pytest.mark.parametrize("name", ["nobodys::op", "nobodys.op", "nobodys.op.default"])
def test_of_a_namespace_that_nothing_is_known_of_the_file_is_asked_for(name: str) -> None:
    with pytest.raises(UnknownOpError, match=r"No op of 'nobodys' is known: .*--module FILE"):
        ops_named([name])


def test_of_a_namespace_of_the_programs_only_its_ops_are_close() -> None:
    with torch.library._scoped_library("shardprop_named", "DEF") as library:
        library.define("gated_proj(Tensor x) -> Tensor")
        with pytest.raises(UnknownOpError) as caught:
            ops_named(["shardprop_named::gated_pr"])
    assert str(caught.value).endswith(" Close to it: shardprop_named.gated_proj.")


def test_a_pattern_that_nothing_has_is_refused() -> None:
    with pytest.raises(UnknownOpError, match=r"Expected a pattern .*, got 'nothing\*'"):
        ops_named(["nothing*"])


def test_a_printed_name_gives_the_op() -> None:
    assert all(overload(str(op)) is op for op in ops_with_rules())
