"""First decisions of every op that has samples, from 1-D to 4-D: which of them are slow.

    python -m bench.first_misses [OP ...] [--jobs 2] [--beside-torch 10] [--write FILE]

Each op is asked about in a process of its own, several calls in several layouts on each mesh, with
every cache of shardprop and torch empty. A time is processor time, the less of two; what an op has
once per process (imports, tables of torch's) is in neither. Calls that are refused count too: a
program waits for them as long. torch's own decisions, of the slowest ones, are cut off after a
minute.
"""

from __future__ import annotations

import argparse
import bisect
import json
import signal
import warnings
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from time import process_time
from typing import Any

import torch
import torch.distributed as dist
from rich.console import Console
from rich.table import Table
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import Placement, Replicate, Shard

from shardprop import _torch
from shardprop.cli.decisions import clear_every_cache
from shardprop.propagation.propagator import propagate_sharding
from shardprop.rules import torch_registry
from shardprop.verification.calls.call import Call
from shardprop.verification.calls.samples import Samples
from shardprop.verification.names import ops_decided, overload
from shardprop.verification.pool import run_all
from shardprop.verification.report import Report

MESHES = ((2,), (2, 2), (2, 2, 2), (2, 2, 2, 2))
BOUNDS_MS = (0.25, 0.5, 1.0, 2.0, 5.0, 10.0, 100.0)

_CALLS = 4
_TORCHS_SECONDS = 60


@dataclass(frozen=True)
class Miss:
    """One decision; times in milliseconds of processor time.

    Attributes:
        refused: The error, if it was refused.
    """

    mesh: tuple[int, ...]
    layout: str
    call: str
    ms: float
    refused: str | None = None


@dataclass
class Misses(Report):
    """The slowest decision of an op on each mesh, and how many there were below each bound."""

    slowest: list[Miss] = field(default_factory=list)
    counts: dict[str, list[int]] = field(default_factory=dict)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("ops", nargs="*", help="as aten.mm.default; all that are decided, if none")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--beside-torch", type=int, default=0, help="of how many, by each mesh")
    parser.add_argument("--write", type=Path, help="all that was found, as JSON")
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    dist.init_process_group("fake", rank=0, world_size=16)
    ops = [overload(name) for name in asked.ops] or ops_decided()
    samples = Samples(ops)
    meshes = [init_device_mesh("cpu", sizes) for sizes in MESHES]
    _warm(meshes)

    def work(name: str) -> Misses:
        return _misses(name, samples.calls(overload(name)), meshes)

    found = [*run_all(work, [str(op) for op in ops], Misses, asked.jobs, time_limit=300.0)]
    console = Console(width=140)
    for mesh in meshes:
        _show(console, found, samples, mesh, asked.beside_torch)
    if asked.write:
        asked.write.write_text(json.dumps([asdict(each) for each in found], indent=1))


def _warm(meshes: list[DeviceMesh]) -> None:
    """What is made once per process, whatever is decided first."""
    for mesh in meshes:
        for op in (torch.ops.aten.mm.default, torch.ops.aten.frac.default):
            meta = _torch.meta_of(torch.empty(8, 8))
            x = _torch.make_spec(mesh, (Shard(0),) * mesh.ndim, meta)
            schema = torch_registry.op_schema(op, (x,) * len(op._schema.arguments), {})
            propagate_sharding(schema)


def _misses(name: str, calls: list[Call], meshes: list[DeviceMesh]) -> Misses:
    found = Misses(name, calls=len(calls))
    for mesh in meshes:
        slowest: Miss | None = None
        counts = [0] * (len(BOUNDS_MS) + 1)
        for call in calls[:_CALLS]:
            for layout, schema_of in _layouts(call, mesh):
                miss = _timed(call, layout, mesh, schema_of)
                counts[bisect.bisect_left(BOUNDS_MS, miss.ms)] += 1
                slowest = miss if slowest is None or miss.ms > slowest.ms else slowest
        found.counts[str(tuple(mesh.shape))] = counts
        if slowest is not None:
            found.slowest.append(slowest)
    return found


