"""Ops that make, view, join, reduce, index and multiply tensors."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from ..._core import Category, ReductionFlag, ReductionResult
from .form import Form, Param

__all__ = ["tensor_forms"]

_FLOAT = Category.FLOAT
_NUMBERS = Category.INT | _FLOAT
_REAL = Category.BOOL | _NUMBERS
_ANY = _REAL | Category.COMPLEX
_NO_DIMS_IS_ODD = ReductionFlag.NO_DIMS_IS_ODD


def _created() -> Iterator[tuple[str, Form]]:
    for name in ("alias", "detach", "lift_fresh"):
        yield name, Form("same", (0, _ANY))
    for name in ("zero_", "fill_.Scalar"):
        yield name, Form("same", (1, _ANY))
    for name in ("bernoulli_.float", "uniform_"):
        yield name, Form("same", (1, _FLOAT))
    for name in ("empty_like", "full_like", "ones_like", "zeros_like"):
        yield name, Form("like", ("dtype", "memory_format", 1, _ANY))
    for name in ("rand_like", "randn_like"):
        yield name, Form("like", ("dtype", "memory_format", 1, _FLOAT))
    yield "bernoulli", Form("like", (-1, -1, 0, _ANY))
    for name in ("new_empty", "new_full", "new_ones", "new_zeros"):
        yield name, Form("new_of_sizes", ("size", "dtype"))
    yield "new_empty_strided", Form("new_strided", ("size", "stride", "dtype"))
    yield "_to_copy", Form("to_copy", ("dtype", "memory_format"))
    yield "clone", Form("clone")
    yield "native_dropout", Form("dropout")
    for name in ("_fused_adam_", "_fused_adamw_", "_fused_sgd_"):
        yield name, Form("nothing")


def _multiplied() -> Iterator[tuple[str, Form]]:
    for name in ("addmm", "baddbmm", "bmm", "dot", "mm", "mv"):
        yield name, Form(name)


def _viewed() -> Iterator[tuple[str, Form]]:
    for name in ("view", "_unsafe_view"):
        yield name, Form("view")
    yield "transpose.int", Form("transpose")
    for name in ("expand", "permute", "squeeze", "t", "unsqueeze"):
        yield name, Form(name)
    yield "squeeze.dim", Form("squeeze")
    yield "squeeze.dims", Form("squeeze")
    yield "select.int", Form("select")
    yield "repeat", Form("repeat")
    yield "slice.Tensor", Form("slice")
    yield "split.Tensor", Form("split")
    yield "split_with_sizes", Form("split_with_sizes")
    yield "unbind.int", Form("unbind")


def _reduction(
    result: ReductionResult = ReductionResult.OWN,
    kinds: Category = _ANY,
    flags: int = 0,
    dim: Param = "dim",
    family: str = "reduce",
) -> Form:
    return Form(family, (dim, "keepdim", "dtype", result, kinds, flags))


def _reduced() -> Iterator[tuple[str, Form]]:
    for overload in ("sum", "sum.dim_IntList", "prod", "prod.dim_int"):
        yield overload, _reduction(ReductionResult.INT_TO_INT64)
    for overload in ("mean", "mean.dim"):
        yield overload, _reduction(kinds=_FLOAT | Category.COMPLEX)
    for name in ("amax", "amin", "max", "min"):
        yield name, _reduction(kinds=_REAL)
    for name in ("max.dim", "min.dim"):
        yield name, _reduction(kinds=_REAL, family="reduce_pair")
    for name in ("argmax", "argmin"):
        yield name, _reduction(ReductionResult.TO_INT64, _NUMBERS)
    for name in ("all", "all.dim", "all.dims", "any", "any.dim", "any.dims"):
        yield (
            name,
            _reduction(
                ReductionResult.TO_BOOL, Category.BOOL | _FLOAT, ReductionFlag.NO_DIMS_IS_ODD
            ),
        )
    for name in ("var.correction", "std.correction"):
        yield name, _reduction(kinds=_FLOAT)
    yield "logsumexp", _reduction(kinds=_FLOAT, flags=_NO_DIMS_IS_ODD)
    for name in ("linalg_vector_norm", "norm.ScalarOpt_dim"):
        yield name, _reduction(kinds=_FLOAT, flags=ReductionFlag.NEVER_NARROWS)
    yield (
        "_foreach_norm.Scalar",
        Form("reduce", (-1, -1, "dtype", ReductionResult.OWN, _FLOAT, 0), each_element=True),
    )
    for name in ("cumsum", "cumprod"):
        yield name, _reduction(ReductionResult.INT_TO_INT64, family="scan")


def _indexed() -> Iterator[tuple[str, Form]]:
    yield "cat", Form("cat")
    yield "stack", Form("stack")
    yield "embedding", Form("embedding")
    yield "embedding_dense_backward", Form("embedding_backward")
    yield "index_select", Form("index_select")
    yield "select_backward", Form("select_backward")
    yield "slice_backward", Form("slice_backward")
    yield "gather", Form("gather")
    for name in ("scatter.src", "scatter.value", "scatter_add"):
        yield name, Form("scatter", (0,))
    for name in ("scatter_.src", "scatter_.value", "scatter_add_"):
        yield name, Form("scatter", (1,))
    yield "topk", Form("top_k")
    yield "sort", Form("sort", ("dim",))
    yield "sort.stable", Form("sort", ("dim",))


def _normalized() -> Iterator[tuple[str, Form]]:
    for name in ("_softmax", "_log_softmax"):
        yield name, Form("softmax")
    for name in ("_softmax_backward_data", "_log_softmax_backward_data"):
        yield name, Form("softmax_backward")
    yield "native_layer_norm", Form("layer_norm", needs_device=True)
    yield "native_layer_norm_backward", Form("layer_norm_backward")
    yield "native_group_norm", Form("group_norm")
    yield "_fused_rms_norm", Form("rms_norm")
    yield "_fused_rms_norm_backward", Form("rms_norm_backward")
    yield "nll_loss_forward", Form("nll_loss")
    yield "nll_loss_backward", Form("nll_loss_backward")


def _attended() -> Iterator[tuple[str, Form]]:
    if torch.version.hip:
        return  # some of it is of other sizes there
    packet = "_scaled_dot_product"
    yield f"{packet}_flash_attention", Form("flash_attention", needs_device=True)
    yield (
        f"{packet}_flash_attention_backward",
        Form("flash_attention_backward", may_lack=("cum_seq_q", "cum_seq_k")),
    )
    yield f"{packet}_efficient_attention", Form("efficient_attention")
    inside = Form("heads_inside_backward", ("attn_bias",), may_lack=("attn_bias",))
    yield f"{packet}_efficient_attention_backward", inside
    yield f"{packet}_flash_attention_for_cpu", Form("cpu_attention")
    yield f"{packet}_flash_attention_for_cpu_backward", inside


def tensor_forms() -> Iterator[tuple[str, Form]]:
    """Names of aten ops, with overloads, and their forms; some are of one torch version only."""
    yield from _created()
    yield from _multiplied()
    yield from _viewed()
    yield from _reduced()
    yield from _indexed()
    yield from _normalized()
    yield from _attended()
