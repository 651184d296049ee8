"""Calls of ops that have no rule in some torch we support: op, arguments, and where tensors go.

A tensor is written as its shape, in a list; ("i64", shape) is one of integers. The shapes are small
and have dims of different sizes, so that a shard of the wrong dim shows.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch

aten = torch.ops.aten


class T(NamedTuple):
    """A tensor operand."""

    shape: tuple[int, ...]
    dtype: torch.dtype = torch.float32


def t(*shape: int) -> T:
    return T(shape)


def i(*shape: int) -> T:
    return T(shape, torch.int64)


def c(*shape: int) -> T:
    return T(shape, torch.complex64)


class Call(NamedTuple):
    op: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any] = {}  # noqa: RUF012

    @property
    def name(self) -> str:
        return str(self.op).removeprefix("aten.")


_ONE = t(8, 4)
_TWO = (t(8, 4), t(8, 4))
_IMAGE = t(2, 4, 6, 6)

CALLS = (
    Call(aten._euclidean_dist.default, (t(8, 4), t(6, 4))),
    Call(aten._prelu_kernel.default, (t(8, 4), t(4))),
    Call(aten._unsafe_index.Tensor, (_ONE, [i(3), None])),
    Call(aten.adaptive_avg_pool2d.default, (_IMAGE, [1, 1])),
    Call(aten.addmv.default, (t(8), t(8, 4), t(4)), {"beta": 2}),
    Call(aten.addmv_.default, (t(8), t(8, 4), t(4))),
    Call(aten.addr.default, (t(8, 4), t(8), t(4))),
    Call(aten.alias_copy.default, (_ONE,)),
    Call(aten.all.dims, (_ONE, [0])),
    Call(aten.aminmax.default, (_ONE,), {"dim": 1}),
    Call(aten.argsort.default, (_ONE,)),
    Call(aten.atleast_2d.default, (t(8),)),
    Call(aten.binary_cross_entropy.default, _TWO),
    Call(aten.binary_cross_entropy_backward.default, (t(), *_TWO)),
    Call(aten.binary_cross_entropy_with_logits.default, _TWO),
    Call(aten.broadcast_to.default, (t(1, 4), [8, 4])),
    Call(aten.channel_shuffle.default, (_IMAGE, 2)),
    Call(aten.chunk.default, (_ONE, 2)),
    Call(aten.complex.default, _TWO),
    Call(aten.conv2d.default, (_IMAGE, t(4, 4, 3, 3))),
    Call(aten.count_nonzero.dim_IntList, (_ONE, [0])),
    Call(aten.cross.default, (t(8, 3), t(8, 3), 1)),
    Call(aten.cross_entropy_loss.default, (t(8, 4), i(8))),
    Call(aten.diagonal_backward.default, (t(4), [8, 4], 0, 0, 1)),
    Call(aten.dist.default, _TWO),
    Call(aten.divide.Tensor, (t(8, 4), t(4))),
    Call(aten.dropout.default, (_ONE, 0.5, True)),
    Call(aten.elu_backward.default, (_ONE, 1.0, 1, 1, False, _ONE)),
    Call(aten.expand_as.default, (t(1, 4), t(8, 4))),
    Call(aten.fft_fftshift.default, (_ONE,)),
    Call(aten.flatten.using_ints, (t(2, 4, 6),)),
    Call(aten.floor_divide.default, (t(8, 4), t(4))),
    Call(aten.floor_divide_.Tensor, (t(8, 4), t(4))),
    Call(aten.glu.default, (_ONE, 1)),
    Call(aten.glu_backward.default, (t(8, 2), t(8, 4), 1)),
    Call(aten.hardsigmoid_backward.default, _TWO),
    Call(aten.hardswish.default, (_ONE,)),
    Call(aten.hardswish_.default, (_ONE,)),
    Call(aten.huber_loss.default, _TWO),
    Call(aten.huber_loss_backward.default, (t(8, 4), *_TWO, 0, 1.0)),
    Call(aten.index_add.default, (t(8, 4), 0, i(3), t(3, 4))),
    Call(aten.index_copy_.default, (t(8, 4), 1, i(3), t(8, 3))),
    Call(aten.inner.default, (t(8, 4), t(6, 4))),
    Call(aten.isin.Tensor_Tensor, (t(8, 4), t(3))),
    Call(aten.isreal.default, (c(8, 4),)),
    Call(aten.kron.default, (t(2, 3), t(4, 2))),
    Call(aten.leaky_relu_backward.default, (*_TWO, 0.1, False)),
    Call(aten.linalg_norm.default, (_ONE,)),
    Call(aten.linalg_vecdot.default, _TWO),
    Call(aten.log_sigmoid_forward.default, (_ONE,)),
    Call(aten.log_softmax.int, (_ONE, 1)),
    Call(aten.logcumsumexp.default, (_ONE, 0)),
    Call(aten.masked_fill.Tensor, (_ONE, T((8, 4), torch.bool), t())),
    Call(aten.masked_fill_.Tensor, (_ONE, T((4,), torch.bool), t())),
    Call(aten.matmul.default, (t(2, 8, 4), t(4, 6))),
    Call(aten.mish_backward.default, _TWO),
    Call(aten.mse_loss.default, _TWO),
    Call(aten.mse_loss.out, _TWO, {"out": t()}),
    Call(aten.mse_loss_backward.default, (t(), *_TWO, 1)),
    Call(aten.mv.default, (t(8, 4), t(4))),
    Call(aten.mv.out, (t(8, 4), t(4)), {"out": t(8)}),
    Call(aten.narrow_copy.default, (_ONE, 0, 2, 4)),
    Call(aten.nll_loss.default, (t(8, 4), i(8))),
    Call(aten.outer.default, (t(8), t(4))),
    Call(aten.pairwise_distance.default, _TWO),
    Call(aten.permute_copy.default, (t(2, 4, 6), [2, 0, 1])),
    Call(aten.pixel_shuffle.default, (_IMAGE, 2)),
    Call(aten.reshape.default, (t(2, 4, 6), [8, 6])),
    Call(aten.rot90.default, (_ONE,)),
    Call(aten.rot90.out, (_ONE,), {"out": t(4, 8)}),
    Call(aten.rsub.Tensor, (t(8, 4), t(4))),
    Call(aten.smooth_l1_loss.default, _TWO),
    Call(aten.smooth_l1_loss_backward.default, (t(), *_TWO, 1, 1.0)),
    Call(aten.soft_margin_loss.default, _TWO),
    Call(aten.softplus_backward.default, (*_TWO, 1, 20)),
    Call(aten.squeeze_copy.dim, (t(8, 1, 4), 1)),
    Call(aten.std.dim, (_ONE, [0])),
    Call(aten.std_mean.default, (_ONE,)),
    Call(aten.t_copy.default, (_ONE,)),
    Call(aten.take.default, (t(8, 4), i(3))),
    Call(aten.tensor_split.sections, (_ONE, 2)),
    Call(aten.to.dtype, (_ONE, torch.float64)),
    Call(aten.trace.default, (_ONE,)),
    Call(aten.unbind_copy.int, (t(2, 4),)),
    Call(aten.unsafe_split.Tensor, (_ONE, 2, 1)),
    Call(aten.unsqueeze_copy.default, (_ONE, 1)),
    Call(aten.var_mean.dim, (_ONE, [1])),
    Call(aten.vdot.default, (t(8), t(8))),
    Call(aten.view_as.default, (t(8, 4), t(2, 4, 4))),
    Call(aten.where.ScalarOther, (T((8, 4), torch.bool), _ONE, 2.0)),
)

# torch refuses these: a factory is called inside their decomposition.
WITH_FACTORIES = (
    Call(aten.hardswish_backward.default, _TWO),
    Call(aten.log_sigmoid_backward.default, (*_TWO, t(8, 4))),
    Call(aten.cosine_similarity.default, _TWO),
    Call(aten.im2col.default, (_IMAGE, [3, 3], [1, 1], [0, 0], [1, 1])),
    Call(aten.linspace.Tensor_Scalar, (t(), 4.0, 6), {"device": torch.device("cpu")}),
    Call(aten.logdet.default, (t(4, 3, 3),)),
    Call(aten.multi_margin_loss.default, (t(8, 4), i(8)), {"reduction": 0}),
    Call(aten.multi_margin_loss.default, (t(8, 4), i(8))),
    Call(aten.renorm.default, (t(8, 4), 2, 0, 1.0)),
)

# Of these only the all-Replicate row is safe: a point of a line is no sum of such points, and an
# average over ranks is right for even shards alone.
ONLY_REPLICATED = (
    Call(aten.linspace.Tensor_Scalar, (t(), 4.0, 6), {"device": torch.device("cpu")}),
)
