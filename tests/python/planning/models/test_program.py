"""What is traced of a model."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from shardprop import ShardpropError
from shardprop.planning.models.program import Program
from shardprop.planning.models.reading import read
from shardprop.planning.models.tracing import trace

from ...narrow import known
from .models import Mlp, Transformer

aten = torch.ops.aten
_PRODUCTS = (aten.mm.default, aten.addmm.default)


def program_of(model: nn.Module, *args: Any, backward: bool = True, **kwargs: Any) -> Program:
    return read(trace(model, args, kwargs, "cpu", backward))


def ops(program: Program, *, backward: bool) -> list[Any]:
    return [n.op for n in program.nodes if n.op is not None and n.backward is backward]


@pytest.mark.slow
def test_every_node_comes_after_what_it_reads() -> None:
    program = program_of(Transformer(layers=2), *_tokens())
    for node in program.nodes:
        assert all(ref.node < node.index for ref in node.operands)
    assert [node.index for node in program.nodes] == list(range(len(program.nodes)))


def test_forward_and_backward_ops_are_told_apart() -> None:
    program = program_of(Mlp(), torch.randn(4, 16))
    assert ops(program, backward=False).count(aten.addmm.default) == 2
    assert aten.relu.default in ops(program, backward=False)
    assert aten.mm.default not in ops(program, backward=False)
    # A gradient for each weight, and one for the hidden state; the input needs none.
    assert ops(program, backward=True).count(aten.mm.default) == 3
    assert aten.threshold_backward.default in ops(program, backward=True)


def test_parameters_and_their_gradients_are_paired() -> None:
    program = program_of(Mlp(), torch.randn(4, 16))
    assert program.parameters.keys() == program.gradients.keys()
    assert set(program.parameters) == {"up.weight", "up.bias", "down.weight", "down.bias"}
    for name, gradient in program.gradients.items():
        parameter = program.nodes[program.parameters[name]]
        assert known(program.nodes[gradient].outputs[0]).shape == known(parameter.outputs[0]).shape


def test_a_frozen_parameter_has_no_gradient() -> None:
    model = Mlp()
    model.up.weight.requires_grad_(False)
    program = program_of(model, torch.randn(4, 16))
    assert "up.weight" in program.parameters
    assert "up.weight" not in program.gradients


def test_a_parameter_under_two_names_is_one() -> None:
    model = Transformer()
    model.head.weight = model.embedding.weight
    program = program_of(model, *_tokens())
    assert "embedding.weight" in program.gradients
    assert "head.weight" not in program.parameters


@pytest.mark.slow
def test_ops_belong_to_the_module_that_calls_them() -> None:
    program = program_of(Transformer(layers=2), *_tokens())
    modules = {node.module for node in program.nodes if node.op is aten.mm.default}
    assert {"layers.0.query", "layers.1.mlp.up", "head"} <= modules | {
        node.module for node in program.nodes if node.op is aten.addmm.default
    }
    # Per layer: the products of a linear, their gradients of input and weight.
    for path in ("layers.0.query", "layers.1.mlp.up", "layers.1.mlp.down", "head"):
        products = [n for n in program.nodes if n.module == path and n.op in _PRODUCTS]
        assert [n.backward for n in products] == [False, True, True], path
    for node in program.nodes:
        if node.kind == "gradient":
            assert node.module == node.name.removeprefix("gradient of ").rpartition(".")[0]


def test_detached_tensors_are_the_tensors_themselves() -> None:
    program = program_of(Transformer(), *_tokens())
    assert aten.detach.default not in {node.op for node in program.nodes}


def test_the_forward_pass_alone() -> None:
    program = program_of(Mlp(), torch.randn(4, 16), backward=False)
    assert not program.gradients
    assert not program.tangents
    assert not any(node.backward for node in program.nodes)


def test_inputs_may_be_named_nested_and_of_any_device() -> None:
    class Nested(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(4, 4)

        def forward(self, pair: tuple[Tensor, int], *, mask: Tensor) -> dict[str, Tensor]:
            tensor, times = pair
            return {"out": self.linear(tensor) * times * mask, "mask": mask}

    pair = (torch.empty(2, 4, device="meta"), 3)
    program = program_of(Nested(), pair, mask=torch.ones(4))
    shapes = [tuple(known(program.nodes[node].outputs[0]).shape) for node in program.inputs]
    assert shapes == [(2, 4), (4,)]
    assert len(program.outputs) == 2
    # Only the first output has a gradient.
    assert [output for output, _ in program.tangents] == [program.outputs[0]]


def test_a_model_without_gradients_is_refused() -> None:
    model = Mlp().requires_grad_(False)
    with pytest.raises(ShardpropError, match="backward=False"):
        program_of(model, torch.randn(4, 16))


class Writes(nn.Module):
    """Into what it has made."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.last = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        y = self.inner(x)
        y += x
        return self.last(F.relu(y, inplace=True)).mul_(2)


