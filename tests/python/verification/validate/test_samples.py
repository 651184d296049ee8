"""Calls to try ops on: recorded, derived, made up, the user's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import shardprop
from shardprop.verification.calls.call import Call
from shardprop.verification.calls.choice import ELEMENTS, diverse
from shardprop.verification.calls.derived import derived, functional_of
from shardprop.verification.calls.opinfo import record
from shardprop.verification.calls.samples import Samples
from shardprop.verification.calls.synthetic import made_up
from shardprop.verification.files import FileError, generator_of_calls, rules_registered_by

aten = torch.ops.aten

OPS = (
    *(aten.add.Tensor, aten.add_.Tensor, aten.add.out, aten.mm.default, aten.cat.default),
    *(aten.native_layer_norm_backward.default, aten._softmax.default, aten.sum.dim_IntList),
    *(aten.bitwise_and.Tensor, aten.special_zeta.self_scalar, aten._foreach_mul.Scalar),
)


@pytest.fixture(scope="module")
def samples() -> Samples:
    return Samples(OPS)


@pytest.mark.parametrize("op", OPS, ids=str)
def test_ops_have_few_small_calls_that_they_take(samples: Samples, op: Any) -> None:
    calls = samples.calls(op)
    assert 1 <= len(calls) <= 12
    for call in calls:
        assert call.op is op and call.origin
        assert 0 < sum(tensor.numel() for tensor in call.tensors) <= ELEMENTS
        assert call.results() is not None


@pytest.mark.slow
def test_with_every_sample_an_op_has_calls_that_functions_of_other_names_make() -> None:
    calls = Samples([aten.cumsum.default], every_sample=True).calls(aten.cumsum.default)
    assert any(call.args[1] == -1 and call.tensors[0].ndim == 1 for call in calls)
    others = Samples([aten.cumsum.default, aten.mm.default], every_sample=True)
    assert [call.origin for call in others.calls(aten.cumsum.default)] == [c.origin for c in calls]


def test_calls_are_unlike_each_other(samples: Samples) -> None:
    calls = samples.calls(aten.add.Tensor)
    shapes = {tuple(tuple(tensor.shape) for tensor in call.tensors) for call in calls}
    assert {call.tensors[0].ndim for call in calls} >= {0, 1, 2, 3}
    assert any(a != b for a, b in shapes), "something is broadcast"
    assert {call.tensors[0].dtype for call in calls} == {torch.float64, torch.int64}
    assert any(call.kwargs for call in calls) and not all(call.kwargs for call in calls)


def test_flags_are_chosen_where_there_is_nothing_else() -> None:
    flags = Call(aten.mul.Tensor, (torch.ones(2, dtype=torch.bool), 2))
    numbers = Call(aten.mul.Tensor, (torch.ones(2), 2))
    assert diverse([flags, numbers], 2) == [numbers]
    assert diverse([flags], 2) == [flags]


def test_backward_ops_are_called_by_autograd(samples: Samples) -> None:
    calls = samples.calls(aten.native_layer_norm_backward.default)
    assert all(call.origin.startswith("OpInfo ") for call in calls)


def test_the_same_seed_gives_the_same_calls() -> None:
    def values(seed: int) -> list[list[Any]]:
        calls = Samples([aten.mm.default], seed).calls(aten.mm.default)
        return [tensor.tolist() for call in calls for tensor in call.tensors]

    assert values(1) == values(1)
    assert values(1) != values(2)


def test_what_is_recorded_is_what_the_op_was_given() -> None:
    recorded = record([aten.mul_.Tensor])
    assert recorded == {} or all(call.op is aten.mul_.Tensor for call in recorded[aten.mul_.Tensor])
    calls = record([aten.relu.default])[aten.relu.default]
    assert any(bool((call.args[0] < 0).any()) for call in calls)
    assert not any(tensor.requires_grad for call in calls for tensor in call.tensors)


@pytest.mark.parametrize(
    "op, functional",
    [
        (aten.add_.Tensor, aten.add.Tensor),
        (aten.add.out, aten.add.Tensor),
        (aten.max.dim_max, aten.max.dim),
        (aten._foreach_mul_.Scalar, aten._foreach_mul.Scalar),
        (aten.gelu_backward.grad_input, aten.gelu_backward.default),
        (aten.mm.default, None),
        (aten.copy_.default, aten.copy.default),
    ],
    ids=str,
)
def test_an_op_that_writes_is_known_by_the_one_that_does_not(op: Any, functional: Any) -> None:
    assert functional_of(op) is functional


def test_out_tensors_are_as_the_functional_op_makes_them() -> None:
    call = Call(aten.max.dim, (torch.randn(4, 6), 1))
    (made,) = derived(aten.max.dim_max, [call])
    assert [made.kwargs[name].shape for name in ("max", "max_values")] == [(4,), (4,)]
    assert made.kwargs["max_values"].dtype == torch.int64


def test_what_cannot_be_done_in_place_is_left_out() -> None:
    wide = Call(aten.add.Tensor, (torch.randn(1, 6), torch.randn(4, 6)))
    assert list(derived(aten.add_.Tensor, [wide])) == []


def test_calls_are_made_up_from_the_schema() -> None:
    with torch.library._scoped_library("shardprop_made_up", "FRAGMENT") as library:
        library.define(
            "blend(Tensor a, Tensor[] others, float weight=0.5, int? dim=None) -> Tensor"
        )

        def blend(a: Any, others: Any, weight: float = 0.5, dim: int | None = None) -> Any:
            mixed = a * weight + sum(others)
            return mixed if dim is None else mixed.flip(dim)

        library.impl("blend", blend, "CPU")
        op = torch.ops.shardprop_made_up.blend.default
        calls = diverse(made_up(op), 12)
    assert len(calls) >= 6
    assert {call.tensors[0].ndim for call in calls} >= {1, 2, 3}
    assert {len(call.args) for call in calls} | {len(call.kwargs) for call in calls} != {2, 0}
    assert {call.tensors[0].dtype for call in calls} >= {torch.float64, torch.int64}


def test_what_an_op_refuses_is_left_out() -> None:
    calls = list(made_up(aten.mm.default))
    assert calls and all(call.tensors[0].shape == (6, 6) for call in calls)


class TestTheUsersOwn:
    def write(self, tmp_path: Path, text: str) -> Path:
        path = tmp_path / "own_samples.py"
        path.write_text("import torch\n" + text)
        return path

    def test_a_generator_gives_pairs_or_calls(self, tmp_path: Path) -> None:
        path = self.write(
            tmp_path,
            "from shardprop.verification.calls.call import Call\n"
            "def samples(op):\n"
            "    yield (torch.ones(4, 4), torch.ones(4, 4)), {}\n"
            "    yield Call(op, (torch.ones(2, 2), torch.ones(2, 2)))\n",
        )
        op = aten.mm.default
        calls = Samples([op], own=generator_of_calls(path)).calls(op)
        assert [call.tensors[0].shape for call in calls] == [(4, 4), (2, 2)]
        assert calls[0].origin == "own_samples.py, sample 0"

    @pytest.mark.parametrize(
        "text, message",
        [
            ("", r"Expected a function samples\(op\) in .*, got none"),
            ("1 / 0", r"which raises ZeroDivisionError: division by zero"),
            ("def samples(op): yield 3", r"Expected a Call or a pair \(args, kwargs\), got int"),
            (
                "def samples(op): yield torch.ones(1), {}",
                r"A pair is a tuple of a tuple and a dict",
            ),
        ],
    )
    def test_what_is_no_generator_is_refused(self, tmp_path: Path, text: str, message: str) -> None:
        with pytest.raises(FileError, match=message):
            list(generator_of_calls(self.write(tmp_path, text))(aten.mm.default))

    def test_a_file_that_is_not_there_is_refused(self, tmp_path: Path) -> None:
        with pytest.raises(FileError, match="where there is none"):
            generator_of_calls(tmp_path / "nothing.py")

    def test_a_module_that_registers_nothing_is_refused(self, tmp_path: Path) -> None:
        with pytest.raises(FileError, match="which registers none"):
            rules_registered_by(self.write(tmp_path, ""))

    def test_it_may_where_the_ops_are_named(self, tmp_path: Path) -> None:
        assert rules_registered_by(self.write(tmp_path, ""), needed=False) == []


def test_scales_are_those_of_the_sizes_beside_them() -> None:
    """Told otherwise, kernels read beyond their operands, and give other numbers every time."""
    calls = list(made_up(aten._upsample_bicubic2d_aa.default))
    given = [call for call in calls if len(call.args) == 5]
    assert given
    for image, size, _, *scales in (call.args for call in given):
        assert [size[0] / image.shape[-2], size[1] / image.shape[-1]] == scales


def test_a_weight_has_the_shape_that_is_normalized() -> None:
    calls = list(made_up(aten._fused_rms_norm.default))
    weights = [(x, w) for x, shape, w, _ in (call.args for call in calls) if w is not None]
    assert weights
    assert all(w.shape == x.shape[-1:] for x, w in weights)


def test_calls_have_the_ranks_that_a_registered_rule_tells() -> None:
    with torch.library._scoped_library("shardprop_samples", "DEF") as library:
        library.define("gate(Tensor x, Tensor w, Tensor g) -> Tensor")
        library.impl("gate", lambda x, w, g: torch.matmul(x, w) * g, "CompositeExplicitAutograd")
        op = torch.ops.shardprop_samples.gate.default
        with shardprop.temporary_rules():
            shardprop.register_rule(op, "b h! k, *k n, *n -> b h n")
            calls = Samples([op]).calls(op)
    assert calls
    for call in calls:
        assert [tensor.ndim for tensor in call.tensors] == [3, 2, 1]


def test_optimizers_are_told_of_a_scale_and_of_no_infinity() -> None:
    call = next(
        c for c in made_up(aten._fused_adamw_.default) if c.kwargs.get("grad_scale") is not None
    )
    assert call.kwargs["grad_scale"].shape == call.kwargs["found_inf"].shape == ()
    assert float(call.kwargs["found_inf"]) == 0.0
    copy = call.with_tensors(torch.clone)
    call.op(*copy.args, **copy.kwargs)
    assert not torch.equal(copy.tensors[0], call.tensors[0])
