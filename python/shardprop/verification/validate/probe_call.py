"""Does an op take a call at all? Asked of calls that were made up."""

from __future__ import annotations

import warnings
from typing import Any

import torch

from ... import _torch
from . import standalone_check
from .calls import Call

__all__ = ["accepted"]


def accepted(call: Call) -> list[torch.Tensor] | None:
    """What the op returns for the call, run on copies; None if it raises.

    Not fit for a process that must live: a kernel may crash on what nobody ever gave it.
    """
    copies = iter(
        [tensor.detach().clone() for tensor in standalone_check.walk((call.args, call.kwargs))]
    )
    args, kwargs = standalone_check.replace((call.args, call.kwargs), lambda: next(copies))
    try:
        with warnings.catch_warnings(), torch.no_grad():
            warnings.simplefilter("ignore")
            result: Any = call.op(*args, **kwargs)
    except Exception:
        return None
    return [leaf for leaf in _torch.tree_leaves(result) if isinstance(leaf, torch.Tensor)]
