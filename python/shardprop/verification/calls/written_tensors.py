"""Written calls of ops on tensors and matrices: linear algebra, indexing, statistics, ranges."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch

from .values import Arguments, Table, Values, given

__all__ = ["TENSORS"]

# The dims of a Sobol sequence, and the bits of its direction numbers.
_SOBOL = (6, 30)


def _of_definite(v: Values) -> Iterator[Arguments]:
    """Batches of matrices: no dim of a single matrix can be cut."""
    yield given(v.definite(6, 4, 4))
    yield given(v.definite(4, 4))
    yield given(v.definite(4, 6, 3, 3))


def _quantile(v: Values) -> Iterator[Arguments]:
    q = torch.tensor([0.25, 0.6], dtype=torch.float64)
    yield given(v(6, 4), q, 1)
    yield given(v(4, 6, 4), q, 0, True, interpolation="nearest")
    yield given(v(12), q[0])


def _norm(v: Values) -> Iterator[Arguments]:
    yield given(v(6, 4), "fro")
    yield given(v(6, 4), "nuc")
    yield given(v(4, 6, 4), "fro", [0, 2], True)


def _condition(v: Values) -> Iterator[Arguments]:
    yield given(v(6, 4, 4), "fro")
    yield given(v(6, 4, 4), "nuc")


def _nuclear_norm(v: Values) -> Iterator[Arguments]:
    yield given(v(4, 6, 4), [1, 2])
    yield given(v(4, 6, 4), [0, 2], True)


def _reflectors(v: Values) -> Iterator[Arguments]:
    yield given(v(4, 6, 4), v.positive(4, 4))
    yield given(v(6, 4), v.positive(4))


def _ends(*which: bool) -> Callable[[Values], Iterator[Arguments]]:
    """Ranges whose ends are tensors where `which` says so."""

    def calls(v: Values) -> Iterator[Arguments]:
        start, end = (
            torch.tensor(number, dtype=torch.float64) if is_tensor else number
            for number, is_tensor in zip((0.5, 3.0), which, strict=True)
        )
        yield given(start, end, 12, out=v(12))

    return calls


def _reduced(v: Values) -> Iterator[Arguments]:
    yield given(v(6, 4), [1])
    yield given(v(4, 6, 4), [0, 2])


def _variance(v: Values) -> Iterator[Arguments]:
    yield given(v(6, 4), [1], 1.0)
    yield given(v(4, 6, 4), [0, 2], 0.0)


def _scattered(v: Values) -> Iterator[Arguments]:
    yield given(v(6, 4), 0, v.index(6, 4, 4), 2.0, reduce="add")
    yield given(v(6, 4), 1, v.index(4, 6, 3), 2.0, reduce="multiply")


def _times_scalars(v: Values) -> Iterator[Arguments]:
    shapes = ((6, 4), (4,), (12, 2))
    lists = [[v.positive(*shape) for shape in shapes] for _ in range(3)]
    yield given(*lists, v.positive(len(shapes)))


def _unscaled(v: Values) -> Iterator[Arguments]:
    one = torch.ones(1)
    gradients = [v(6, 4, dtype=torch.float32), v(4, dtype=torch.float32)]
    yield given(gradients, torch.zeros(1), 0.5 * one)
    with_infinity = [gradient.clone() for gradient in gradients]
    with_infinity[0][0, 0] = torch.inf
    yield given(with_infinity, torch.zeros(1), one)


def _directions(v: Values) -> torch.Tensor:
    dims, _ = _SOBOL
    state = torch.zeros(_SOBOL, dtype=torch.int64)
    made: torch.Tensor = torch.ops.aten._sobol_engine_initialize_state_(state, dims)
    return made


def _histogram(v: Values) -> Iterator[Arguments]:
    yield given(v(12, 2), [3, 4], range=[-2.0, 2.0, -2.0, 2.0])
    yield given(v(6, 2), [3, 4], range=[-2.0, 2.0, -2.0, 2.0], weight=v.positive(6))


def _histogram_of_edges(v: Values) -> Iterator[Arguments]:
    edges = [torch.linspace(-2, 2, steps, dtype=torch.float64) for steps in (4, 5)]
    yield given(v(12, 2), edges)
    yield given(v(6, 2), edges, weight=v.positive(6))


TENSORS: Table = {
    # --- matrices ---
    "aten.cholesky.default": _of_definite,
    "aten.linalg_cholesky_ex.default": _of_definite,
    "aten.linalg_eig.default": _of_definite,
    "aten.linalg_inv_ex.default": _of_definite,
    "aten.orgqr.default": _reflectors,
    "aten.linalg_norm.ord_str": _norm,
    # Into a positive number, as the parts of a norm are, which torch 2.15 has `out` be.
    "aten.norm.Scalar_out": lambda v: [
        given(v(6, 4), out=v.positive()),
        given(v(4, 6), 1.0, out=v.positive()),
    ],
    "aten.linalg_cond.p_str": _condition,
    "aten.nuclear_norm.dim": _nuclear_norm,
    "aten.trace_backward.default": lambda v: [given(v(), [6, 4]), given(v(), [6, 6])],
    "aten.addr.out": lambda v: [given(v(6, 4), v(6), v(4), alpha=0.5, out=v(6, 4))],
    # --- indexing ---
    "aten.gather_backward.default": lambda v: [
        given(v(4, 4), v(6, 4), 0, v.index(6, 4, 4), False),
        given(v(6, 3), v(6, 4), 1, v.index(4, 6, 3), False),
    ],
    "aten.index_select_backward.default": lambda v: [
        given(v(4, 6), [12, 6], 0, v.index(12, 4)),
        given(v(6, 4), [6, 12], 1, v.index(12, 4)),
    ],
    "aten.scatter_.value_reduce": _scattered,
    "aten._rowwise_prune.default": lambda v: [
        given(v(6, 4), torch.tensor([True, False, True, True, False, True]), torch.int32)
    ],
    # --- shapes ---
    "aten._reshape_from_tensor.default": lambda v: [
        given(v(6, 4), torch.tensor([4, 6])),
        given(v(4, 6, 2), torch.tensor([4, 12])),
    ],
    "aten.unflatten_dense_tensors.default": lambda v: [given(v(36), [v(6, 4), v(12)])],
    "aten._pad_enum.default": lambda v: [given(v(4, 6, 4), [1, 2], mode) for mode in range(1, 4)],
    # --- element by element ---
    "aten.bitwise_and_.Tensor": lambda v: [
        given(v.index(64, 6, 4), v.index(64, 6, 4)),
        given(v.index(64, 4, 6), v.index(64, 6)),
    ],
    "aten.fill.Tensor": lambda v: [given(v(6, 4), v()), given(v(4, 6, 4), v())],
    "aten._foreach_addcdiv_.Tensor": _times_scalars,
    "aten._foreach_addcmul_.Tensor": _times_scalars,
    "aten._amp_foreach_non_finite_check_and_unscale_.default": _unscaled,
    "aten._amp_foreach_non_finite_check_and_unscale.default": _unscaled,
    "prims.conj_physical.default": lambda v: [
        given(v(6, 4, dtype=torch.complex128)),
        given(v(12, dtype=torch.complex128)),
    ],
    # --- statistics ---
    "aten.quantile.default": _quantile,
    "aten.nanquantile.default": _quantile,
    "aten.histogramdd.default": _histogram,
    "aten.histogramdd.TensorList_bins": _histogram_of_edges,
    "prims.sum.default": _reduced,
    "prims.prod.default": _reduced,
    "prims.var.default": _variance,
    "prims.amax.default": _reduced,
    "prims.amin.default": _reduced,
    # --- sequences ---
    "aten.gradient.tensorarrayint": lambda v: [
        given(v(6, 4), spacing=[v.positive(6).cumsum(0)], dim=0),
        given(v(4, 6), spacing=[v.positive(6).cumsum(0)], dim=1, edge_order=2),
    ],
    "aten.stft.center": lambda v: [
        given(v(4, 24), 8, 4, 8, v.positive(8), True, return_complex=True),
        given(v(24), 8, 4, 8, v.positive(8), False, onesided=False, return_complex=True),
    ],
    "aten.arange.start_out": lambda v: [given(1, 13, out=v(12)), given(0, 6, 0.5, out=v(12))],
    "aten.linspace.Scalar_Tensor_out": _ends(False, True),
    "aten.linspace.Tensor_Scalar_out": _ends(True, False),
    "aten.linspace.Tensor_Tensor_out": _ends(True, True),
    "aten.logspace.Scalar_Tensor_out": _ends(False, True),
    "aten.logspace.Tensor_Scalar_out": _ends(True, False),
    "aten.logspace.Tensor_Tensor_out": _ends(True, True),
    "aten._sobol_engine_initialize_state_.default": lambda v: [
        given(torch.zeros(_SOBOL, dtype=torch.int64), _SOBOL[0])
    ],
    "aten._sobol_engine_scramble_.default": lambda v: [
        given(_directions(v), v.index(2, *_SOBOL, _SOBOL[1]).tril(), _SOBOL[0])
    ],
    "aten._sobol_engine_ff_.default": lambda v: [
        given(torch.zeros(_SOBOL[0], dtype=torch.int64), 3, _directions(v), _SOBOL[0], 0)
    ],
    "aten._sobol_engine_draw.default": lambda v: [
        given(
            *(torch.zeros(_SOBOL[0], dtype=torch.int64), 4, _directions(v), _SOBOL[0], 0),
            torch.float32,
        )
    ],
}
