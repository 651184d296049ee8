"""Calls that are made from given ones."""

from __future__ import annotations

import torch

from shardprop.verification.calls.call import Call
from shardprop.verification.discover.variations import never_varied, varied
from shardprop.verification.texts import arguments_text

aten = torch.ops.aten


def _calls(*calls: Call) -> list[str]:
    return [arguments_text(call) for call in varied(calls)]


def test_dims_and_sizes_are_varied() -> None:
    made = _calls(Call(aten.cumsum.default, (torch.rand(4, 6), -1)))
    assert made[0] == "(4x6, -1)"
    assert {"(4x6, 0)", "(4x6, 1)", "(3x5, -1)"} <= set(made)


def test_numbers_change_their_sign() -> None:
    a, b = torch.rand(4), torch.rand(4)
    assert "(4, 4, alpha=-1)" in _calls(Call(aten.add.Tensor, (a, b)))


def test_optional_tensors_are_left_out() -> None:
    x, weight, bias = torch.rand(4, 6), torch.rand(6), torch.rand(6)
    made = _calls(Call(aten.native_layer_norm.default, (x, [6], weight, bias, 1e-5)))
    assert "(4x6, [6], None, 6, 1e-05)" in made
    assert "(4x6, [6], 6, None, 1e-05)" in made


def test_dims_of_size_one_grow() -> None:
    assert "(4x6)" in _calls(Call(aten.relu.default, (torch.randn(1, 6),)))


def test_indices_stay_inside() -> None:
    x, index = torch.rand(4, 6), torch.tensor([[3, 0], [2, 3]])
    assert "(3x5, 0, 2x2)" in _calls(Call(aten.gather.default, (x, 0, index)))


def test_integers_that_are_never_negative_become_so() -> None:
    a, b = torch.tensor([0, 3, 5]), torch.tensor([2, 1, 4])
    made = varied([Call(aten.add.Tensor, (a, b))])
    signs = [[bool((x < 0).all()) for x in call.tensors] for call in made[-2:]]
    assert signs == [[False, False], [True, True]]
    assert made[-2].args[1].tolist() == [-2, 1, -4]


def test_integers_beside_floats_stay_as_they_are() -> None:
    x, index = torch.rand(4, 6), torch.tensor([[3, 0], [2, 3]])
    made = varied([Call(aten.gather.default, (x, 0, index))])
    assert all(bool((call.tensors[1] >= 0).all()) for call in made)


def test_what_the_op_refuses_is_no_call() -> None:
    made = varied([Call(aten._softmax.default, (torch.rand(4, 6), 1, False))])
    assert never_varied(made) == {"half_to_float": "False"}
