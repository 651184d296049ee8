"""What specs that a program gives us have to be; the messages say which one is not."""

from __future__ import annotations

from collections.abc import Sequence

from .._torch import DeviceMesh, DTensorSpec, Partial, Placement
from ..errors import ShardpropError

__all__ = ["check_consumers", "check_ends", "check_spec", "refuse_mixed_partials"]


def check_spec(name: str, spec: object) -> None:
    """A spec with metadata, and a placement for each mesh dim.

    Raises:
        ShardpropError: it is not.
    """
    if not isinstance(spec, DTensorSpec):
        raise ShardpropError(f"{name}: Expected a DTensorSpec, got {spec!r}.")
    if spec.tensor_meta is None:
        raise ShardpropError(
            f"{name}: Expected a spec with tensor metadata, got None. Pass "
            "tensor_meta=TensorMeta(shape, stride, dtype) to DTensorSpec."
        )
    if len(spec.placements) != spec.mesh.ndim:
        raise ShardpropError(
            f"{name}: Expected {spec.mesh.ndim} placements, one for each mesh dim, got "
            f"{len(spec.placements)}."
        )


def check_ends(src: object, dst: object) -> None:
    """Two specs of one tensor on one mesh, that a plan may lead from and to.

    Raises:
        ShardpropError: they are not.
    """
    check_spec("src", src)
    check_spec("dst", dst)
    assert isinstance(src, DTensorSpec) and isinstance(dst, DTensorSpec)
    if src.mesh is not dst.mesh and src.mesh != dst.mesh:
        raise ShardpropError("Expected two specs on one mesh, got two meshes.")
    if tuple(src.shape) != tuple(dst.shape):
        raise ShardpropError(
            f"dst: Expected the shape of src, {tuple(src.shape)}, got {tuple(dst.shape)}."
        )
    dtypes = [spec.tensor_meta.dtype for spec in (src, dst) if spec.tensor_meta is not None]
    if dtypes[0] != dtypes[1]:
        raise ShardpropError(f"dst: Expected the dtype of src, {dtypes[0]}, got {dtypes[1]}.")
    refuse_mixed_partials("src", src)
    refuse_mixed_partials("dst", dst)


def refuse_mixed_partials(name: str, spec: DTensorSpec) -> None:
    """Two kinds of reduction pend at once only where they commute: a sum and an average.

    Raises:
        ShardpropError: others do. On a mesh dim of one rank nothing pends.
    """
    pending = {
        mesh_dim: placement.reduce_op
        for mesh_dim, placement in enumerate(spec.placements)
        if isinstance(placement, Partial) and spec.mesh.size(mesh_dim) > 1
    }
    kinds = set(pending.values())
    if len(kinds) > 1 and kinds != {"sum", "avg"}:
        found = ", ".join(f"{kind} on mesh dim {mesh_dim}" for mesh_dim, kind in pending.items())
        raise ShardpropError(
            f"{name}: Expected partials of one kind, or sums and averages, got {found}: which is "
            "reduced first would make a difference. Reduce one of them where it arises."
        )


def check_consumers(
    op: object,
    consumers: Sequence[DTensorSpec | None],
    mesh: DeviceMesh,
    shapes: Sequence[Sequence[int]],
) -> None:
    """For each output the spec that its consumer wants, or None.

    Args:
        op: For the message.
        consumers: What was given.
        mesh: The mesh of the outputs.
        shapes: Those of the outputs.

    Raises:
        ShardpropError: something else was given.
    """
    if not isinstance(consumers, (list, tuple)) or isinstance(consumers, DTensorSpec):
        raise ShardpropError(
            f"{op}, consumers: Expected a list of a DTensorSpec or None for each output, got "
            f"{consumers!r}."
        )
    if len(consumers) != len(shapes):
        raise ShardpropError(
            f"{op}, consumers: Expected one or None for each of {len(shapes)} outputs, got "
            f"{len(consumers)}."
        )
    for index, (consumer, shape) in enumerate(zip(consumers, shapes, strict=True)):
        if consumer is not None:
            _check_consumer(f"{op}, consumers[{index}]", consumer, mesh, shape)


def _check_consumer(name: str, consumer: object, mesh: DeviceMesh, shape: Sequence[int]) -> None:
    check_spec(name, consumer)
    assert isinstance(consumer, DTensorSpec)
    if consumer.mesh is not mesh and consumer.mesh != mesh:
        raise ShardpropError(
            f"{name}: Expected a spec on the mesh of the op, {mesh}, got {consumer.mesh}."
        )
    if tuple(consumer.shape) != tuple(shape):
        raise ShardpropError(
            f"{name}: Expected the shape of the output, {tuple(shape)}, got "
            f"{tuple(consumer.shape)}."
        )
    _check_shards(name, consumer.placements, len(shape))
    refuse_mixed_partials(name, consumer)


def _check_shards(name: str, placements: Sequence[Placement], ndim: int) -> None:
    for mesh_dim, placement in enumerate(placements):
        dim = getattr(placement, "dim", 0)
        if not 0 <= dim < max(ndim, 1):
            raise ShardpropError(
                f"{name}: Expected shards of tensor dims below {ndim}, got {placement} on mesh dim "
                f"{mesh_dim}."
            )
