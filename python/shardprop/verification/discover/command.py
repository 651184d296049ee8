"""The discovery that the command line asks for."""

from __future__ import annotations

import dataclasses
import functools
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

from ..._torch import OpOverload
from ...model.op_traits import traits_of
from ..calls.call import Call
from ..calls.samples import Samples
from ..files import import_file
from ..names import ops_named, overload
from ..pool import run_all
from ..report import collected
from ..request import Request, own_calls, settings_of
from .discovery import Wanted, discover
from .report import lines
from .results import Discovery
from .row_trials import REDUCE_OPS

__all__ = ["discover_ops", "run"]

# Of an op's time limit, what is spent on calls; the rest is to find the rule.
_TO_TRY = 0.5

_RARE_REDUCE_OPS = ("product", "band", "bor", "bxor")


def run(
    request: Request, *, diff: bool = False, every_reduce_op: bool = False, as_json: bool = False
) -> int:
    """Discover and print; the exit code.

    Raises:
        ShardpropError: the request makes no sense.
    """
    settings = settings_of(request)
    if request.module is not None:
        import_file(request.module)
    own = own_calls(request)  # before the names are looked up: the file may bring the ops
    ops = [op for op in ops_named(request.ops) if _is_asked_for(op, request)]
    reduce_ops = REDUCE_OPS + (_RARE_REDUCE_OPS if every_reduce_op else ())
    wanted = Wanted(
        settings.ranks,
        reduce_ops,
        diff,
        seconds=request.time_limit * _TO_TRY,
        seed=settings.seed,
    )
    found = collected(discover_ops(ops, wanted, request, own), len(ops))
    if as_json:
        print(json.dumps({"ops": [_values(one) for one in found]}, indent=2))
    else:
        print("\n\n".join("\n".join(lines(one)) for one in found))
    return 0 if all(one.rule is not None for one in found) else 1


def _is_asked_for(op: OpOverload, request: Request) -> bool:
    """An ``out=`` variant has to be named: its rule follows from the functional one's."""
    return not traits_of(op).out_arguments or str(op) in request.ops


def discover_ops(
    ops: Sequence[OpOverload],
    wanted: Wanted,
    request: Request,
    own: Callable[[OpOverload], Iterable[Call]] | None = None,
) -> Iterator[Discovery]:
    """The discoveries of the ops as they are done, each made in a process of its own; on the calls
    that `own` generates, if it is given."""
    samples = Samples(ops, wanted.seed, own)

    def work(name: str, wanted: Wanted = wanted) -> Discovery:
        op = overload(name)
        return discover(op, samples.calls(op), wanted)

    careful = functools.partial(work, wanted=replace(wanted, made=False))

    crashed: list[str] = []
    limits = request.jobs, request.time_limit
    for found in run_all(work, list(map(str, ops)), Discovery, *limits):
        if str(found.error).startswith("crashed"):
            crashed.append(found.op)
        else:
            yield found
    # Again on the given calls alone: it was most likely a call that was made from them.
    if crashed:
        yield from run_all(careful, crashed, Discovery, *limits)


def _values(found: Discovery) -> dict[str, object]:
    values = dataclasses.asdict(found)
    if found.rule is not None:
        values["registration"] = found.registration
    return values
