"""By which means the metadata of an op's outputs is found, and why not by a cheaper one."""

from __future__ import annotations

import functools
from typing import NamedTuple

from .. import _torch
from .._torch import OpOverload
from ..model.op_traits import traits_of
from .admitted import ADMITTED
from .closed_forms import ClosedForm, closed_form
from .left_out import CHANGED_BY_AUTOCAST, LEFT_OUT

__all__ = [
    "CLOSED_FORM",
    "FAKE_TENSORS",
    "META_TENSORS",
    "Means",
    "OpClass",
    "class_of",
    "means_for",
]

CLOSED_FORM = "closed form"
META_TENSORS = "meta tensors"
FAKE_TENSORS = "fake tensors"

_TORCHS = ("aten", "prims")


class OpClass(NamedTuple):
    """The cheapest means that answers for an op.

    Attributes:
        name: `CLOSED_FORM`, `META_TENSORS` or `FAKE_TENSORS`.
        reason: Why this one and no cheaper one.
    """

    name: str
    reason: str


@functools.cache
def class_of(op: OpOverload) -> OpClass:
    """The class of an op. Read once: a fake kernel registered after the first use is not seen."""
    if closed_form(op) is not None:
        return OpClass(CLOSED_FORM, "a formula of ours, tested against torch's answers")
    reason = _why_not_meta_tensors(op)
    if reason is None:
        return OpClass(META_TENSORS, "its meta kernel alone gives what the fake mode gives")
    return OpClass(FAKE_TENSORS, reason)


class Means(NamedTuple):
    """What to ask before fake tensors, the cheapest first.

    Attributes:
        op: Held so that its address stays its own.
        closed_form: A formula, which may decline.
        on_meta_tensors: The meta kernel will do.
        autocast_matters: Autocast, if it is on, changes what the op does, and neither knows of it.
        are_held: What fake tensors answer depends on the arguments and torch's settings alone.
    """

    op: OpOverload
    closed_form: ClosedForm | None
    on_meta_tensors: bool
    autocast_matters: bool
    are_held: bool


_known: dict[int, Means] = {}


def means_for(op: OpOverload) -> Means:
    """The means to the metadata of an op's outputs."""
    means = _known.get(id(op))
    if means is None:
        autocast_matters = str(op) in CHANGED_BY_AUTOCAST or _torch.has_autocast_kernel(op)
        on_meta_tensors = _why_not_meta_tensors(op) is None
        # The kernel of a program's own op may read anything.
        are_held = op.namespace in _TORCHS and not _torch.has_custom_fake_kernel(op)
        form = closed_form(op)
        means = _known[id(op)] = Means(op, form, on_meta_tensors, autocast_matters, are_held)
    return means


def _why_not_meta_tensors(op: OpOverload) -> str | None:
    """The reason to leave an op to fake tensors; None where its meta kernel will do."""
    name = str(op)
    if name in LEFT_OUT:
        return LEFT_OUT[name]
    if name in ADMITTED:
        return "the program's own fake kernel" if _torch.has_custom_fake_kernel(op) else None
    if op.namespace not in _TORCHS:
        return "not one of torch's own ops"
    if not traits_of(op).takes_tensors:
        return "makes tensors from none: the fake mode treats it apart"
    if _torch.comes_apart_above(op):
        return "composite: the fake mode takes it apart"
    return "not compared: no call of it is known, or none with elements, or answers differ"
