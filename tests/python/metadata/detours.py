"""Where FakeTensorMode does something else than run an op's meta kernel."""

from __future__ import annotations

import torch
from torch._decomp import decomposition_table, meta_table
from torch._library.simple_registry import singleton as custom_kernels
from torch._ops import OpOverload
from torch._subclasses import FakeTensorMode, fake_impls
from torch._subclasses.fake_tensor import torch_decomp_decompositions

from shardprop.metadata.left_out import LEFT_OUT

__all__ = ["HARMLESS", "detour", "runs_for_real"]

# What catches an op without harm, and why it does none.
HARMLESS = {
    "foreach": "runs the kernel, then sets each result's device",
    "constructors": "runs the kernel on device meta, then sets the result's device",
    "multi_device_op_default": "runs the kernel; the device of the result is the input's",
    "multi_device_op_out": "runs the kernel, returns the tensor it wrote into",
    "index_put_impl": "checks that devices match, then runs the kernel",
    "embedding": "calls the kernel's Python function",
    "meta_select": "has a path for sizes that are expressions; plain ones take the kernel's steps",
    "slice_forward": "computes the C++ kernel's sizes in Python, to work on expressions too",
    "fake_alias": "runs the kernel, then sets the result's device",
    "resize_as_": "resizes as the kernel does",
    "decomposition": "runs the function that is the op's kernel for meta tensors too, while its "
    "tensors tell their device; the functions that look at it are in LEFT_OUT",
}


def detour(op: OpOverload) -> str | None:
    """What catches the op before its meta kernel; None where that is what runs.

    Follows `FakeTensorMode._dispatch_impl` for sizes that are plain.
    """
    if torch.Tag.data_dependent_output in op.tags or torch.Tag.dynamic_output_shape in op.tags:
        return "depends on data"
    if op not in meta_table and not FakeTensorMode().cpp_meta_supports_symint(op):
        if op in decomposition_table and torch_decomp_decompositions(op):
            return "decomposition"
        if op._can_decompose():
            return "composite"
    if op.namespace == "prims":
        return "prims"
    if custom_kernels.find(op.name()).fake_impl.kernel is not None:
        return "registered fake kernel"
    if op in fake_impls.op_implementations_dict:
        return str(fake_impls.op_implementations_dict[op].__name__)
    if any(check(op) for check, _ in fake_impls.op_implementations_checks):
        return "foreach" if op.name().startswith("aten::_foreach_") else "another check"
    return None if fake_impls.has_meta(op) else "no meta kernel"


def runs_for_real(op: OpOverload) -> bool:
    """Without a meta kernel torch runs the real one; one crashes on operands it does not like."""
    return "no meta kernel" in (detour(op) or "") + LEFT_OUT.get(str(op), "")
