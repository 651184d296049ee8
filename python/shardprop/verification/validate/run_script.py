"""A wrong run as a script of a page: a small call, carried out by DTensor and by one device."""

from __future__ import annotations

import contextlib
import functools
import io
import itertools
import math
import textwrap
from collections.abc import Callable, Iterator

import torch

from ..._torch import Partial, Placement, Replicate, Shard, StridedShard
from ...model.placements import Placements
from ..calls.call import Call
from ..calls.resizing import listed_ints, resized, sizes_of
from ..crash_isolation import last_apart
from ..settings import Settings
from ..simulator.execution import Executable
from ..simulator.ranks import split
from .dtensor_run import Fault, OneDevice, Run, carried_out
from .repro import DEFINE_HERE, Unwritable, literal, tensor_text

__all__ = ["run_script", "smallest_run_script"]

_WIDTH = 96
# Calls that are tried to find a smaller one.
_MOST_TRIES = 60

_SCRIPT = '''"""{title}

Written by `shardprop validate`; needs torch{needed}. All ranks are in this process. It
ends with an error if a result or a gradient of theirs is not what one device has.
"""

import torch
import torch.distributed as dist
from torch import inf, nan, tensor
from torch.distributed._local_tensor import LocalTensor, LocalTensorMode
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, placement_types
from torch.testing._internal.distributed.fake_pg import FakeStore
from torch.utils._pytree import tree_leaves
{imports}
RANKS, MESH = {ranks}, {sizes}


def call(x):
    """What the op returns{and_writes}."""
{copies}    made = {call}
    return [y for y in tree_leaves({results}) if y is not None]


# Whole tensors, what every rank holds of each, and how that is placed.
{tensors}

operands = [{operands}]
incoming = {{{incoming}}}


def run(lay_out):
    """Results, then gradients."""
    x = [lay_out(*operand).detach() for operand in operands]
    for at in {wanted}:
        x[at].requires_grad_()
    made = call(x)
    given = [lay_out(*gradient) for gradient in incoming.values()]
    differentiated = [made[at] for at in incoming]
    wanted = [x[at] for at in {wanted}]
    if given:
        made += torch.autograd.grad(differentiated, wanted, given, allow_unused=True)
    return made


def on_all_ranks(whole, parts, placements):
    held = LocalTensor(dict(enumerate(part.clone() for part in parts)))
    return DTensor.from_local(
        held, mesh, placements, run_check=False, shape=whole.shape, stride=whole.stride()
    )


expected = run(lambda whole, parts, placements: whole.clone())
if not dist.is_initialized():
    dist.init_process_group("fake", rank=0, world_size=RANKS, store=FakeStore())
with {enabled}LocalTensorMode(RANKS):
    mesh = init_device_mesh("cpu", MESH)
    found = [x.full_tensor() if isinstance(x, DTensor) else x for x in run(on_all_ranks)]
for made, whole in zip(found, expected):
    for rank in range(RANKS) if made is not None and whole is not None else ():
        on_rank = getattr(made, "_local_tensors", {{}}).get(rank, made)
        print(f"rank {{rank}}:", on_rank, "one device:", whole)
        torch.testing.assert_close(on_rank, whole, rtol={far}, atol={far}, equal_nan=True)
'''


def smallest_run_script(run: Run, fault: Fault, settings: Settings, deadline: float) -> str:
    """The script of the smallest call found that shows the same; "" where none is wanted, or an
    argument has no literal."""
    if not settings.scripts:
        return ""
    steps = functools.partial(_scripts, run, fault, settings)
    if settings.apart:  # a kernel may crash on a call that nobody ever gave it
        return last_apart(steps, deadline) or ""
    *_, last = ("", *steps())
    return last


def _scripts(run: Run, fault: Fault, settings: Settings) -> Iterator[str]:
    yield from filter(
        None, (run_script(*each, settings) for each in _ever_smaller(run, fault, settings))
    )


def _ever_smaller(run: Run, fault: Fault, settings: Settings) -> Iterator[tuple[Run, Fault]]:
    """The run, and runs of smaller calls that show the same."""
    yield run, fault
    random = torch.Generator().manual_seed(settings.seed)
    changes = itertools.chain([_with_round_numbers], _resizings(run.call, random))
    tries = 0
    while tries < _MOST_TRIES and (change := next(changes, None)) is not None:
        tries += 1
        with contextlib.suppress(Exception):  # a call that the op does not take
            smaller = run._replace(call=change(run.call))
            found = _fault(smaller, settings)
            if found is not None and _kind(found) == _kind(fault):
                run = smaller
                yield run, found
                changes = itertools.chain(_resizings(run.call, random))


def _with_round_numbers(call: Call) -> Call:
    def rounded(x: torch.Tensor) -> torch.Tensor:
        return ((x * 10).round() / 10).float() if x.dtype is torch.float64 else x

    return call.with_tensors(rounded)


