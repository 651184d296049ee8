"""Ops that torch's database of samples comes to have a price, and none is free that works."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from shardprop.cost.compute import ComputeCost

from .calls import aten, metas

# Their memory is new, and nothing is written to it.
ALLOCATING = {
    aten.empty,
    aten.empty_like,
    aten.empty_permuted,
    aten.empty_strided,
    aten.new_empty,
    aten.new_empty_strided,
}

LAUNCH = 1.4  # microseconds, of h100-nvlink


class _Pricing(TorchDispatchMode):
    """Prices each op that runs, and notes which are free though they made something."""

    def __init__(self) -> None:
        super().__init__()
        self.cost = ComputeCost("h100-nvlink")
        self.priced: set[Any] = set()
        self.free_and_new: set[Any] = set()
        self.faults: set[str] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        asked = metas(args), {name: metas(value) for name, value in kwargs.items()}
        operands = set(_memory(args, kwargs))
        outputs = func(*args, **kwargs)
        try:
            us = self.cost.us(func, *asked, metas(outputs))
        except Exception as error:
            self.faults.add(f"{func}: {error}")
            return outputs
        self.priced.add(func)
        if not (math.isfinite(us) and (us == 0 or us >= LAUNCH)):
            self.faults.add(f"{func}: {us}")
        if us == 0 and not operands.issuperset(_memory(outputs)):
            self.free_and_new.add(func.overloadpacket)
        return outputs


def _memory(*values: Any) -> Iterator[int]:
    for tensor in tree_leaves(values):
        if isinstance(tensor, torch.Tensor) and tensor.layout == torch.strided and tensor.numel():
            yield tensor.untyped_storage().data_ptr()


@pytest.fixture(scope="module")
def pricing() -> _Pricing:
    """After the first sample of every eighth op."""
    from torch.testing._internal.common_methods_invocations import op_db

    mode = _Pricing()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for info in op_db[::8]:  # all of them take a minute
            if torch.float32 not in info.dtypes:
                continue
            try:
                sample = next(iter(info.sample_inputs("cpu", torch.float32)))
                with mode:
                    info.op(sample.input, *sample.args, **sample.kwargs)
            except Exception:  # some need what is not installed; many others remain
                continue
    return mode


@pytest.mark.slow
def test_ops_of_the_database_have_a_price(pricing: _Pricing) -> None:
    assert pricing.faults == set()
    assert len(pricing.priced) > 60


@pytest.mark.slow
def test_only_views_and_new_memory_are_free(pricing: _Pricing) -> None:
    assert pricing.free_and_new - ALLOCATING == set()
