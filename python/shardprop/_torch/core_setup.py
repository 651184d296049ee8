"""Tells the core which types of torch it reads, once, on import."""

from __future__ import annotations

import sys

import torch

from .. import _core
from .symbolic_sizes import read_size
from .types import (
    DTensorSpec,
    NormPartial,
    Partial,
    Placement,
    Replicate,
    Shard,
    ShardingPlaceholder,
    StridedShard,
)
from .version import IS_215_OR_LATER

_core.configure(
    {
        "Placement": Placement,
        "Replicate": Replicate,
        "Shard": Shard,
        "_StridedShard": StridedShard,
        "Partial": Partial,
        "_NormPartial": NormPartial,
        "_ShardingPlaceholder": ShardingPlaceholder,
        "DTensorSpec": DTensorSpec,
        "dtype": torch.dtype,
        "layout": torch.layout,
        "memory_format": torch.memory_format,
    },
    read_size=read_size,
    zero_fill_partial=IS_215_OR_LATER,
    compensated_sum=sys.version_info >= (3, 12),
)
