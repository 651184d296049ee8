"""Output metadata in closed form: what torch would find by running an op on fake tensors.

A table says which family an op is of; the families are C++ (csrc/core/metadata). An answer is
exactly torch's, down to strides and containers; whatever a family is not sure of it declines,
errors among them, for torch to answer or to word.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping

import torch

from ..._torch import OpOverload
from .form import DECLINED, ClosedForm, Declined, Form, bind
from .pointwise import pointwise_forms
from .tensors import tensor_forms

__all__ = ["DECLINED", "ClosedForm", "Declined", "closed_form", "forms"]


@functools.cache
def forms() -> Mapping[OpOverload, Form]:
    """The forms of all ops that have one in this torch."""
    known: dict[OpOverload, Form] = {}
    for table in (pointwise_forms(), tensor_forms()):
        for name, form in table:
            packet, _, overload = name.partition(".")
            op = getattr(getattr(torch.ops.aten, packet, None), overload or "default", None)
            if op is not None:
                known[op] = form
    return known


@functools.cache
def closed_form(op: OpOverload) -> ClosedForm | None:
    """The closed form of an op's output metadata, or None where there is none.

    It is called with the arguments and keyword arguments of an OpSchema, DTensorSpecs where tensors
    are, and returns what `shardprop.metadata.output_meta` would, or DECLINED. It raises nothing.
    """
    form = forms().get(op)
    return None if form is None else bind(op, form)
