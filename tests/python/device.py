"""The device of the tensors of programs: the CPU, or the GPU under ``SHARDPROP_TEST_DEVICE=cuda``.

On a GPU all ranks share it, over gloo, and kernels add up in the same order each time, since
results are compared to the bit.
"""

from __future__ import annotations

import os
from typing import Any

import torch
from torch.distributed import distributed_c10d

DEVICE = os.environ.get("SHARDPROP_TEST_DEVICE", "cpu")


def _all_gather(local: torch.Tensor, size: int, group: Any) -> torch.Tensor:
    """By gloo's own all-gather: the coalesced one, which torch would call, crashes on CUDA
    tensors (seen on torch 2.11 and 2.13, without shardprop)."""
    gathered = local.new_empty((size * local.shape[0], *local.shape[1:]))
    found: Any = distributed_c10d._resolve_process_group(group)  # type: ignore[attr-defined]
    found._allgather_base(gathered, local.contiguous()).wait()
    return gathered


if DEVICE == "cuda":
    # Read by cuBLAS when it starts.
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.backends.cudnn.allow_tf32 = False
    _collectives = torch.library.Library("_c10d_functional", "IMPL")
    _collectives.impl("all_gather_into_tensor", _all_gather, "CUDA")
