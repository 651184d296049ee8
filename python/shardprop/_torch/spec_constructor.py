"""The constructor of DTensorSpec without what it computes twice.

torch's dispatcher makes a spec for the number in ``x * 2`` at each call, and a fused optimizer for
each parameter.
"""

from __future__ import annotations

from typing import Any

import torch

from .compiling import hide_from_dynamo
from .placements import are_plain
from .specs import default_shard_order, set_attribute
from .types import DeviceMesh, DTensorSpec, Placement, ShardOrderEntry, TensorMeta

__all__ = ["SPEC_CONSTRUCTOR"]

# What a spec is made by.
_MAKERS = ("__init__", "__post_init__", "__setattr__", "compute_default_shard_order")
_torchs_makers: tuple[Any, ...] = tuple(vars(DTensorSpec)[name] for name in _MAKERS)
_torchs_constructor = _torchs_makers[0]
# Who wrapped the constructor meanwhile may put it back after it was uninstalled.
_is_installed = False
# torch's own looks at others, and refuses some.
_METAS = (TensorMeta, type(None))


def _construct(
    self: DTensorSpec,
    mesh: DeviceMesh,
    placements: tuple[Placement, ...],
    tensor_meta: TensorMeta | None = None,
    shard_order: tuple[ShardOrderEntry, ...] | None = None,
    use_strided_shard_as_shard_order: bool | None = None,
) -> None:
    if (
        _is_installed
        and not torch.compiler.is_dynamo_compiling()  # it can follow all of torch's own
        and shard_order is None
        and not use_strided_shard_as_shard_order
        and type(self) is DTensorSpec
        and type(placements) is tuple
        and type(tensor_meta) in _METAS
        and are_plain(placements)
    ):
        order = default_shard_order(placements)
        if not order or order[0].tensor_dim >= 0:  # negative dims are refused
            # As `make_spec` does, and not by a function of both: that is 8,000 instructions of each
            # decision.
            set_attribute(self, "mesh", mesh)
            set_attribute(self, "placements", placements)
            set_attribute(self, "tensor_meta", tensor_meta)
            set_attribute(self, "use_strided_shard_as_shard_order", False)
            set_attribute(self, "shard_order", order)
            set_attribute(self, "_hash", None)
            return
    is_order = use_strided_shard_as_shard_order
    _torchs_constructor(self, mesh, placements, tensor_meta, shard_order, is_order)


# As errors name it.
_construct.__name__, _construct.__qualname__ = "__init__", "DTensorSpec.__init__"


class _SpecConstructor:
    """Has torch's specs made as `make_spec` makes them, unless somebody else has changed how they
    are made."""

    def install(self) -> None:
        global _is_installed
        if tuple(vars(DTensorSpec)[name] for name in _MAKERS) == _torchs_makers:
            hide_from_dynamo(_construct)
            _is_installed = True
            DTensorSpec.__init__ = _construct  # type: ignore[method-assign]

    def uninstall(self) -> None:
        global _is_installed
        _is_installed = False
        if vars(DTensorSpec)["__init__"] is _construct:
            DTensorSpec.__init__ = _torchs_constructor  # type: ignore[method-assign]


SPEC_CONSTRUCTOR = _SpecConstructor()