def test_writes_into_what_the_model_has_made_are_traced_as_ops_that_write_nothing() -> None:
    program = program_of(Writes(), torch.randn(2, 4))
    for node in program.nodes:
        assert node.op is None or not node.op._schema.is_mutable
    assert ops(program, backward=False).count(aten.add.Tensor) == 1
    assert aten.relu.default in ops(program, backward=False)
    assert aten.threshold_backward.default in ops(program, backward=True)
    modules = {node.module for node in program.nodes if node.op is aten.addmm.default}
    assert modules == {"inner", "last"}


def test_what_is_written_into_buffers_leaves_the_program() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4))
    program = program_of(model, torch.randn(8, 4))
    kinds = [program.nodes[node].kind for node in program.written.values()]
    assert [*program.written] == ["1.running_mean", "1.running_var", "1.num_batches_tracked"]
    assert kinds == ["written"] * 3
    (count,) = program.nodes[program.written["1.num_batches_tracked"]].operands
    assert program.nodes[count.node].op is aten.add.Tensor
    assert not program_of(model.eval(), torch.randn(8, 4)).written


class WritesInto(nn.Module):
    """A model that writes into what it is given, or into its parameter."""

    def __init__(self, what: str) -> None:
        super().__init__()
        self.what = what
        self.weight = nn.Parameter(torch.ones(4))

    def forward(self, x: Tensor) -> Tensor:
        with torch.no_grad():
            (x if self.what == "input" else self.weight).add_(1)
        return x * self.weight


@pytest.mark.parametrize("what", ["input", "parameter"])
def test_a_model_that_writes_into_something_else_is_refused(what: str) -> None:
    with pytest.raises(ShardpropError, match=f"writes into {what}"):
        program_of(WritesInto(what), torch.randn(8, 4))


def test_tracing_leaves_the_model_alone() -> None:
    model = Mlp()
    before = {name: p.clone() for name, p in model.named_parameters()}
    program_of(model, torch.randn(4, 16))
    assert not model._forward_hooks
    assert not model._forward_pre_hooks
    for name, parameter in model.named_parameters():
        assert parameter.grad is None
        assert torch.equal(parameter, before[name])


def _tokens() -> tuple[Tensor, Tensor]:
    return torch.zeros(4, 16, dtype=torch.int64), torch.zeros(4, 16, dtype=torch.int64)


def test_what_draws_random_numbers_waits_for_no_tensor() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5))
    program = program_of(model, torch.randn(8, 4))
    (draws,) = (node for node in program.nodes if node.draws)
    assert draws.op is aten.bernoulli.p
    assert draws.index in program.constants
    assert not any(node.draws for node in program_of(model.eval(), torch.randn(8, 4)).nodes)


@pytest.mark.parametrize("dropout", [0.0, 0.1])
def test_attention_draws_where_it_drops(dropout: float) -> None:
    class Attention(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return F.scaled_dot_product_attention(x, x, x, dropout_p=dropout)

    model = nn.Sequential(nn.Linear(8, 8), Attention())
    program = program_of(model, torch.randn(2, 4, 16, 8))
    assert any(node.draws for node in program.nodes) == (dropout > 0)


def test_autocast_changes_ops_once() -> None:
    class Attention(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return F.scaled_dot_product_attention(x, x, x, dropout_p=0.1)

    with torch.autocast("cpu", torch.bfloat16):
        program = program_of(nn.Sequential(nn.Linear(8, 8), Attention()), torch.randn(2, 4, 16, 8))
    dtypes = {
        str(node.op): {known(meta).dtype for meta in node.outputs}
        for node in program.nodes
        if node.op is not None
    }
    assert dtypes["aten.addmm.default"] == {torch.bfloat16}
    # Attention runs in float32, and what it calls is not changed again.
    assert dtypes["aten._safe_softmax.default"] == {torch.float32}


class LooksAtValues(nn.Module):
    """A model that does what its values say."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        y = self.inner(x)
        return y if y.sum() > 0 else -y


def test_a_model_that_depends_on_values_is_refused() -> None:
    with pytest.raises(ShardpropError, match=r"do not depend on the values.*_local_scalar_dense"):
        program_of(LooksAtValues(), torch.randn(2, 4))
