"""What differs between the supported versions of torch, read from what the installed one has."""

from __future__ import annotations

from typing import Any

import torch
from torch.distributed.tensor import _redistribute
from torch.distributed.tensor._op_schema import OpSchema

# torch 2.15: a plain shard may become Partial(sum) by zero fill, outputs that are absent in every
# row stay absent in the all-Replicate row, list outputs keep their container, the mesh is looked
# for in keyword arguments too.
IS_215_OR_LATER = hasattr(
    _redistribute.DTensorRedistributePlanner, "_get_shard_to_partial_target_states"
)


def compiler_settings() -> Any:
    """Where ``compile_on_one_rank`` is: in the compiler's settings, before torch 2.15 in those of
    ``torch.distributed``."""
    return torch.compiler.config if IS_215_OR_LATER else torch.distributed.config


def args_with_mesh(schema: OpSchema) -> tuple[Any, ...]:
    """The arguments among which torch looks for an op's mesh: keyword ones since torch 2.15."""
    args: tuple[Any, ...] = schema.args_schema
    return (*args, *schema.kwargs_schema.values()) if IS_215_OR_LATER else args
