"""Operations are those that torch's FlopCounterMode counts, for every formula of ours."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from shardprop.cost.compute import work_of
from shardprop.cost.compute.formulas import formula_of

from .calls import aten, called, meta, metas, recorded, work_in

R = torch.randn


def on_meta(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.empty(shape, dtype=dtype, device="meta")


def counted_by_torch(run: Callable[[], object]) -> int:
    with FlopCounterMode(display=False) as counter:
        run()
    total = counter.get_total_flops()
    assert isinstance(total, int)
    return total


FP8 = torch.float8_e4m3fn
CALLS: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "mm": (aten.mm.default, (R(3, 5), R(5, 7))),
    "mm transposed": (aten.mm.default, (R(5, 3).t(), R(5, 7))),
    "bmm": (aten.bmm.default, (R(2, 3, 5), R(2, 5, 7))),
    "addmm": (aten.addmm.default, (R(7), R(3, 5), R(5, 7))),
    "baddbmm": (aten.baddbmm.default, (R(2, 3, 7), R(2, 3, 5), R(2, 5, 7))),
    "mm of no rows": (aten.mm.default, (R(0, 5), R(5, 7))),
    "mm over nothing": (aten.mm.default, (R(3, 0), R(0, 7))),
    "_scaled_mm": (
        aten._scaled_mm.default,
        (
            on_meta(16, 32, dtype=FP8),
            on_meta(64, 32, dtype=FP8).t(),
            on_meta(),
            on_meta(),
            None,
            None,
            torch.bfloat16,
        ),
    ),
    "matmul": (aten.matmul.default, (R(2, 3, 5), R(5, 7))),
    "matmul broadcast": (aten.matmul.default, (R(4, 1, 3, 5), R(2, 5, 7))),
    "matmul of a row": (aten.matmul.default, (R(3, 5), R(5, 7))),
    "linear": (aten.linear.default, (R(2, 3, 5), R(7, 5), R(7))),
    "convolution 1d": (
        aten.convolution.default,
        (R(2, 3, 9), R(4, 3, 3), R(4), [2], [1], [1], False, [0], 1),
    ),
    "convolution 2d of groups": (
        aten.convolution.default,
        (R(2, 4, 8, 9), R(6, 2, 3, 2), None, [1, 2], [1, 0], [1, 1], False, [0, 0], 2),
    ),
    "convolution transposed": (
        aten.convolution.default,
        (R(2, 4, 5, 6), R(4, 3, 3, 3), None, [2, 2], [1, 1], [1, 1], True, [1, 1], 1),
    ),
    "convolution backward": (
        aten.convolution_backward.default,
        (
            *(R(2, 4, 8, 8), R(2, 3, 8, 8), R(4, 3, 3, 3), [4], [1, 1], [1, 1], [1, 1]),
            *(False, [0, 0], 1, [True, True, True]),
        ),
    ),
    "convolution backward of the weight": (
        aten.convolution_backward.default,
        (
            *(R(2, 4, 4, 4), R(2, 3, 8, 8), R(4, 3, 3, 3), None, [2, 2], [1, 1], [1, 1]),
            *(False, [0, 0], 1, [False, True, False]),
        ),
    ),
    "convolution backward transposed": (
        aten.convolution_backward.default,
        (
            *(R(2, 3, 10, 12), R(2, 4, 5, 6), R(4, 3, 3, 3), None, [2, 2], [1, 1], [1, 1]),
            *(True, [1, 1], 1, [True, True, False]),
        ),
    ),
    **{
        f"einsum {equation}": (aten.einsum.default, (equation, [R(*shape) for shape in shapes]))
        for equation, *shapes in (
            ("ij,jk->ik", (3, 5), (5, 7)),
            ("bij,bjk->bik", (2, 3, 5), (2, 5, 7)),
            ("bhqd,bhkd->bhqk", (2, 3, 4, 5), (2, 3, 6, 5)),
            ("...ij,...jk->...ik", (2, 4, 3, 5), (4, 5, 7)),
            ("ij,jk", (3, 5), (5, 7)),
            ("ij,jk,kl->il", (3, 5), (5, 7), (7, 2)),
            ("ij,ij->ij", (3, 5), (3, 5)),
            ("i,j->ij", (3,), (5,)),
            ("ij->ji", (3, 5)),
            ("ijx,jk->ik", (3, 5, 2), (5, 7)),
        )
    },
}


@pytest.mark.parametrize(("op", "args"), CALLS.values(), ids=CALLS)
def test_products_are_counted_as_torch_counts_them(op: Any, args: tuple[Any, ...]) -> None:
    assert formula_of(op._schema.name) is not None
    assert work_in(called(op, *args)).flops == counted_by_torch(lambda: op(*args))


def _attended() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Queries, keys and values; no two sizes are equal that need not be."""
    return on_meta(2, 4, 6, 8), on_meta(2, 4, 10, 8), on_meta(2, 4, 10, 8)


@pytest.mark.parametrize("kind", ["flash", "efficient", "cudnn"])
def test_attention_is_counted_as_torch_counts_it(kind: str) -> None:
    query, key, value = _attended()
    op = getattr(aten, f"_scaled_dot_product_{kind}_attention").default
    more: tuple[Any, ...] = {
        "flash": (0.0, False),
        "efficient": (None, True, 0.0, False),
        "cudnn": (None, True, 0.0, False),
    }[kind]
    args = (query, key, value, *more)
    assert work_in(called(op, *args)).flops == counted_by_torch(lambda: op(*args))