def _resizings(call: Call, random: torch.Generator) -> Iterator[Callable[[Call], Call]]:
    """Changes of one size to a smaller one: the largest first, to the smallest first."""
    listed = listed_ints([*call.args, *call.kwargs.values()])
    for size in sorted({size for size in listed | sizes_of(call) if size > 1}, reverse=True):
        for less in range(1, min(size, 7)):
            yield functools.partial(resized, change={size: less}, random=random)


def _kind(fault: Fault) -> object:
    """What is the same of two faults though sizes and numbers differ."""
    return fault.subject, fault.raises, fault.incoming


def _fault(run: Run, settings: Settings) -> Fault | None:
    return carried_out(OneDevice(Executable(run.call), settings.seed), run, settings.seed)[1]


def run_script(run: Run, fault: Fault, settings: Settings) -> str:
    """A script that fails as the run does; "" where there is none."""
    try:
        text = _written(run, fault, settings)
    except Unwritable:
        return ""
    return text if _fails(text, fault) else ""


def _fails(text: str, fault: Fault) -> bool:
    try:
        with contextlib.redirect_stdout(io.StringIO()), torch.enable_grad():
            exec(compile(text, "repro", "exec"), {})
    except AssertionError:
        return True
    except Exception:
        return fault.raises
    return False


def _written(run: Run, fault: Fault, settings: Settings) -> str:
    whole = OneDevice(Executable(run.call), settings.seed)
    executable, written = whole.executable, whole.executable.written
    kept = executable.kept
    rng = torch.Generator().manual_seed(settings.seed)
    layout_of = dict(zip(whole.incoming, fault.incoming, strict=False))
    operands = zip(executable.operands, run.layouts, strict=True)
    named = {f"operand_{at}": pair for at, pair in enumerate(operands)}
    gradients = {
        f"gradient_{at}": (x, layout_of.get(at, (Replicate(),) * len(run.sizes)))
        for at, x in whole.incoming.items()
    }
    is_torchs = run.call.op.namespace in ("aten", "prims")
    is_active = settings.rule == "active"
    imports = ["\nimport shardprop"] * is_active + [f"\n{DEFINE_HERE}"] * (not is_torchs)
    rows = "; ".join(
        f"{', '.join(str(layout[at]) for layout in run.layouts)}" for at in range(len(run.sizes))
    )
    title = f"{run.call.op} on {' x '.join(map(str, run.sizes))} ranks, operands {rows}: "
    said = f"{fault.subject}: {fault.reason}".replace("\\", "/").replace('"', "'")
    return _SCRIPT.format(
        title=textwrap.fill(title + said, _WIDTH),
        needed=(" and shardprop" * is_active) + (", and what defines the op" * (not is_torchs)),
        imports="".join(f"{line}\n" for line in imports),
        ranks=math.prod(run.sizes),
        sizes=run.sizes,
        call=_call(executable),
        and_writes=", and what it has written to" if kept else "",
        copies=f"    x = [y.clone() if at in {written} else y for at, y in enumerate(x)]\n"
        * bool(written),
        results=f"[made, *(x[at] for at in {kept})]" if kept else "made",
        tensors="\n".join(
            f"{name} = {_laid_out(x, layout, run.sizes, rng)}"
            for name, (x, layout) in (named | gradients).items()
        ),
        operands=", ".join(named),
        incoming=", ".join(
            f"{number}: gradient_{at}"
            for number, at in enumerate(at for at, x in enumerate(whole.results) if x is not None)
            if at in whole.incoming
        ),
        wanted=whole.wanted,
        enabled="shardprop.enabled(), " if is_active else "",
        far="1e-4" if any(x.dtype.itemsize < 8 for x in executable.operands) else "1e-6",
    )


def _call(executable: Executable) -> str:
    """The call on the tensors of a list `x`, copies where it writes to them."""
    call = Call(executable.call.op, executable.call.args, executable.call.kwargs)
    names = {id(x): f"x[{at}]" for at, x in enumerate(call.tensors)}
    given = [literal(value, names) for value in call.args]
    given += [f"{name}={literal(value, names)}" for name, value in call.kwargs.items()]
    return f"torch.ops.{call.op}({', '.join(given)})"


def _laid_out(
    whole: torch.Tensor, layout: Placements, sizes: tuple[int, ...], rng: torch.Generator
) -> str:
    parts = ",\n        ".join(tensor_text(part) for part in split(whole, layout, sizes, rng))
    placed = ", ".join(map(_placement, layout))
    return f"(\n    {tensor_text(whole)},\n    [\n        {parts},\n    ],\n    [{placed}],\n)"


def _placement(placement: Placement) -> str:
    if isinstance(placement, StridedShard):
        return (
            f"placement_types._StridedShard({placement.dim}, split_factor={placement.split_factor})"
        )
    if isinstance(placement, Shard):
        return f"Shard({placement.dim})"
    if isinstance(placement, Partial):
        return f"Partial({placement.reduce_op!r})"
    return "Replicate()"
