"""Ops whose meta kernel alone gives the metadata that torch finds with fake tensors.

Each was compared with torch, on every torch that is supported, for CPU and CUDA meshes, eager and
tracing (`tests/python/metadata/test_metadata.py` fails for one that is listed and not compared;
`python -m tests.python.metadata.run` names ops that agree and are not listed). The fake mode either
runs the very same kernel for them, or a function that was read: what looks at the device of a
tensor stands in `left_out.py`, and no overload of such an op is here.
"""

from __future__ import annotations

import re

__all__ = ["ADMITTED"]

# Names of ops of aten, each with its overloads.
_OVERLOADS = """
    __ilshift__(Scalar Tensor) __irshift__(Scalar Tensor) __lshift__(Scalar Scalar_out Tensor
    Tensor_out) __rshift__(Scalar Scalar_out Tensor Tensor_out) _adaptive_avg_pool2d(default out)
    _adaptive_avg_pool2d_backward(default out) _adaptive_avg_pool3d(default out)
    _adaptive_avg_pool3d_backward(default) _addmm_activation(default out)
    _amp_foreach_non_finite_check_and_unscale_(default) _cdist_backward(default)
    _cdist_forward(default) _chunk_cat(default out) _conj(default) _conj_physical(default)
    _embedding_bag_backward(default) _embedding_bag_per_sample_weights_backward(default)
    _euclidean_dist(default out) _foreach_abs(default) _foreach_abs_(default) _foreach_acos(default)
    _foreach_acos_(default) _foreach_add(List Scalar ScalarList Tensor) _foreach_add_(List Scalar
    ScalarList Tensor) _foreach_addcdiv(Scalar ScalarList) _foreach_addcdiv_(Scalar ScalarList)
    _foreach_addcmul(Scalar ScalarList) _foreach_addcmul_(Scalar ScalarList) _foreach_asin(default)
    _foreach_asin_(default) _foreach_atan(default) _foreach_atan_(default) _foreach_ceil(default)
    _foreach_ceil_(default) _foreach_clamp_max(List Scalar ScalarList) _foreach_clamp_max_(List
    Scalar ScalarList) _foreach_clamp_min(List Scalar ScalarList) _foreach_clamp_min_(List Scalar
    ScalarList) _foreach_clone(default) _foreach_copy_(default) _foreach_cos(default)
    _foreach_cos_(default) _foreach_cosh(default) _foreach_cosh_(default) _foreach_div(List Scalar
    ScalarList Tensor) _foreach_div_(List Scalar ScalarList Tensor) _foreach_erf(default)
    _foreach_erf_(default) _foreach_erfc(default) _foreach_erfc_(default) _foreach_exp(default)
    _foreach_exp_(default) _foreach_expm1(default) _foreach_expm1_(default) _foreach_floor(default)
    _foreach_floor_(default) _foreach_frac(default) _foreach_frac_(default) _foreach_lerp(List
    Scalar ScalarList) _foreach_lerp_(List Scalar ScalarList) _foreach_lgamma(default)
    _foreach_lgamma_(default) _foreach_log(default) _foreach_log10(default) _foreach_log10_(default)
    _foreach_log1p(default) _foreach_log1p_(default) _foreach_log2(default) _foreach_log2_(default)
    _foreach_log_(default) _foreach_max(default) _foreach_maximum(List Scalar ScalarList)
    _foreach_maximum_(List Scalar ScalarList) _foreach_minimum(List Scalar ScalarList)
    _foreach_minimum_(List Scalar ScalarList) _foreach_mm(default) _foreach_mul(List Scalar
    ScalarList Tensor) _foreach_mul_(List Scalar ScalarList Tensor) _foreach_neg(default)
    _foreach_neg_(default) _foreach_norm(Scalar) _foreach_pow(List Scalar ScalarAndTensor
    ScalarList) _foreach_pow_(List Scalar ScalarList) _foreach_powsum(Scalar)
    _foreach_reciprocal(default) _foreach_reciprocal_(default) _foreach_round(default)
    _foreach_round_(default) _foreach_rsqrt(default) _foreach_rsqrt_(default)
    _foreach_sigmoid(default) _foreach_sigmoid_(default) _foreach_sign(default)
    _foreach_sign_(default) _foreach_sin(default) _foreach_sin_(default) _foreach_sinh(default)
    _foreach_sinh_(default) _foreach_sqrt(default) _foreach_sqrt_(default) _foreach_sub(List Scalar
    ScalarList) _foreach_sub_(List Scalar ScalarList) _foreach_tan(default) _foreach_tan_(default)
    _foreach_tanh(default) _foreach_tanh_(default) _foreach_trunc(default) _foreach_trunc_(default)
    _foreach_zero_(default) _fused_rms_norm(default) _index_put_impl(out) _index_put_impl_(default)
    _linalg_check_errors(default) _linalg_det(default result) _linalg_eigh(default eigenvalues)
    _linalg_slogdet(default sign) _linalg_solve_ex(default) _log_softmax(default out)
    _log_softmax_backward_data(default out) _pdist_backward(default) _pdist_forward(default)
    _prelu_kernel(default) _prelu_kernel_backward(default) _safe_softmax(default)
    _scaled_dot_product_flash_attention_for_cpu_backward(default) _segment_reduce_backward(default)
    _softmax(default out) _softmax_backward_data(default out) _to_copy(default out)
    _trilinear(default) _unsafe_index_put(default) _unsafe_masked_index(default)
    _unsafe_masked_index_put_accumulate(default) _upsample_bicubic2d_aa_backward(default grad_input)
    _upsample_bilinear2d_aa_backward(default grad_input) _upsample_lanczos2d_aa(default out)
    _upsample_lanczos2d_aa_backward(default grad_input) _upsample_nearest_exact1d_backward(default
    grad_input) _upsample_nearest_exact3d_backward(default grad_input)
    _weight_norm_interface(default) abs(default out) abs_(default) acos(default out) acos_(default)
    acosh(default out) acosh_(default) adaptive_max_pool2d(default out)
    adaptive_max_pool2d_backward(default) adaptive_max_pool3d(default out)
    adaptive_max_pool3d_backward(default) add(Scalar Scalar_out Tensor out) add_(Scalar Tensor)
    addbmm(default out) addbmm_(default) addcdiv(default out) addcdiv_(default) addcmul(default out)
    addcmul_(default) addmm(default out) addmm_(default) addmv(default out) addmv_(default)
    addr(default out) addr_(default) affine_grid_generator(default out) alias(default)
    alias_copy(default out) all(all_out default dim dims dims_out out) amax(default out)
    amin(default out) aminmax(default out) angle(default out) any(all_out default dim dims dims_out
    out) arange(out start_out) argmax(default out) argmin(default out) as_strided(default)
    as_strided_(default) as_strided_copy(default out) as_strided_scatter(default out) asin(default
    out) asin_(default) asinh(default out) asinh_(default) atan(default out) atan2(default out)
    atan2_(default) atan_(default) atanh(default out) atanh_(default) avg_pool2d(default out)
    avg_pool2d_backward(default) avg_pool3d(default out) avg_pool3d_backward(default)
    baddbmm(default out) baddbmm_(default) bernoulli(default float_out out) bernoulli_(float)
    binary_cross_entropy(default out) binary_cross_entropy_backward(default grad_input)
    binary_cross_entropy_with_logits(default out) bitwise_and(Scalar Scalar_Tensor Scalar_Tensor_out
    Scalar_out Tensor Tensor_out) bitwise_and_(Scalar Tensor) bitwise_left_shift(Scalar_Tensor
    Scalar_Tensor_out Tensor Tensor_Scalar Tensor_Scalar_out Tensor_out) bitwise_left_shift_(Tensor
    Tensor_Scalar) bitwise_not(default out) bitwise_not_(default) bitwise_or(Scalar Scalar_Tensor
    Scalar_Tensor_out Scalar_out Tensor Tensor_out) bitwise_or_(Scalar Tensor)
    bitwise_right_shift(Scalar_Tensor Scalar_Tensor_out Tensor Tensor_Scalar Tensor_Scalar_out
    Tensor_out) bitwise_right_shift_(Tensor Tensor_Scalar) bitwise_xor(Scalar Scalar_Tensor
    Scalar_Tensor_out Scalar_out Tensor Tensor_out) bitwise_xor_(Scalar Tensor) block_diag(default
    out) bmm(default out) bucketize(Scalar Tensor Tensor_out) cat(default out) cauchy(default out)
    cauchy_(default) ceil(default out) ceil_(default) celu(default out) celu_(default)
    cholesky(default out) cholesky_inverse(default out) cholesky_solve(default out) clamp(Tensor
    Tensor_out default out) clamp_(Tensor default) clamp_max(Tensor Tensor_out default out)
    clamp_max_(Tensor default) clamp_min(Tensor Tensor_out default out) clamp_min_(Tensor default)
    clone(default out) complex(default out) conj_physical(out) conj_physical_(default)
    constant_pad_nd(default out) copy(out) copy_(default) copysign(Scalar Scalar_out Tensor out)
    copysign_(Scalar Tensor) cos(default out) cos_(default) cosh(default out) cosh_(default)
    count_nonzero(default dim_IntList dim_IntList_out out) cummax(default out) cummin(default out)
    cumprod(default out) cumprod_(default) cumsum(default out) cumsum_(default) deg2rad(default out)
    deg2rad_(default) detach(default) detach_(default) diag_embed(default out) diagonal(default)
    diagonal_backward(default out) diagonal_copy(default out) diagonal_scatter(default out)
    digamma(default out) digamma_(default) dist(default out) div(Scalar Scalar_mode Scalar_mode_out
    Scalar_out Tensor Tensor_mode out out_mode) div_(Scalar Scalar_mode Tensor Tensor_mode)
    dot(default out) elu(default out) elu_(default) elu_backward(default grad_input)
    embedding(default out) embedding_dense_backward(default) embedding_renorm_(default)
    empty_like(default) empty_strided(out) eq(Scalar Scalar_out Tensor Tensor_out) eq_(Scalar
    Tensor) erf(default out) erf_(default) erfc(default out) erfc_(default) erfinv(default out)
    erfinv_(default) exp(default out) exp2(default out) exp2_(default) exp_(default) expand(default)
    expand_copy(default out) expm1(default out) expm1_(default) exponential(default out)
    exponential_(default) fill(Scalar Scalar_out Tensor) fill_(Scalar Tensor) flip(default out)
    floor(default out) floor_(default) floor_divide(Scalar Scalar_out default out)
    floor_divide_(Scalar Tensor) fmax(default out) fmin(default out) fmod(Scalar Scalar_out Tensor
    Tensor_out) fmod_(Scalar Tensor) frac(default out) frac_(default) fractional_max_pool2d(default
    output) fractional_max_pool2d_backward(default) fractional_max_pool3d(default output)
    frexp(Tensor Tensor_out) full(out) full_like(default) gather(default out) gcd(default out)
    gcd_(default) ge(Scalar Scalar_out Tensor Tensor_out) ge_(Scalar Tensor) gelu(default out)
    gelu_(default) gelu_backward(default grad_input) geometric(default out) geometric_(default)
    glu(default out) glu_backward(default grad_input) grid_sampler_2d(default out)
    grid_sampler_2d_backward(default out) grid_sampler_3d_backward(default) gt(Scalar Scalar_out
    Tensor Tensor_out) gt_(Scalar Tensor) hann_window(out periodic_out) hardshrink(default out)
    hardshrink_backward(default) hardsigmoid(default out) hardsigmoid_(default)
    hardsigmoid_backward(default grad_input) hardswish(default out) hardswish_(default)
    hardswish_backward(default out) hardtanh(default out) hardtanh_(default)
    hardtanh_backward(default grad_input) hash_tensor(default out) heaviside(default out)
    heaviside_(default) huber_loss(default out) huber_loss_backward(default) hypot(default out)
    hypot_(default) i0(default out) i0_(default) igamma(default out) igamma_(default)
    igammac(default out) igammac_(default) index_add(default out) index_add_(default)
    index_copy(default out) index_copy_(default) index_fill(int_Scalar int_Scalar_out int_Tensor
    int_Tensor_out) index_fill_(int_Scalar int_Tensor) index_put(default out) index_put_(default)
    index_reduce(default out) index_reduce_(default) index_select(default out) is_same_size(default)
    isin(Scalar_Tensor Tensor_Scalar Tensor_Tensor Tensor_Tensor_out) isinf(default out)
    isnan(default out) isneginf(default out) isposinf(default out) kthvalue(default values)
    lcm(default out) lcm_(default) ldexp(Tensor out) ldexp_(default) le(Scalar Scalar_out Tensor
    Tensor_out) le_(Scalar Tensor) leaky_relu(default out) leaky_relu_(default)
    leaky_relu_backward(default grad_input) lerp(Scalar Scalar_out Tensor Tensor_out) lerp_(Scalar
    Tensor) lgamma(default out) lgamma_(default) lift(default out) lift_fresh(default)
    linalg__powsum(default) linalg_cholesky_ex(L default) linalg_cross(default out)
    linalg_eigvals(out) linalg_householder_product(default out) linalg_inv_ex(default inverse)
    linalg_ldl_factor_ex(default out) linalg_ldl_solve(default out) linalg_lu(default out)
    linalg_lu_factor_ex(default out) linalg_lu_solve(default out) linalg_matrix_exp(default out)
    linalg_matrix_sqrth(default) linalg_polar(default out) linalg_qr(default out)
    linalg_solve_triangular(default out) linalg_vector_norm(default out) linear(out) log(default
    out) log10(default out) log10_(default) log1p(default out) log1p_(default) log2(default out)
    log2_(default) log_(default) log_normal(default out) log_normal_(default)
    log_sigmoid_backward(default grad_input) log_softmax(int_out) logaddexp(default out)
    logaddexp2(default out) logcumsumexp(default out) logical_and(default out) logical_and_(default)
    logical_not(default out) logical_not_(default) logical_or(default out) logical_or_(default)
    logical_xor(default out) logical_xor_(default) logit(default out) logit_(default)
    logit_backward(default grad_input) logsumexp(default out) lt(Scalar Scalar_out Tensor
    Tensor_out) lt_(Scalar Tensor) lu_unpack(default out) masked_fill(Scalar Scalar_out Tensor
    Tensor_out) masked_fill_(Scalar Tensor) masked_scatter(default) masked_scatter_(default)
    masked_scatter_backward(default) max(default dim dim_max unary_out)
    max_pool2d_with_indices(default out) max_pool2d_with_indices_backward(default grad_input)
    max_pool3d_with_indices(default out) max_pool3d_with_indices_backward(default) maximum(default
    out) mean(default dim dtype_out out) median(default) min(default dim dim_min unary_out)
    minimum(default out) mish(default out) mish_(default) mish_backward(default) mm(default out)
    mse_loss(default out) mse_loss_backward(default grad_input) mul(Scalar Scalar_out Tensor out)
    mul_(Scalar Tensor) multi_margin_loss(default out) multilabel_margin_loss_forward(default
    output) multinomial(default out) mv(default out) mvlgamma(default out) mvlgamma_(default)
    nan_to_num(default out) nan_to_num_(default) nanmedian(default) nansum(default out)
    narrow_copy(default out) native_batch_norm_backward(default out) native_dropout(default out)
    native_dropout_backward(default out) native_layer_norm_backward(default out) ne(Scalar
    Scalar_out Tensor Tensor_out) ne_(Scalar Tensor) neg(default out) neg_(default)
    new_empty(default) new_empty_strided(default) new_full(default) new_ones(default)
    new_zeros(default) nextafter(default out) nextafter_(default) nll_loss2d_backward(default
    grad_input) nll_loss2d_forward(default output) nll_loss_backward(default grad_input)
    nll_loss_forward(default output) norm(Scalar ScalarOpt_dim ScalarOpt_dim_dtype ScalarOpt_dtype
    ScalarOpt_dtype_out Scalar_out dtype_out out) normal(Tensor_Tensor Tensor_Tensor_out
    Tensor_float Tensor_float_out float_Tensor float_Tensor_out float_float_out) normal_(default)
    normal_functional(default) ones(out) ones_like(default) ormqr(default out) permute(default)
    permute_copy(default out) pixel_unshuffle(default out) polar(default out) polygamma(default out)
    polygamma_(default) pow(Scalar Scalar_out Tensor_Scalar Tensor_Scalar_out Tensor_Tensor
    Tensor_Tensor_out) pow_(Scalar Tensor) prod(default dim_int int_out out) put(default)
    put_(default) rad2deg(default out) rad2deg_(default) rand_like(default) randint_like(default
    low_dtype) randn_like(default) reciprocal(default out) reciprocal_(default)
    reflection_pad1d_backward(default grad_input) reflection_pad2d_backward(default grad_input)
    reflection_pad3d_backward(default grad_input) relu(default out) relu_(default) remainder(Scalar
    Scalar_Tensor Scalar_Tensor_out Scalar_out Tensor Tensor_out) remainder_(Scalar Tensor)
    renorm(default out) renorm_(default) repeat(default out) replication_pad1d_backward(default)
    replication_pad2d_backward(default) replication_pad3d_backward(default) resize_(default)
    resize_as(default) resize_as_(default) roll(default out) rot90(default out) round(decimals
    decimals_out default out) round_(decimals default) rrelu_with_noise(default out)
    rrelu_with_noise_(default) rrelu_with_noise_backward(default out)
    rrelu_with_noise_functional(default) rsqrt(default out) rsqrt_(default) rsub(Scalar Scalar_out
    Tensor Tensor_out) scatter(reduce reduce_out src src_out value value_out) scatter_(reduce src
    value value_reduce) scatter_add(default out) scatter_add_(default) scatter_reduce(two two_out)
    scatter_reduce_(two) segment_reduce(default) select(int) select_backward(default out)
    select_scatter(default out) sgn(default out) sgn_(default) sigmoid(default out)
    sigmoid_(default) sigmoid_backward(default grad_input) sign(default out) sign_(default)
    signbit(default out) silu(default out) silu_(default) silu_backward(default grad_input)
    sin(default out) sin_(default) sinc(default out) sinc_(default) sinh(default out) sinh_(default)
    slice(Tensor) slice_backward(default out) slice_scatter(default out) smooth_l1_loss(default out)
    smooth_l1_loss_backward(default) soft_margin_loss(default out) soft_margin_loss_backward(default
    grad_input) softmax(int_out) softplus(default out) softplus_backward(default grad_input)
    softshrink(default out) softshrink_backward(default) sort(default stable values values_stable)
    special_airy_ai(default out) special_bessel_j0(default out) special_bessel_j1(default out)
    special_bessel_y0(default out) special_bessel_y1(default out)
    special_chebyshev_polynomial_t(default n_scalar n_scalar_out out x_scalar x_scalar_out)
    special_chebyshev_polynomial_u(default n_scalar n_scalar_out out x_scalar x_scalar_out)
    special_chebyshev_polynomial_v(default n_scalar n_scalar_out out x_scalar x_scalar_out)
    special_chebyshev_polynomial_w(default n_scalar n_scalar_out out x_scalar x_scalar_out)
    special_entr(default out) special_erfcx(default out) special_hermite_polynomial_h(default
    n_scalar n_scalar_out out x_scalar x_scalar_out) special_hermite_polynomial_he(default n_scalar
    n_scalar_out out x_scalar x_scalar_out) special_i0e(default out) special_i1(default out)
    special_i1e(default out) special_laguerre_polynomial_l(default n_scalar n_scalar_out out
    x_scalar x_scalar_out) special_legendre_polynomial_p(default n_scalar n_scalar_out out x_scalar
    x_scalar_out) special_log_ndtr(default out) special_modified_bessel_i0(default out)
    special_modified_bessel_i1(default out) special_modified_bessel_k0(default out)
    special_modified_bessel_k1(default out) special_ndtri(default out)
    special_scaled_modified_bessel_k0(default out) special_scaled_modified_bessel_k1(default out)
    special_shifted_chebyshev_polynomial_t(default n_scalar n_scalar_out out x_scalar x_scalar_out)
    special_shifted_chebyshev_polynomial_u(default n_scalar n_scalar_out out x_scalar x_scalar_out)
    special_shifted_chebyshev_polynomial_v(default n_scalar n_scalar_out out x_scalar x_scalar_out)
    special_shifted_chebyshev_polynomial_w(default n_scalar n_scalar_out out x_scalar x_scalar_out)
    special_spherical_bessel_j0(default out) special_xlog1py(default other_scalar other_scalar_out
    out self_scalar self_scalar_out) special_zeta(default other_scalar other_scalar_out out
    self_scalar self_scalar_out) split(Tensor) split_with_sizes(default)
    split_with_sizes_copy(default out) sqrt(default out) sqrt_(default) squeeze(default dim dims)
    squeeze_(default dim dims) squeeze_copy(default dim dim_out dims dims_out out) stack(default
    out) std(correction correction_out) std_mean(correction correction_out) sub(Scalar Scalar_out
    Tensor out) sub_(Scalar Tensor) sum(IntList_out default dim_IntList out) t(default) t_(default)
    t_copy(default out) take(default out) tan(default out) tan_(default) tanh(default out)
    tanh_(default) tanh_backward(default grad_input) threshold(default out) threshold_(default)
    threshold_backward(default grad_input) topk(default values) trace(default out) transpose(int)
    transpose_(default) transpose_copy(int int_out) triangular_solve(X default) tril(default out)
    tril_(default) tril_indices(out) triu(default out) triu_(default) triu_indices(out)
    trunc(default out) trunc_(default) unbind(int) unbind_copy(int int_out) unfold(default)
    unfold_backward(default out) unfold_copy(default out) uniform(default out) uniform_(default)
    unsafe_split(Tensor) unsafe_split_with_sizes(default) unsqueeze(default) unsqueeze_(default)
    unsqueeze_copy(default out) upsample_bicubic2d_backward(default grad_input)
    upsample_bilinear2d_backward(default grad_input) upsample_linear1d_backward(default grad_input)
    upsample_nearest1d_backward(default grad_input) upsample_nearest3d_backward(default grad_input)
    upsample_trilinear3d_backward(default grad_input) var(correction correction_out)
    var_mean(correction correction_out) vdot(default out) view_as_complex(default)
    view_as_real(default) view_copy(out) where(self self_out) xlogy(OutScalar_Other OutScalar_Self
    OutTensor Scalar_Other Scalar_Self Tensor) xlogy_(Scalar_Other Tensor) zero(default out)
    zero_(default) zeros(out) zeros_like(default)
"""


ADMITTED = frozenset(
    f"aten.{name}.{overload}"
    for name, overloads in re.findall(r"(\w+)\(([^)]*)\)", _OVERLOADS)
    for overload in overloads.split()
)