@pytest.mark.parametrize("kind", ["flash", "efficient", "cudnn"])
def test_attention_backward_is_counted_as_torch_counts_it(kind: str) -> None:
    query, key, value = _attended()
    out, sums, number = on_meta(2, 4, 6, 8), on_meta(2, 4, 6), on_meta(dtype=torch.int64)
    op = getattr(aten, f"_scaled_dot_product_{kind}_attention_backward").default
    more: tuple[Any, ...] = {
        "flash": (out, sums, None, None, 6, 10, 0.0, False, number, number),
        "efficient": (None, out, sums, number, number, 0.0, [True, True, True, False], False),
        "cudnn": (out, sums, number, number, None, None, None, 6, 10, 0.0, False),
    }[kind]
    args = (out, query, key, value, *more)
    outputs = [meta(2, 4, 6, 8), meta(2, 4, 10, 8), meta(2, 4, 10, 8)]
    # Its formula itself, for not every backward runs without its device.
    theirs = FlopCounterMode(display=False).flop_registry[op.overloadpacket](*args, out_val=None)
    assert work_of(op, metas(args), {}, outputs).flops == theirs


def _gradients(kind: SDPBackend, key_heads: int, **flags: Any) -> Callable[[], object]:
    query = R(2, 4, 6, 8, requires_grad=True)
    key, value = (R(2, key_heads, 6, 8, requires_grad=True) for _ in range(2))

    def run() -> None:
        with sdpa_kernel(kind):
            out = F.scaled_dot_product_attention(query, key, value, **flags)
        torch.autograd.grad(out.sum(), (query, key, value))

    return run


@pytest.mark.parametrize("grouped", [False, True], ids=["all heads", "fewer key heads"])
def test_attention_on_cpu_takes_a_pass_more_backward_than_its_products(grouped: bool) -> None:
    # The plain products forward and backward, as torch counts them: flash attention makes the
    # scores once more (2 b h s s d), rather than keep them.
    flags = {"enable_gqa": grouped}
    heads = 2 if grouped else 4
    plain = counted_by_torch(_gradients(SDPBackend.MATH, heads, **flags))
    calls = recorded(_gradients(SDPBackend.FLASH_ATTENTION, heads, **flags))
    names = [call.op._schema.name for call in calls if "attention" in call.op._schema.name]
    assert names == [
        "aten::_scaled_dot_product_flash_attention_for_cpu",
        "aten::_scaled_dot_product_flash_attention_for_cpu_backward",
    ]
    again = 2 * 2 * 4 * 6 * 6 * 8
    assert sum(work_in(call).flops for call in calls) == plain + again


@pytest.mark.parametrize(
    ("queries", "keys", "pairs"), [(6, 6, 21), (4, 10, 10), (10, 4, 34), (1, 5, 1)]
)
def test_a_causal_mask_saves_what_it_hides(queries: int, keys: int, pairs: int) -> None:
    op = aten._scaled_dot_product_flash_attention_for_cpu.default
    args = (meta(2, 3, queries, 8), meta(2, 3, keys, 8), meta(2, 3, keys, 5), 0.0)
    visible = int(torch.ones(queries, keys).tril().sum())
    assert visible == pairs
    outputs = [meta(2, 3, queries, 5), meta(2, 3, queries)]
    assert work_of(op, (*args, True), {}, outputs).flops == 2 * 3 * pairs * 2 * (8 + 5)
    assert work_of(op, args, {"is_causal": True}, outputs).flops == 2 * 3 * pairs * 2 * (8 + 5)
    assert work_of(op, args, {}, outputs).flops == 2 * 3 * queries * keys * 2 * (8 + 5)


def test_groups_make_the_gradient_of_a_weight_cheaper() -> None:
    # torch counts it as if there were no groups, though each output channel has the gradients of
    # its own group's input channels alone: as many operations as forward.
    image, weight = R(2, 4, 8, 8), R(6, 2, 3, 3)
    rest = ([1, 1], [1, 1], [1, 1], False, [0, 0], 2)
    forward = work_in(called(aten.convolution.default, image, weight, None, *rest)).flops
    args = (R(2, 6, 8, 8), image, weight, None, *rest, [False, True, False])
    backward = called(aten.convolution_backward.default, *args)
    assert work_in(backward).flops == forward
    assert counted_by_torch(lambda: backward.op(*args)) == 2 * forward


def test_an_op_of_torchs_registry_is_counted_by_its_formula() -> None:
    query = on_meta(2, 6, 4, 8)
    args = (query, query, query, None, None, 6, 6, 0.0, False, False)
    op = aten._flash_attention_forward.default
    assert formula_of("aten::_flash_attention_forward") is None
    work = work_of(op, metas(args), {}, [meta(2, 6, 4, 8), meta(2, 4, 6)])
    theirs = FlopCounterMode(display=False).flop_registry[op.overloadpacket](*args, out_val=None)
    assert work.flops == theirs > 0
    assert work.dtype == torch.float32


def test_flops_are_done_in_the_type_of_the_operands() -> None:
    half = torch.bfloat16
    assert work_in(called(*CALLS["mm"][:1], *CALLS["mm"][1])).dtype == torch.float32
    assert work_in(called(CALLS["_scaled_mm"][0], *CALLS["_scaled_mm"][1])).dtype == FP8
    indices = meta(3, 5, dtype=half), meta(5, 7, dtype=half)
    assert work_of(aten.mm.default, indices, {}, meta(3, 7, dtype=half)).dtype == half
    assert work_of(aten.add.Tensor, indices, {}, meta(3, 5, dtype=half)).dtype is None
