"""Written calls of random ops with which they are not: a probability of 0 or 1, a deviation of 0, a
range of one number. What is drawn differs on every rank, where it lies and its shape do not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch

from .values import Arguments, Table, Values, given

__all__ = ["RANDOM"]

# Of a distribution whose deviation must be above 0: it is lost beside a median of 2.
_TINY = 1e-300
# The last number before 1: a trial that succeeds at once.
_SURE = 1 - 2**-53


def _of(*rest: Any, **kwargs: Any) -> Callable[[Values], Iterator[Arguments]]:
    """Tensors of two and of three dims, with these arguments."""

    def calls(v: Values) -> Iterator[Arguments]:
        yield given(v(6, 4), *rest, **kwargs)
        yield given(v(4, 6, 4), *rest, **kwargs)

    return calls


def _dropout(v: Values) -> Iterator[Arguments]:
    """Nothing is dropped, everything is, or there is no training."""
    yield given(v(6, 4), 0.0, True)
    yield given(v(4, 6, 4), 0.5, False)
    yield given(v(6, 4, 4), 1.0, True)


def _probabilities(v: Values) -> Iterator[Arguments]:
    yield given(v.index(2, 6, 4).double())
    yield given(v.index(2, 4, 6, 4).double())


def _one_hot(v: Values) -> Iterator[Arguments]:
    yield given(torch.eye(6, dtype=torch.float64)[v.index(6, 4)], 1)
    yield given(torch.eye(6, dtype=torch.float64)[v.index(6, 12)], 4, True)


def _rrelu_with_noise(v: Values) -> Iterator[Arguments]:
    yield given(v(6, 4), v(6, 4), 0.25, 0.25, True)
    yield given(v(4, 6, 4), v(4, 6, 4), 0.25, 0.5, False)


def _mean_and_deviation(v: Values) -> Iterator[Arguments]:
    yield given(v(6, 4), torch.zeros(6, 4, dtype=torch.float64))
    yield given(v(4, 6), torch.zeros(6, dtype=torch.float64))


_normal = _of(0.5, 0.0)
_uniform = _of(0.5, 0.5)
_cauchy = _of(2.0, _TINY)
_exponential = _of(float("inf"))
_geometric = _of(_SURE)
_rrelu = _of(0.25, 0.25, True)

RANDOM: Table = {
    "aten.dropout.default": _dropout,
    "aten.native_dropout.default": _dropout,
    "aten.alpha_dropout.default": _dropout,
    "aten.feature_dropout.default": _dropout,
    "aten.feature_alpha_dropout.default": _dropout,
    "aten.dropout_.default": _dropout,
    "aten.alpha_dropout_.default": _dropout,
    "aten.feature_dropout_.default": _dropout,
    "aten.feature_alpha_dropout_.default": _dropout,
    "aten.bernoulli.default": _probabilities,
    "aten.bernoulli.p": _of(1.0),
    "aten.bernoulli.float_out": lambda v: [given(v(6, 4), 1.0, out=v(6, 4))],
    "aten.bernoulli_.float": _of(1.0),
    "aten.multinomial.default": _one_hot,
    "aten.normal.Tensor_Tensor": _mean_and_deviation,
    "aten.normal.Tensor_float": _of(0.0),
    "aten.normal.float_Tensor": lambda v: [given(0.5, torch.zeros(6, 4, dtype=torch.float64))],
    "aten.normal.float_float_out": lambda v: [given(0.5, 0.0, [6, 4], out=v(6, 4))],
    "aten.normal_functional.default": _normal,
    "aten.normal_.default": _normal,
    "aten.normal.out": lambda v: [given(v(6, 4), 0.5, 0.0, out=v(6, 4))],
    "aten.log_normal.default": _cauchy,
    "aten.log_normal_.default": _cauchy,
    "aten.cauchy.default": _cauchy,
    "aten.cauchy_.default": _cauchy,
    "aten.exponential.default": _exponential,
    "aten.exponential_.default": _exponential,
    "aten.geometric.default": _geometric,
    "aten.geometric_.default": _geometric,
    "aten.uniform.default": _uniform,
    "aten.uniform_.default": _uniform,
    "aten.randint_like.default": _of(1),
    "aten.randint_like.low_dtype": _of(3, 4),
    "aten.randint_like.low_dtype_out": lambda v: [given(v(6, 4), 3, 4, out=v(6, 4))],
    "aten.rrelu.default": _rrelu,
    "aten.rrelu_with_noise.default": _rrelu_with_noise,
    # In training it writes as many elements as `self` has, however small `out` is.
    "aten.rrelu_with_noise.out": lambda v: [given(v(6, 4), v(6, 4), 0.25, 0.5, False, out=v(6, 4))],
    "aten.rrelu_with_noise_functional.default": _rrelu_with_noise,
}
