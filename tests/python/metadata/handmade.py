"""Calls that torch's samples do not make: optimizers, attention, odd shapes, and refused ones."""

from __future__ import annotations

import torch

from ..parity.opinfo_recorder import RecordedCall
from ..parity.sketch import Sketch

__all__ = ["FINE", "REFUSED"]

T = Sketch
F64, HALF, INT, BOOL = torch.float64, torch.bfloat16, torch.int64, torch.bool
NHWC = T((2, 3, 4, 5), torch.float32, (60, 1, 15, 3))
IMAGE = T((2, 3, 8, 8))
HEADS = T((2, 4, 16, 8))
NONE = T((0, 3))
SCALAR = T(())
MATRIX, TURNED = T((4, 6)), T((4, 6), torch.float32, (1, 4))
SPREAD = T((4, 6), torch.float32, (0, 1))


def _call(op: str, *args: object, **kwargs: object) -> RecordedCall:
    return RecordedCall(f"aten.{op}", args, kwargs)


_PARAMETERS = [T((4, 4)), T((4,)), T((4, 4)), T((2, 3), HALF)]
_STEPS = [SCALAR] * 4
_RATES = {"beta1": 0.9, "beta2": 0.99, "weight_decay": 0.0, "eps": 1e-8}
_ADAM = {"lr": 0.1, **_RATES, "amsgrad": False, "maximize": False}

FINE = [
    _call("add.Tensor", MATRIX, SCALAR),
    _call("add.Tensor", T((), INT), T((), F64)),
    _call("add.Tensor", T((3,), INT), 1.5),
    _call("add.Tensor", MATRIX, TURNED, alpha=2),
    _call("add.Tensor", TURNED, TURNED),
    _call("add.Tensor", SPREAD, SPREAD),
    _call("add.Tensor", NONE, T((1, 3))),
    _call("add_.Tensor", TURNED, MATRIX),
    _call("add.out", MATRIX, MATRIX, out=TURNED),
    _call("add.out", MATRIX, MATRIX, out=T((0,))),
    _call("mul.Tensor", NHWC, T((3, 1, 1))),
    _call("mul.Tensor", NHWC, NHWC),
    _call("div.Tensor", T((3,), INT), T((3,), INT)),
    _call("relu.default", NHWC),
    _call("silu.default", TURNED),
    _call("gelu.default", NHWC, approximate="tanh"),
    _call("clone.default", NHWC),
    _call("clone.default", NHWC, memory_format=torch.contiguous_format),
    _call("mm.default", TURNED, T((6, 2))),
    _call("mm.default", NONE, T((3, 2))),
    _call("mm.default", MATRIX, T((6, 0))),
    _call("bmm.default", T((2, 3, 4)), T((2, 4, 5), torch.float32, (20, 1, 4))),
    _call("addmm.default", T((5,)), MATRIX, T((6, 5)), beta=0.5),
    _call("sum.dim_IntList", NHWC, [1], True, dtype=F64),
    _call("sum.default", T((3,), BOOL)),
    _call("mean.dim", NHWC, None),
    _call("var_mean.correction", NHWC, [0, 2], correction=1, keepdim=True),
    _call("max.dim", TURNED, 0),
    _call("topk.default", TURNED, 2, 0),
    _call("sort.default", TURNED, 0),
    _call("cat.default", [NHWC, NHWC], 1),
    _call("cat.default", [MATRIX, T((0,)), TURNED], 0),
    _call("stack.default", [TURNED, TURNED], -1),
    _call("split.Tensor", TURNED, 3, 1),
    _call("unbind.int", MATRIX, 1),
    _call("view.default", MATRIX, [2, 12]),
    _call("view.default", T((0, 5, 1), torch.float32, (5, 1, 5)), [0, 5, 1]),
    _call("expand.default", T((6,)), [1, 2, 6]),
    _call("slice.Tensor", TURNED, 1, 1, 9, 2),
    _call("select.int", TURNED, -1, 2),
    _call("transpose.int", NHWC, 1, 3),
    _call("transpose_.default", MATRIX, 0, 1),
    _call("squeeze_.dim", T((1, 4)), 0),
    _call("unsqueeze_.default", MATRIX, 1),
    _call("resize_.default", MATRIX, [2, 3]),
    _call("copy_.default", TURNED, T((6,), HALF)),
    _call("_to_copy.default", NHWC, dtype=HALF),
    _call("_to_copy.default", NHWC, dtype=HALF, device=torch.device("cpu")),
    _call("new_zeros.default", MATRIX, [3, 2]),
    _call("new_empty.default", MATRIX, [3, 2], device=torch.device("cpu"), pin_memory=False),
    _call("ones_like.default", NHWC, pin_memory=False),
    _call("full_like.default", NHWC, 1, dtype=INT, memory_format=torch.preserve_format),
    _call("mm.default", MATRIX, T((6, 2), HALF)),
    _call("bitwise_and.Tensor", MATRIX, MATRIX),
    _call("index.Tensor", MATRIX, [None, T((3,), INT)]),
    _call("index_put_.default", MATRIX, [T((3,), INT)], SCALAR),
    _call("embedding.default", MATRIX, T((2, 3), INT)),
    _call("embedding_dense_backward.default", T((2, 3, 6)), T((2, 3), INT), 4, -1, False),
    _call("gather.default", MATRIX, 1, T((4, 2), INT)),
    _call("scatter_add.default", MATRIX, 1, T((4, 2), INT), MATRIX),
    _call("where.self", T((4, 1), BOOL), MATRIX, TURNED),
    _call("masked_fill.Scalar", TURNED, T((6,), BOOL), 0),
    _call("tril.default", TURNED, 1),
    _call("native_dropout.default", NHWC, 0.5, True),
    _call("bernoulli.p", NHWC, 0.5),
    _call("normal_.default", TURNED),
    _call("native_layer_norm.default", NHWC, [5], T((5,)), T((5,)), 1e-5),
    _call("native_layer_norm.default", T((2, 3, 4), HALF), [4], T((4,), HALF), None, 1e-5),
    _call(
        "native_layer_norm_backward.default",
        *(T((2, 3, 4)), T((2, 3, 4)), [4], T((2, 3, 1)), T((2, 3, 1)), T((4,)), T((4,))),
        [True, False, True],
    ),
    _call("native_group_norm.default", NHWC, T((3,)), T((3,)), 2, 3, 20, 3, 1e-5),
    _call("native_batch_norm.default", NHWC, T((3,)), T((3,)), T((3,)), T((3,)), True, 0.1, 1e-5),
    _call("_fused_rms_norm.default", T((2, 3, 4), HALF), [4], T((4,), HALF), 1e-5),
    _call("_softmax.default", NHWC, 1, False),
    _call("_log_softmax.default", T((3, 4), HALF), 1, True),
    _call("nll_loss_forward.default", T((4, 6)), T((4,), INT), None, 1, -100),
    _call(
        "convolution.default",
        *(NHWC, T((4, 3, 2, 2)), T((4,)), [1, 1], [0, 0], [1, 1], False, [0, 0], 1),
    ),
    _call("max_pool2d_with_indices.default", NHWC, [2, 2], [1, 1]),
    _call("_adaptive_avg_pool2d.default", NHWC, [2, 2]),
    _call("upsample_nearest2d.default", NHWC, [8, 10]),
    _call("constant_pad_nd.default", NHWC, [1, 2]),
    _call("_scaled_dot_product_flash_attention.default", HEADS, HEADS, HEADS),
    _call("_scaled_dot_product_efficient_attention.default", HEADS, HEADS, HEADS, None, True),
    _call("_scaled_dot_product_flash_attention_for_cpu.default", HEADS, HEADS, HEADS),
    _call("_scaled_dot_product_fused_attention_overrideable.default", HEADS, HEADS, HEADS),
    _call("_foreach_add.List", _PARAMETERS, _PARAMETERS, alpha=2),
    _call("_foreach_mul_.Scalar", _PARAMETERS, 0.5),
    _call("_foreach_norm.Scalar", _PARAMETERS, 2),
    _call("_foreach_add.List", [MATRIX] * 300, [TURNED] * 300),
    _call(
        "_fused_adamw_.default",
        *(_PARAMETERS, _PARAMETERS, _PARAMETERS, _PARAMETERS, [], _STEPS),
        **_ADAM,
    ),
    _call(
        "_fused_adam.default",
        *(_PARAMETERS, _PARAMETERS, _PARAMETERS, _PARAMETERS, [], _STEPS),
        **_ADAM,
    ),
    _call("lerp_.Scalar", MATRIX, TURNED, 0.1),
    _call("addcdiv_.default", MATRIX, MATRIX, MATRIX, value=-1),
    _call("addcmul_.default", MATRIX, MATRIX, TURNED, value=0.1),
    _call("equal.default", MATRIX, MATRIX),
    _call("arange.default", 7),
    _call("empty.memory_format", [2, 3]),
    _call("linear.default", T((2, 3, 6)), T((5, 6)), T((5,))),
    _call("matmul.default", T((2, 3, 6)), T((6, 5))),
    _call("reshape.default", TURNED, [24]),
]

