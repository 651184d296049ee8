"""Why there is nothing to try of an op: what it is, not what the validator lacks."""

from __future__ import annotations

import torch

from ..._torch import OpOverload, function_schema, has_cpu_kernel
from ..calls.derived import functional_of
from ..simulator.execution import is_uninitialised

__all__ = ["why_untried"]

_COLLECTIVES = ("c10d", "c10d_functional", "_c10d_functional", "_c10d_functional_autograd")
# What autograd, vmap and the storage of a tensor are told; nothing is computed.
_BOOKKEEPING = ("_add_batch_dim", "_backward", "retain_grad", "set_", "set_data")
# Sparse or nested operands, of which the names do not speak.
_OTHER_LAYOUTS = ("coalesce", "nested_to_padded_tensor", "smm", "sspaddmm")
# For tensors of other classes torch computes it anew, from the other operands.
_MADE_OF_OPERANDS = ("cumprod_backward",)
_QUANTIZED = ("fbgemm", "prepack", "quantized", "scaled_mm")


def why_untried(op: OpOverload) -> str | None:
    """What an op is that no call of dense tensors on the CPU puts to the test; None of the others.

    To be asked of ops of which no call could be tried: some are told by their names.
    """
    schema = function_schema(op)
    name: str = schema.name.partition("::")[2]
    if op.namespace in _COLLECTIVES:
        return "a collective"
    if name in _BOOKKEEPING:
        return "bookkeeping of autograd, vmap or storage"
    if "sparse" in name or name in _OTHER_LAYOUTS:
        return "sparse or nested tensors"
    if not schema.is_mutable and not any("Tensor" in str(made.type) for made in schema.returns):
        return "returns no tensor"
    packed = any(argument.name.startswith("packed") for argument in schema.arguments)
    if packed or any(word in name for word in _QUANTIZED):
        return "packed or quantized operands"
    if name in _MADE_OF_OPERANDS:
        return "an operand is what another one makes"
    if name == "pin_memory":
        return "needs an accelerator"
    if not _runs_on_cpu(op):
        return "no kernel for the CPU"
    if _is_random(op):
        return "draws random numbers"
    return "uninitialised memory" if is_uninitialised(op) else None


def _is_random(op: OpOverload) -> bool:
    arguments = function_schema(op).arguments
    return torch.Tag.nondeterministic_seeded in op.tags or any(
        "Generator" in str(argument.type) for argument in arguments
    )


def _runs_on_cpu(op: OpOverload) -> bool:
    """Has it a kernel, and the op too that it comes down to: its functional one, or ``*_impl``?"""
    implementation = getattr(torch.ops.aten, f"{op.overloadpacket.__name__}_impl", None)
    below = [functional_of(op), getattr(implementation, "default", None)]
    return all(map(has_cpu_kernel, [op, *filter(None, below)]))
