"""All checks, in order."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import torch.distributed as dist

from ... import _torch
from ..._torch import DeviceMesh
from ...errors import ShardpropError
from ..ranks import fake_mesh, fake_ranks
from . import groups, hook, state, versions
from .finding import Finding, Report, note, problem

__all__ = ["examine"]


def examine(meshes: Sequence[DeviceMesh] | None = None) -> Report:
    """Look at this process, now.

    Nothing communicates. One op of a few bytes is run, with shardprop enabled for the moment if it
    is not (then torch's caches of decisions start again empty, as with `enable`).

    Args:
        meshes: Those that the program uses. None: those that live in this process.

    Raises:
        ShardpropError: what is no mesh.
    """
    if meshes is not None and not isinstance(meshes, Sequence):
        raise ShardpropError(
            f"meshes: Expected a sequence of DeviceMeshes, got a {type(meshes).__name__}."
        )
    wrong = [type(mesh).__name__ for mesh in meshes or () if not isinstance(mesh, DeviceMesh)]
    if wrong:
        raise ShardpropError(f"meshes: Expected DeviceMeshes, got a {wrong[0]}.")
    known = groups.living_meshes() if meshes is None else [*meshes]
    findings: list[Finding] = []

    def look(check: Callable[[], Iterator[Finding]]) -> None:
        findings.extend(_carefully(check))

    look(versions.installation)
    look(versions.torch_version)
    look(versions.python)
    look(versions.extension)
    look(hook.enabled)
    look(hook.nobody_else)
    look(hook.corrections)
    with _mesh_to_try(known) as mesh:
        if mesh is None:
            findings.append(
                note(
                    "hook", "not tried: no mesh of this process is known", "examine(meshes=[mesh])"
                )
            )
        else:
            look(lambda: hook.decides(mesh))
            look(lambda: hook.same_answer(mesh))
    look(state.caches)
    look(state.fallbacks)
    look(groups.process_group)
    look(lambda: groups.flattened(known))
    look(state.logs)
    return Report(tuple(findings))


def _carefully(check: Callable[[], Iterator[Finding]]) -> Iterator[Finding]:
    """What it finds; that it fails is a finding too."""
    try:
        yield from check()
    except Exception as error:  # whatever is wrong here, the other checks go on
        name = getattr(check, "__name__", "check").strip("<>")
        yield problem(name, f"raised {type(error).__name__}: {error}", "report it with this output")


@contextmanager
def _mesh_to_try(known: Sequence[DeviceMesh]) -> Iterator[DeviceMesh | None]:
    """A mesh that an op may be tried on. Without a process group one that ends with the block;
    beside a real one none is made: that is collective, and only this rank is here."""
    here = [mesh for mesh in known if _torch.coordinate_in(mesh) is not None]
    if dist.is_initialized():
        yield here[0] if here else None
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with fake_ranks(1):
            yield fake_mesh((1,), None)
