"""What a topology says of a mesh, looked at before it is believed."""

from __future__ import annotations

from collections.abc import Sequence

from ..._torch import DeviceMesh
from ...errors import ShardpropError
from ..cost_model import CostModel
from .groups import CostSource

__all__ = ["cost_model_on"]


def cost_model_on(
    source: CostSource, mesh: DeviceMesh, flattened: Sequence[tuple[int, ...]] = ()
) -> CostModel:
    """The cost model of a mesh, from a source that may be the program's own.

    Raises:
        ShardpropError: the source raises (its error is the cause), answers with something else, or
            with the model of another mesh.
    """
    name = getattr(source, "name", "") or type(source).__name__
    try:
        model: object = source.on(mesh, flattened)
    except ShardpropError:
        raise
    except Exception as error:
        raise ShardpropError(
            f"topology {name}: Expected .on(mesh, flattened) to give a CostModel, got "
            f"{type(error).__name__}: {error}"
        ) from error
    if not isinstance(model, CostModel):
        raise ShardpropError(
            f"topology {name}: Expected a CostModel from .on(mesh, flattened), got {model!r}."
        )
    if tuple(model.sizes) != tuple(mesh.shape):
        raise ShardpropError(
            f"topology {name}: Expected a CostModel of sizes {tuple(mesh.shape)}, those of the "
            f"mesh, got one of {tuple(model.sizes)}."
        )
    return model
