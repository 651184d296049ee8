"""Plans of redistributions put to the test: torch carries them out on simulated ranks.

The layouts before and after are made here, the way between them is torch's: its planner, its
collectives (all ranks in one process), its merging of collectives where the mesh has a flattened
one.
"""

from __future__ import annotations

import math
import random
import time
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch

from ... import _torch
from ..._torch import DTensor, Partial, Placement, is_shard
from ...model.placements import Placements
from ...support.torch_advice import without_torch_advice
from ..simulator.candidates import REPLICATE, shard
from ..simulator.compare import difference, largest
from ..simulator.partials import Untestable
from ..simulator.ranks import Mismatch, join, split, summed_scale
from .meshes import ensure_process_group, mesh_of
from .results import Finding, OpReport

__all__ = ["check_plan", "check_plans"]

_SHAPES = ((8, 4), (7, 5), (6, 9), (12, 8), (5, 2, 6), (24,), (13,))
_REDUCE_OPS = ("sum", "avg", "max", "min")
_FACTORS = (2, 3)


def check_plan(
    whole: torch.Tensor,
    sizes: tuple[int, ...],
    source: Placements,
    target: Placements,
    *,
    flattened: bool = False,
    seed: int = 0,
) -> str | None:
    """Why what torch makes of a redistribution is not the target layout; None if it is.

    Raises:
        Untestable: a layout that is not made here.
        Exception: what torch raises.
    """
    ranks = math.prod(sizes)
    ensure_process_group(ranks)
    local = split(whole, source, sizes, torch.Generator().manual_seed(seed))
    with _torch.all_ranks_at_once(ranks):
        mesh = mesh_of(sizes, flattened)
        held = _torch.as_one_tensor([tensor.clone() for tensor in local])
        before = DTensor.from_local(
            held, mesh, source, run_check=False, shape=whole.shape, stride=whole.stride()
        )
        after = before.redistribute(placements=target).to_local()
        made = _torch.tensors_of_ranks(after, ranks)
    try:
        joined = join(made, target, sizes, whole.shape)
    except Mismatch as error:
        return str(error)
    scale = max(largest(whole), summed_scale(local, source), summed_scale(made, target))
    return difference(joined, whole, scale)


def check_plans(
    meshes: Sequence[tuple[int, ...]] = ((2, 2), (2, 3), (2, 2, 2)),
    count: int = 200,
    seed: int = 0,
    deadline: float = math.inf,
) -> OpReport:
    """Put random redistributions to the test, with and without a flattened mesh.

    Args:
        meshes: Sizes of the meshes, by turns.
        count: How many redistributions.
        seed: Seed of every random number.
        deadline: The time, as of ``time.monotonic``, after which no further one is begun.
    """
    report = OpReport("redistribute", "plan")
    chance = random.Random(seed)
    skipped: Counter[str] = Counter()
    start = time.monotonic()
    with _quiet():
        for index in range(count):
            if time.monotonic() > deadline:
                report.error = "time limit"
                break
            sizes = meshes[index % len(meshes)]
            _check_one(report, sizes, chance, skipped)
    report.skipped = dict(skipped.most_common())
    report.seconds = round(time.monotonic() - start, 3)
    return report


@contextmanager
def _quiet() -> Iterator[None]:
    """Without what torch has to say of collectives that it cannot merge."""
    with without_torch_advice(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _check_one(
    report: OpReport, sizes: tuple[int, ...], chance: random.Random, skipped: Counter[str]
) -> None:
    shape = chance.choice(_SHAPES)
    reduce_op = chance.choice(_REDUCE_OPS)
    source = _random_layout(shape, sizes, reduce_op, chance)
    target = _random_layout(shape, sizes, reduce_op, chance, source)
    flattened = len(sizes) > 1 and chance.random() < 0.5
    seed = chance.randrange(1 << 30)
    whole = torch.randn(shape, generator=torch.Generator().manual_seed(seed))
    report.calls += 1
    try:
        reason = check_plan(whole, sizes, source, target, flattened=flattened, seed=seed)
    except Untestable as error:
        skipped[str(error)] += 1
        return
    except Exception as error:  # torch refuses with whatever its code runs into
        text = str(error).partition("\n")[0][:60]
        skipped[f"torch raises {type(error).__name__}: {text}"] += 1
        return
    report.checks += 1
    if reason is not None:
        rows = tuple(f"{a} -> {b}" for a, b in zip(source, target, strict=True))
        call = f"redistribute(float32{list(shape)}){', flattened mesh' if flattened else ''}"
        report.findings.append(Finding("unsound", rows, sizes, call, reason))


def _random_layout(
    shape: Sequence[int],
    sizes: Sequence[int],
    reduce_op: str,
    chance: random.Random,
    source: Placements | None = None,
) -> Placements:
    """One kind of Partial, as torch asks, and in a target only where the source has it already; a
    strided shard before others only, for only then does it stand for an order."""
    made: list[Placement] = []
    for mesh_dim in range(len(sizes)):
        kind = chance.random()
        if 0.3 <= kind < 0.5 and source is not None and type(source[mesh_dim]) is not Partial:
            kind = 0.0
        dim = chance.randrange(len(shape))
        if kind < 0.3:
            made.append(REPLICATE)
        elif kind < 0.5:
            made.append(Partial(reduce_op))
        elif kind < 0.85 or any(map(is_shard, made)):
            made.append(shard(dim, 0))
        else:
            made.append(shard(dim, chance.choice(_FACTORS)))
    return tuple(made)
