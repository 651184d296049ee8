"""Every op of a transformer block's forward and backward has a price."""

from __future__ import annotations

import math
import operator
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch._subclasses import FakeTensorMode
from torch.fx import Node
from torch.fx.experimental.proxy_tensor import make_fx

from shardprop.cost.compute import ComputeCost, Work, work_of

from .calls import Recorded, aten, metas

HIDDEN, HEADS, KEY_HEADS, MIDDLE, VOCABULARY = 64, 4, 2, 160, 96
BATCH, LENGTH = 2, 16


class Block(nn.Module):
    """Embedding, one LLaMA-like layer, logits and their loss."""

    def __init__(self) -> None:
        super().__init__()
        width = HIDDEN // HEADS
        self.table = nn.Embedding(VOCABULARY, HIDDEN)
        self.norms = nn.ModuleList(nn.RMSNorm(HIDDEN) for _ in range(3))
        self.query = nn.Linear(HIDDEN, HIDDEN, bias=False)
        self.key = nn.Linear(HIDDEN, KEY_HEADS * width, bias=False)
        self.value = nn.Linear(HIDDEN, KEY_HEADS * width, bias=False)
        self.out = nn.Linear(HIDDEN, HIDDEN, bias=False)
        self.gate, self.up = (nn.Linear(HIDDEN, MIDDLE, bias=False) for _ in range(2))
        self.down = nn.Linear(MIDDLE, HIDDEN, bias=False)
        self.logits = nn.Linear(HIDDEN, VOCABULARY, bias=False)

    def forward(self, tokens: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        x = self.table(tokens)
        normed = self.norms[0](x)
        query, key = (
            self._turned(project(normed).unflatten(-1, (-1, HIDDEN // HEADS)))
            for project in (self.query, self.key)
        )
        value = self.value(normed).unflatten(-1, (-1, HIDDEN // HEADS))
        q, k, v = (each.transpose(1, 2) for each in (query, key, value))
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        x = x + self.out(attended.transpose(1, 2).flatten(-2))
        normed = self.norms[1](x)
        x = x + self.down(F.silu(self.gate(normed)) * self.up(normed))
        return F.cross_entropy(self.logits(self.norms[2](x)).flatten(0, 1), targets.flatten())

    @staticmethod
    def _turned(x: torch.Tensor) -> torch.Tensor:
        angles = torch.outer(torch.arange(LENGTH), torch.arange(x.shape[-1] // 2) / 10.0)
        turns = torch.polar(torch.ones_like(angles), angles)[:, None]
        pairs = torch.view_as_complex(x.float().unflatten(-1, (-1, 2)))
        return torch.view_as_real(pairs * turns).flatten(-2).type_as(x)


@pytest.fixture(scope="module")
def calls() -> list[Recorded]:
    """The ops of the joint graph, as they are traced on fake tensors."""
    with FakeTensorMode(allow_non_fake_inputs=True):
        block = Block()
        tokens, targets = (torch.zeros(BATCH, LENGTH, dtype=torch.int64) for _ in range(2))

        def joint(parameters: dict[str, torch.Tensor], *batch: torch.Tensor) -> Any:
            loss = torch.func.functional_call(block, parameters, batch)
            return loss, torch.autograd.grad(loss, list(parameters.values()))

        graph = make_fx(joint)(dict(block.named_parameters()), tokens, targets).graph
    return [_recorded(node) for node in graph.nodes if node.op == "call_function"]


def _recorded(node: Node) -> Recorded:
    def value(of: Node) -> Any:
        return metas(of.meta["val"])

    args = torch.fx.map_arg(node.args, value)
    kwargs = torch.fx.map_arg(node.kwargs, value)
    return Recorded(node.target, args, kwargs, value(node))


def work(call: Recorded) -> Work:
    return work_of(call.op, call.args, call.kwargs, call.outputs)


def packet(call: Recorded) -> Any:
    return getattr(call.op, "overloadpacket", call.op)


def test_every_op_has_a_price(calls: list[Recorded]) -> None:
    compute = ComputeCost("h100-nvlink")
    kernel = 1.4
    free = set()
    for call in calls:
        us = compute.us(call.op, call.args, call.kwargs, call.outputs)
        assert math.isfinite(us)
        assert us == 0 or us > kernel, call.op
        if us == 0:
            free.add(packet(call))
    assert len(calls) > 80
    assert {aten.view, aten.t, aten.transpose, operator.getitem} <= free
    costly = {packet(call) for call in calls} - free
    assert {aten.mm, aten.embedding, aten.embedding_dense_backward, aten.add} <= costly


def test_operations_are_those_of_the_products_and_of_attention(calls: list[Recorded]) -> None:
    tokens, width = BATCH * LENGTH, HIDDEN // HEADS
    weights = HIDDEN * (2 * HIDDEN + 2 * KEY_HEADS * width + 3 * MIDDLE + VOCABULARY)
    pairs = BATCH * HEADS * LENGTH * (LENGTH + 1) // 2
    # A product forward and two backward; two products of attention forward and five backward.
    assert sum(work(call).flops for call in calls) == 6 * tokens * weights + 7 * 2 * width * pairs


def test_all_else_costs_its_bytes(calls: list[Recorded]) -> None:
    with_flops = {packet(call) for call in calls if work(call).flops}
    attention = aten._scaled_dot_product_flash_attention_for_cpu
    attention_backward = aten._scaled_dot_product_flash_attention_for_cpu_backward
    assert with_flops == {aten.mm, attention, attention_backward}
