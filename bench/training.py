"""What a training loop does once per step for all parameters: optimizers and gradient clipping.

300 parameters and gradients of the six shapes of a transformer's block, laid out as tensor parallel
(1-D) and with FSDP over it (2-D). The gradients of the norms are pending over the tensor parallel
dim, as `backward` leaves them.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Placement, Shard

import shardprop
from shardprop import _torch
from shardprop.propagation.timing import watch_propagation

from .engine import P, R, S, spec_of

COUNT = 300
_WIDTH = 128

# Shape, placements over the tensor parallel dim of the parameter and of its gradient.
_KINDS: list[tuple[tuple[int, ...], Placement, Placement]] = [
    ((3 * _WIDTH, _WIDTH), S(0), S(0)),  # query, key and value
    ((_WIDTH, _WIDTH), S(1), S(1)),  # output projection
    ((4 * _WIDTH, _WIDTH), S(0), S(0)),  # up projection
    ((_WIDTH, 4 * _WIDTH), S(1), S(1)),  # down projection
    ((_WIDTH,), R, P),  # norm
    ((4 * _WIDTH,), S(0), S(0)),  # bias
]


def _tensor(mesh: DeviceMesh, shape: Sequence[int], placement: Placement) -> DTensor:
    placements = [S(0), placement][-mesh.ndim :]
    local = list(shape)
    for mesh_dim, p in enumerate(placements):
        if isinstance(p, Shard):
            local[p.dim] //= mesh.size(mesh_dim)
    meta = spec_of(mesh, shape, placements).tensor_meta
    assert meta is not None
    return DTensor.from_local(
        torch.rand(local),
        mesh,
        placements,
        run_check=False,
        shape=meta.shape,
        stride=meta.stride,
    )


def parameters(mesh: DeviceMesh) -> list[torch.nn.Parameter]:
    """Parameters with gradients."""
    made = []
    for i in range(COUNT):
        shape, placement, of_gradient = _KINDS[i % len(_KINDS)]
        made.append(torch.nn.Parameter(_tensor(mesh, shape, placement)))
        made[-1].grad = _tensor(mesh, shape, of_gradient)
    return made


def _adamw(params: Any) -> Callable[[], Any]:
    return torch.optim.AdamW(params, foreach=True).step


def _fused_adamw(params: Any) -> Callable[[], Any]:
    return torch.optim.AdamW(params, fused=True).step


def _sgd(params: Any) -> Callable[[], Any]:
    return torch.optim.SGD(params, momentum=0.9, foreach=True).step


def _clip(params: Any) -> Callable[[], Any]:
    return lambda: torch.nn.utils.clip_grad_norm_(params, 1.0)


JOBS: dict[str, Callable[[Any], Callable[[], Any]]] = {
    "AdamW step": _adamw,
    "fused AdamW step": _fused_adamw,
    "SGD step": _sgd,
    "clip_grad_norm_": _clip,
}


def forget() -> None:
    """As in a new process: nothing decided, planned or known of metadata."""
    shardprop.clear_caches()
    _torch.clear_torch_caches()


@functools.cache
def questions(job: str, mesh: DeviceMesh) -> list[Any]:
    """The schemas that the first run of a job asks a decision for; the same whoever decides."""
    asked: list[Any] = []
    with shardprop.enabled():
        call = JOBS[job](parameters(mesh))
        forget()
        with watch_propagation(lambda schema, *_: asked.append(schema)):
            call()
    return asked


def described(sharding: Any) -> Any:
    """All that an OutputSharding says, in values that compare."""
    wanted = sharding.redistribute_schema
    return (
        sharding.needs_redistribute,
        sharding.use_val_from_redistribute_schema,
        sharding.output_spec,
        wanted and (wanted.args_schema, wanted.kwargs_schema),
    )
