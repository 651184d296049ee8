"""The types of torch that the package works with, and values of them."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import SymInt
from torch._ops import OpOverload, OpOverloadPacket
from torch._subclasses import FakeTensor, FakeTensorMode
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Partial, Placement, Replicate, Shard, _op_schema
from torch.distributed.tensor._dtensor_spec import DTensorSpec, ShardOrderEntry, TensorMeta
from torch.distributed.tensor._op_schema import OpSchema, OpSpec, OpStrategy, OutputSharding
from torch.distributed.tensor._ops import _math_ops
from torch.distributed.tensor._ops import single_dim_strategy as _single_dim
from torch.distributed.tensor.placement_types import _MaskPartial as MaskPartial
from torch.distributed.tensor.placement_types import _StridedShard as StridedShard
from torch.utils._python_dispatch import TorchDispatchMode

from .. import _core

__all__ = [
    "PLAIN_TENSORS",
    "REDUCE_OPS",
    "DTensor",
    "DTensorSpec",
    "DeviceMesh",
    "FakeTensor",
    "FakeTensorMode",
    "IntLike",
    "MaskPartial",
    "NormPartial",
    "OpOverload",
    "OpOverloadPacket",
    "OpSchema",
    "OpSpec",
    "OpStrategy",
    "OutputSharding",
    "Partial",
    "Placement",
    "Replicate",
    "RuntimeSchemaInfo",
    "Shard",
    "ShardOrderEntry",
    "ShardingPlaceholder",
    "SingleDimStrategyInfo",
    "StridedShard",
    "SymInt",
    "TensorMeta",
    "TorchDispatchMode",
    "mask_partial",
    "norm_partial",
]

IntLike = (int, torch.SymInt)

# Tensors of torch's own, which hold their elements themselves.
PLAIN_TENSORS = frozenset([torch.Tensor, torch.nn.Parameter])

# Stands for any kind of sharding in a rule's rows.
ShardingPlaceholder = _single_dim._ShardingPlaceholder

# An entry of torch's registry of single-dim rules, and what its cache keys are made from.
SingleDimStrategyInfo = _single_dim._SingleDimStrategyInfo
RuntimeSchemaInfo = _op_schema.RuntimeSchemaInfo
NormPartial = _math_ops._NormPartial


REDUCE_OPS = _core.REDUCE_OPS


def norm_partial(order: float) -> Partial:
    """What a p-norm of shards leaves pending, p being neither 0 nor infinite."""
    return _math_ops._NormPartial(norm_type=order)


def mask_partial(shape: Sequence[int], dim: int) -> Placement:
    """What is pending where each rank looked up its own shard of `dim` and masked the rest."""
    return MaskPartial(offset_shape=shape, offset_dim=dim)  # type: ignore[no-untyped-call]
