"""By which means the metadata of an op's outputs is found, and why not by a cheaper one."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import NamedTuple

from .. import _torch
from .._torch import OpOverload, OpSchema
from ..engine import OutputMeta
from ..op_facts import op_facts
from . import meta_tensors
from .admitted import ADMITTED
from .left_out import CHANGED_BY_AUTOCAST, LEFT_OUT

__all__ = [
    "CLOSED_FORM",
    "FAKE_TENSORS",
    "META_TENSORS",
    "OpClass",
    "autocast_matters",
    "cheap_means",
    "class_of",
]

CLOSED_FORM = "closed form"
META_TENSORS = "meta tensors"
FAKE_TENSORS = "fake tensors"

Means = Callable[[OpSchema], OutputMeta]


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


@functools.cache
def cheap_means(op: OpOverload) -> tuple[Means, ...]:
    """What to ask before fake tensors, the cheapest first. Each may raise, and does not answer."""
    form = closed_form(op)
    on_meta_tensors = _why_not_meta_tensors(op) is None
    return (*([form] if form else []), *([meta_tensors.output_meta] if on_meta_tensors else []))


@functools.cache
def autocast_matters(op: OpOverload) -> bool:
    """Would autocast, if it is on, change what the op does? No cheap means knows of it."""
    return str(op) in CHANGED_BY_AUTOCAST or _torch.has_autocast_kernel(op)


def closed_form(op: OpOverload) -> Means | None:
    """The formula for an op's outputs: the place where the closed forms come in; none so far."""
    return None


def _why_not_meta_tensors(op: OpOverload) -> str | None:
    """The reason to leave an op to fake tensors; None where its meta kernel will do."""
    name = str(op)
    if name in LEFT_OUT:
        return LEFT_OUT[name]
    if name in ADMITTED:
        return "the program's own fake kernel" if _torch.has_custom_fake_kernel(op) else None
    if op.namespace not in ("aten", "prims"):
        return "not one of torch's own ops"
    if not op_facts(op).takes_tensors:
        return "makes tensors from none: the fake mode treats it apart"
    if _torch.comes_apart_above(op):
        return "composite: the fake mode takes it apart"
    return "not compared: torch's sample inputs do not call it, or not with elements"