def _layouts(call: Call, mesh: DeviceMesh) -> Iterator[tuple[str, Callable[[], Any]]]:
    """All operands cut along their first dim; each mesh dim another dim of the first operand."""

    whole = (Replicate(),) * mesh.ndim

    def rows(_: int, dims: int) -> tuple[Placement, ...]:
        return (Shard(0), *whole[1:]) if dims else whole

    def all_dims(number: int, dims: int) -> tuple[Placement, ...]:
        if number or not dims:
            return whole
        return tuple(Shard(dim % dims) for dim in range(mesh.ndim))

    for layout, placements in (("rows", rows), ("all dims", all_dims)):

        def schema(placements: Callable[..., tuple[Placement, ...]] = placements) -> Any:
            on = call.on(
                _torch.make_spec(mesh, placements(number, x.ndim), _torch.meta_of(x))
                for number, x in enumerate(call.tensors)
            )
            return torch_registry.op_schema(call.op, on.args, on.kwargs)

        yield layout, schema


def _text(call: Call) -> str:
    return ", ".join(f"{str(x.dtype)[6:]}{[*x.shape]}" for x in call.tensors)[:60]


def _timed(call: Call, layout: str, mesh: DeviceMesh, schema_of: Callable[[], Any]) -> Miss:
    times, refused = [], None
    for _ in range(2):
        clear_every_cache()
        schema = schema_of()
        start = process_time()
        try:
            propagate_sharding(schema)
        except Exception as error:
            refused = f"{type(error).__name__}: {str(error)[:80]}"
        times.append((process_time() - start) * 1e3)
    return Miss(tuple(mesh.shape), layout, _text(call), min(times), refused)


def _show(
    console: Console, found: list[Misses], samples: Samples, mesh: DeviceMesh, beside_torch: int
) -> None:
    sizes = tuple(mesh.shape)
    counts = [each.counts[str(sizes)] for each in found if str(sizes) in each.counts]
    total = [sum(column) for column in zip(*counts, strict=True)]
    names = [f"to {bound:g} ms" for bound in BOUNDS_MS] + ["above"]
    console.print(
        f"{sizes}:", ", ".join(f"{n} {name}" for n, name in zip(total, names, strict=True))
    )
    slowest = sorted(
        ((miss, each.op) for each in found for miss in each.slowest if miss.mesh == sizes),
        key=lambda item: -item[0].ms,
    )
    table = Table("op", "ms", "torch, ms", "layout", "call", "refused")
    for rank, (miss, op) in enumerate(slowest[: max(10, beside_torch)]):
        calls = samples.calls(overload(op)) if rank < beside_torch else []
        text = f"{_torchs_ms(calls, miss, mesh):.1f}" if calls else ""
        table.add_row(op, f"{miss.ms:.2f}", text, miss.layout, miss.call, miss.refused or "")
    console.print(table)


def _torchs_ms(calls: list[Call], miss: Miss, mesh: DeviceMesh) -> float:
    """torch's time for the same decision; infinity where it takes more than a minute."""
    schema_of, *_ = (
        schema_of
        for call in calls[:_CALLS]
        for layout, schema_of in _layouts(call, mesh)
        if (layout, _text(call)) == (miss.layout, miss.call)
    )
    clear_every_cache()
    schema = schema_of()
    signal.signal(signal.SIGALRM, _too_long)
    signal.alarm(_TORCHS_SECONDS)
    start = process_time()
    try:
        _torch.torch_propagate(schema)
    except TimeoutError:
        return float("inf")
    except Exception:  # a refusal takes its time as well
        pass
    finally:
        signal.alarm(0)
    return (process_time() - start) * 1e3


def _too_long(*_: object) -> None:
    raise TimeoutError


if __name__ == "__main__":
    main()
