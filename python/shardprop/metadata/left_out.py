"""Ops that are left to fake tensors though they have a meta kernel, and why.

Found by reading what torch's Python meta kernels and decompositions do with a tensor's device
(`device.type`, `is_cuda`, `device_hint`), and by comparing answers. Names without a namespace are
of aten. An op that is listed neither here nor in `admitted.py` was not compared, or is composite,
or makes tensors from none.
"""

from __future__ import annotations

__all__ = ["CHANGED_BY_AUTOCAST", "LEFT_OUT"]

_BY_REASON = {
    "the layout of its result depends on device and backend": """
        _convolution.default _convolution.deprecated convolution.default
        convolution_backward.default cudnn_convolution.default miopen_convolution.default
        mkldnn_convolution.default convolution_overrideable.default
        convolution_backward_overrideable.default
        native_group_norm.default native_group_norm.out native_group_norm_backward.default
        native_group_norm_backward.out
        _upsample_nearest_exact1d.default _upsample_nearest_exact2d.default
        _upsample_nearest_exact3d.default upsample_nearest1d.default upsample_nearest2d.default
        upsample_nearest3d.default upsample_linear1d.default upsample_bilinear2d.default
        upsample_trilinear3d.default upsample_bicubic2d.default _upsample_bilinear2d_aa.default
        _upsample_bicubic2d_aa.default upsample_nearest2d_backward.default
        _upsample_nearest_exact2d_backward.default
        max_unpool2d.default max_unpool2d.out max_unpool3d.default max_unpool3d.out
        pixel_shuffle.default channel_shuffle.default
        reflection_pad1d.default reflection_pad2d.default reflection_pad3d.default
        replication_pad1d.default replication_pad2d.default replication_pad3d.default
        nonzero_static.default nonzero_static.out
        _fft_c2c.default _fft_c2c.out _fft_c2r.default _fft_c2r.out _fft_r2c.default _fft_r2c.out
        _linalg_svd.default _linalg_svd.U linalg_eig.default linalg_eig.out
        linalg_pinv.atol_rtol_tensor linalg_pinv.atol_rtol_tensor_out
    """,
    "its statistics differ in shape or dtype between CPU and CUDA": """
        native_batch_norm.default native_batch_norm.out _native_batch_norm_legit.default
        _native_batch_norm_legit.out _native_batch_norm_legit.no_stats
        _native_batch_norm_legit.no_stats_out _native_batch_norm_legit_functional.default
        _native_batch_norm_legit_no_training.default _batch_norm_with_update.default
        _batch_norm_with_update_functional.default _batch_norm_no_update.default
        batch_norm_backward.default cudnn_batch_norm.default miopen_batch_norm.default
        native_layer_norm.default native_layer_norm.out
    """,
    "its buffers are for one device only": """
        log_sigmoid_forward.default log_sigmoid_forward.output
        _embedding_bag.default _embedding_bag_forward_only.default
        _scaled_dot_product_flash_attention.default
        _scaled_dot_product_efficient_attention.default _scaled_dot_product_cudnn_attention.default
        _scaled_dot_product_flash_attention_for_cpu.default
        _scaled_dot_product_fused_attention_overrideable.default
        _flash_attention_forward.default _efficient_attention_forward.default
        _cudnn_attention_forward.default
    """,
    "its kernel asks for the device, to check what that can do": """
        median.dim median.dim_values nanmedian.dim nanmedian.dim_values mode.default mode.values
        histc.default histc.out grid_sampler_3d.default grid_sampler_3d.out
        mm.dtype mm.dtype_out bmm.dtype bmm.dtype_out addmm.dtype addmm.dtype_out baddbmm.dtype
        baddbmm.dtype_out
        _scaled_mm.default _scaled_mm.out _scaled_mm_v2.default _scaled_grouped_mm.default
        _scaled_grouped_mm_v2.default _grouped_mm.default
    """,
    "torch's fake kernel is in Python and has its own strides for dims of size 1": """
        view.default view_copy.default _unsafe_view.default _reshape_copy.default
    """,
    "its result depends on data": """
        _ctc_loss.default _ctc_loss.Tensor _local_scalar_dense.default _unique.default
        _unique2.default unique_dim.default unique_consecutive.default allclose.default
        equal.default bincount.default index.Tensor masked_select.default masked_select.out
        nonzero.default nonzero.out repeat_interleave.Tensor _to_sparse.default
        _to_sparse.sparse_dim histogram.bin_ct histogram.bin_ct_out histogram.bins_tensor
        histogram.bins_tensor_out
    """,
    "it has no meta kernel: torch runs the real one on zeros": """
        _ctc_loss_backward.Tensor _ctc_loss_backward.default _histogramdd_bin_edges.default
        _histogramdd_from_bin_cts.default _histogramdd_from_bin_tensors.default
        fractional_max_pool3d_backward.default geqrf.a geqrf.default linalg_lstsq.default
        linalg_lstsq.out multi_margin_loss_backward.default multilabel_margin_loss_backward.default
    """,
}


LEFT_OUT = {f"aten.{op}": reason for reason, ops in _BY_REASON.items() for op in ops.split()}

# Under autocast these are left to fake tensors as well, for it changes their operands, or those of
# an op that their kernel calls. In a program DTensor sees them after that, with autocast out of
# the way; `shardprop.propagation.query` may see them before.
CHANGED_BY_AUTOCAST = frozenset(
    f"aten.{name}.default"
    for name in (
        *("addbmm", "addmm", "addmv", "addr", "baddbmm", "binary_cross_entropy", "bmm", "mm", "mv"),
    )
)