# What torch refuses, each for another reason.
REFUSED = [
    _call("add.Tensor", T((3,)), T((4,))),
    _call("add_.Tensor", T((3,)), T((2, 3))),
    _call("add_.Tensor", T((3,), INT), T((3,))),
    _call("add.out", T((3,)), T((3,)), out=T((3,), INT)),
    _call("mm.default", MATRIX, MATRIX),
    _call("bmm.default", MATRIX, MATRIX),
    _call("addmm.default", T((7,)), MATRIX, T((6, 5))),
    _call("cat.default", [MATRIX, T((4, 7))], 0),
    _call("cat.default", [MATRIX, MATRIX], 5),
    _call("stack.default", [MATRIX, T((3,))], 0),
    _call("sum.dim_IntList", MATRIX, [0, 0]),
    _call("view.default", TURNED, [24]),
    _call("view.default", MATRIX, [5, 5]),
    _call("expand.default", T((6,)), [2, 5]),
    _call("select.int", MATRIX, 0, 9),
    _call("squeeze.dim", MATRIX, 7),
    _call("gather.default", MATRIX, 1, T((4, 2))),
    _call("embedding.default", T((4,)), T((2,), INT)),
    _call("nonzero.default", MATRIX),
    _call("masked_select.default", MATRIX, T((4, 6), BOOL)),
    _call("_local_scalar_dense.default", SCALAR),
    _call("_foreach_add.List", [MATRIX], [MATRIX, MATRIX]),
    _call("topk.default", MATRIX, 9),
    _call("linalg_vector_norm.default", T((3,), INT)),
    _call("dot.default", T((3,)), T((4,))),
    _call("native_layer_norm.default", MATRIX, [5], None, None, 1e-5),
    _call("_to_copy.default", MATRIX, dtype=HALF, pin_memory=True),
    _call("_to_copy.default", MATRIX, dtype=HALF, layout=torch.sparse_coo),
]
