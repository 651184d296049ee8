"""Which op a case is about: any op of torch's registry, rare families as well as large ones."""

from __future__ import annotations

import functools
import random

from torch._ops import OpOverload

from . import (
    cases_decomposed,
    families,  # noqa: F401  registers the builders
)
from .builders import builder_for
from .mix import Mix
from .registry import Form, Rule, find_op, full_mesh_only, rule_of, single_dim_entries

# What is written to keeps its layout, which leaves such ops few strategies: less to see.
_FORM_WEIGHT = {Form.FUNCTIONAL: 1.5, Form.INPLACE: 0.7, Form.OUT: 0.35, Form.LIST: 1.3}

# Families whose fake kernels take ten milliseconds and more are drawn less often: what we compare
# comes after that.
_SLOW_METADATA = {
    "grid_sampler": 0.3,
    "batch_norm": 0.4,
    "batch_norm_backward": 0.5,
    "scaled_mm": 0.4,
    "interp_upsample_1out_1in": 0.6,
    "layer_norm_bwd": 0.7,
    "local_scalar_dense": 0.1,  # answered before anything is decided
}

# Ops without a fake kernel for some of their forms: torch runs the real one, on zeros of the full
# global shape, to learn the shape of the result. Their tensors have to be small.
_REAL_KERNELS = (
    "aten::geqrf",
    "aten::_fused_adam",
    "aten::_native_batch_norm_legit",
    "aten::_batch_norm_with_update",
    "aten::_scaled_mm",
)

# Ops for which torch itself can never decide, so there is nothing to compare: the reason for each.
UNREACHABLE: dict[str, str] = {
    "aten.embedding_dense_backward.out": "torch's fake kernel takes no out tensor",
    "aten.grid_sampler_3d_backward.out": "torch's fake kernel takes no out tensors",
    "aten._foreach_addcdiv_.Tensor": "torch 2.13 reads its scalars tensor, which is fake",
    "aten._foreach_addcmul_.Tensor": "torch 2.13 reads its scalars tensor, which is fake",
    "aten.randint_like.low_dtype_out": "torch 2.13 gives its fake kernel an argument too many",
}


def pick_op(rng: random.Random, mix: Mix, rule: Rule | None = None) -> OpOverload:
    """An op that has a builder, of the given kind of rule if one is given."""
    if rule is None:
        luck = rng.random()
        # Few full-mesh ops are left in later versions of torch.
        full_mesh = mix.full_mesh * min(1.0, len(_full_mesh_ops()) / 100)
        if luck < full_mesh:
            rule = Rule.FULL_MESH
        elif luck < full_mesh + mix.decomposed:
            rule = Rule.DECOMPOSITION
    if rule is Rule.FULL_MESH:
        return rng.choice(_full_mesh_ops())
    if rule is Rule.DECOMPOSITION:
        return rng.choice(_decomposed_ops())
    ops, weights = _weighted_groups()
    return rng.choice(rng.choices(ops, weights)[0])


@functools.lru_cache(maxsize=1)
def _family_by_op() -> dict[OpOverload, str]:
    return {entry.op: entry.family for entry in single_dim_entries()}


@functools.lru_cache(maxsize=1)
def _weighted_groups() -> tuple[list[list[OpOverload]], list[float]]:
    """Ops by family and calling convention, weighted by the square root of their number: large
    families more often than small ones, but each small one often enough."""
    by_group: dict[tuple[str, Form], list[OpOverload]] = {}
    for entry in single_dim_entries():
        if str(entry.op) not in UNREACHABLE:
            by_group.setdefault((entry.family, entry.form), []).append(entry.op)
    weights = [
        len(ops) ** 0.5 * _SLOW_METADATA.get(family, 1.0) * _FORM_WEIGHT[form]
        for (family, form), ops in by_group.items()
    ]
    return list(by_group.values()), weights


@functools.lru_cache(maxsize=1)
def _full_mesh_ops() -> list[OpOverload]:
    reachable = [op for op in full_mesh_only() if str(op) not in UNREACHABLE]
    return sorted((op for op in reachable if builder_for(op) is not None), key=str)


@functools.lru_cache(maxsize=1)
def _decomposed_ops() -> list[OpOverload]:
    """Those of `cases_decomposed` that have no rule in this torch."""
    ops = [find_op(name) for name in cases_decomposed.OPS]
    return [op for op in ops if op not in _family_by_op() and op not in full_mesh_only()]


def largest_size(op: OpOverload) -> int:
    """The largest size of a tensor dim that torch's metadata propagation can be asked to take."""
    return 48 if op._schema.name.startswith(_REAL_KERNELS) else 1 << 30


def family_of(op: OpOverload) -> str:
    """The rule family of an op, or what torch does for want of a single-dim rule."""
    return _family_by_op().get(op) or rule_of(op).value
