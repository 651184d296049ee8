"""Whole programs: what `explain` says before a run is what the run then decides."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import Placement
from torch.distributed.tensor._dtensor_spec import DTensorSpec
from torch.distributed.tensor.experimental import implicit_replication
from torch.nn.attention import SDPBackend, sdpa_kernel

import shardprop
from shardprop.inspection.explanation.model import DecisionExplanation
from shardprop.model.operands import operands_of
from shardprop.propagation import observers
from shardprop.propagation.answer import output_placements
from shardprop.propagation.observers import Observed
from shardprop.propagation.route import Who

from ..programs import llama, test_moe, test_vision
from ..programs.world import mesh_of, seeded, spread, tokens
from ..specs import R, S
from .answers import moves_of_both, plain

Call = Callable[[], Any]


def attention(q: Tensor, k: Tensor, v: Tensor, out: Tensor, *, causal: bool) -> Tensor:
    """Attention over heads, and what makes one stream of them."""
    # A causal mask is a plain tensor that torch makes.
    with sdpa_kernel(SDPBackend.MATH), implicit_replication():
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=causal)
    batch, heads, seq, head_dim = mixed.shape
    return mixed.transpose(1, 2).reshape(batch, seq, heads * head_dim) @ out


def attend(dtype: torch.dtype, causal: bool) -> tuple[Any, ...]:
    mesh = mesh_of((2, 2))

    def made(*shape: int, on: Sequence[Placement]) -> Tensor:
        return spread(seeded(*shape).to(dtype), mesh, *on)

    qkv = [made(4, 8, 16, 4, on=(S(0), S(1))) for _ in range(3)]
    return partial(attention, causal=causal), *qkv, made(32, 32, on=(R, R))


def blocks() -> tuple[Any, ...]:
    """Llama, heads on DTensors."""
    size = llama.Size()
    mesh = mesh_of((4,), ("tp",))
    model = llama.parallelize(llama.build(size), mesh, local_attention=False)
    return model, tokens(size.vocab, size.batch, size.seq)


def vision() -> tuple[Any, ...]:
    mesh = mesh_of((2, 2), ("dp", "tp"))
    model = test_vision.distribute(test_vision.Vision(), mesh)
    image = test_vision.IMAGE
    return model, spread(seeded(test_vision.BATCH, 3, image, image), mesh, S(0), R)


def experts(
    kind: Callable[[DeviceMesh], test_moe.Experts], placement: Placement
) -> tuple[Any, ...]:
    mesh = mesh_of((4,), ("ep",))
    return kind(mesh), spread(seeded(test_moe.TOKENS, test_moe.DIM), mesh, placement)


def train(model: nn.Module, x: Tensor) -> None:
    """One step of a training, its optimizer new."""
    model(x).square().mean().backward()
    nn.utils.clip_grad_norm_(model.parameters(), 0.5, foreach=True)
    torch.optim.AdamW(model.parameters(), lr=1e-2, foreach=True).step()


def training() -> tuple[Any, ...]:
    mesh = mesh_of((2, 2), ("dp", "tp"))
    model = nn.Sequential(nn.Linear(16, 32), nn.LayerNorm(32), nn.GELU(), nn.Linear(32, 16))
    over_tp = {"0.weight": S(0), "0.bias": S(0), "3.weight": S(1)}
    for path, module in model.named_modules():
        for name, parameter in [*module.named_parameters(recurse=False)]:
            placed = spread(parameter, mesh, R, over_tp.get(f"{path}.{name}", R))
            module.register_parameter(name, nn.Parameter(placed))
    return train, model, spread(seeded(8, 16), mesh, S(0), R)


PROGRAMS: dict[str, Callable[[], tuple[Any, ...]]] = {
    **{
        f"attention, {'causal' if causal else 'whole'}, {dtype}": partial(attend, dtype, causal)
        for dtype in (torch.float32, torch.bfloat16)
        for causal in (False, True)
    },
    "Llama": blocks,
    "vision transformer": vision,
    "experts, grouped": partial(experts, test_moe.Grouped, R),
    "experts, dispatched": partial(experts, test_moe.Dispatched, S(0)),
    "training": training,
}


@pytest.mark.slow
@pytest.mark.parametrize("name", PROGRAMS)
def test_explained_beforehand(name: str) -> None:
    function, *args = PROGRAMS[name]()
    explained = shardprop.explain(function, *args).decisions
    assert explained and explained[-1].error is None
    ran = decided_by(lambda: function(*args))
    places = []
    seen: set[int] = set()
    for asked in ran:
        fitting = [i for i, told in enumerate(explained) if says_the_same(asked, told)]
        assert fitting, (
            f"{asked.schema}\n  -> {asked.answer}\nexplained as "
            f"{[told for told in explained if told.op == str(asked.schema.op)]}"
        )
        places.append(fitting[0])
        seen.update(fitting)
    first = [*dict.fromkeys(places)]
    assert first == sorted(first), "the run decides in another order"
    unseen = [told for place, told in enumerate(explained) if place not in seen]
    assert not unseen, "explained, but not decided in the run"


def decided_by(run: Call) -> list[Observed]:
    """What a run asks, its caches being cold."""
    seen: list[Observed] = []
    look = seen.append
    shardprop.clear_caches()
    observers.add(look)
    try:
        run()
    finally:
        observers.remove(look)
    return seen


def says_the_same(asked: Observed, told: DecisionExplanation) -> bool:
    """Is this the explanation of what was decided?"""
    schema, answer = asked.schema, asked.answer
    if told.op != str(schema.op) or answer is None:
        return False
    given = {
        each.name: (tuple(each.meta.shape), each.meta.placements)
        for each in operands_of(schema.op, schema.args_schema, schema.kwargs_schema)
        if isinstance(each.meta, DTensorSpec)
    }
    kinds = told.elements or (told,)
    operands = {o.name: (o.shape, o.placements) for kind in kinds for o in kind.operands}
    if any(given.get(name) != operand for name, operand in operands.items()):
        return False
    if told.alike == 1 and not told.elements and len(given) != len(operands):
        return False
    if (asked.outcome is None) is (told.who is Who.TORCH):
        return False
    ran, moves = moves_of_both(asked, told)
    if plain(ran) != plain(moves):
        return False
    decision = shardprop.propagate(schema.op, *schema.args_schema, **schema.kwargs_schema)
    if told.total_us != decision.cost or told.who is not decision.who:
        return False
    one = told.alike == 1 and not told.elements and told.candidates
    return not one or plain(told.candidates[0].outputs) == plain(output_placements(answer))
