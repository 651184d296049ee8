"""What calls whose decision is known take, in thousands of instructions, with shardprop on and off.

    python -m bench.cached_instructions [--check]

valgrind counts them, so a busy machine changes nothing. Each path of cached_paths.py runs in a
chain of forks, as decision_instructions.py has it, after a warm-up: a process ends after the first
call and another after ten more, and the difference, less a fork, is divided by ten. Collectives are
those of torch's fake process group: what is counted is the work around them.

``--check`` fails where shardprop takes more than 1 % more than torch alone, and 2,000 instructions,
which is the noise, and no reason is known. Takes one to two minutes of one processor. Where
autograd does not run in a fork (torch 2.15), the paths that need it are left out.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import warnings

from .decision_instructions import chain
from .valgrind import instructions_by_process, run_counted

_ALLOWED, _NOISE = 1.01, 2_000
# What takes more, and why.
_REASONS = {
    "sum in another dtype": "torch's key of the decision leaves the dtype out, which it depends on",
    "mm, out=": "torch's key of the decision leaves `out` out, on whose placements it depends",
    "SGD on a plain tensor": "a function before torch's, once a step, however many parameters",
}
_NEED_AUTOGRAD = re.compile("gradient|backward")
# Once Dynamo has compiled anything, each frame of the process takes longer.
_WARM_IN_THE_FORK = ("compiled",)
_CALLS = 10
_FORK_ALONE = "a fork"
_WARM_UP = 4
# CPython has specialized torch's code for a class that shardprop gives another method, and does so
# anew after some fifty calls. These go through it.
_OFTEN, _TIMES = ("zero_", "out=", "copy_", "SGD on a plain tensor"), 200


def measured_process() -> None:
    """All paths, off and on."""
    import gc

    import torch
    import torch.distributed as dist

    import shardprop

    from .cached_paths import paths

    torch.set_num_threads(1)
    gc.disable()
    warnings.simplefilter("ignore")
    dist.init_process_group("fake", rank=0, world_size=8)
    for _ in range(2):  # a fork's own code is to be warm, too
        chain(_FORK_ALONE, [], (0, 0))
    calls = paths()
    if not _does_autograd_run_in_a_fork():
        calls = {name: call for name, call in calls.items() if not _NEED_AUTOGRAD.search(name)}
    for mode in ("off", "on"):
        if mode == "on":
            shardprop.enable()
        for name, call in calls.items():
            for _ in range(_WARM_UP if name not in _WARM_IN_THE_FORK else 0):
                call()
        for name in _OFTEN:
            for _ in range(_TIMES):
                calls[name]()
        for name, call in calls.items():
            chain(f"{mode}: {name}", [call] * (1 + _CALLS), (1, 1 + _CALLS))


def _does_autograd_run_in_a_fork() -> bool:
    """Not in a torch with CUDA, once it has run before the fork."""
    import torch

    one = torch.ones(1, requires_grad=True)
    one.sum().backward()
    child = os.fork()
    if child == 0:
        try:
            one.sum().backward()
        except RuntimeError:
            os._exit(1)
        os._exit(0)
    return os.waitpid(child, 0)[1] == 0


def counted() -> dict[str, tuple[float, float]]:
    """Instructions of a call by path: with torch alone, and with shardprop."""
    module = ("bench.cached_instructions", "--measured-process")
    ran = run_counted("cachegrind", ["--cache-sim=no"], module)
    collected = instructions_by_process(ran)
    chains: dict[str, list[int]] = {}
    for report in filter(None, ran.stdout.splitlines()):
        name, process = report.split("\t")
        chains.setdefault(name, []).append(collected[int(process)])
    *_, before, after = chains.pop(_FORK_ALONE)
    fork = after - before
    each = {name: (last - first - fork) / _CALLS for name, (first, last) in chains.items()}
    names = [name.removeprefix("off: ") for name in each if name.startswith("off: ")]
    return {name: (each[f"off: {name}"], each[f"on: {name}"]) for name in names}


def main() -> None:
    """Count, and print a table."""
    parser = argparse.ArgumentParser(prog="python -m bench.cached_instructions")
    parser.add_argument("--check", action="store_true", help="fail where shardprop takes more")
    parser.add_argument("--measured-process", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measured_process:
        measured_process()
        return
    print(f"{'thousands of instructions':44}{'torch':>10}{'shardprop':>12}{'ratio':>8}")
    slower = []
    for name, (alone, ours) in counted().items():
        print(f"{name:44}{alone / 1e3:10,.1f}{ours / 1e3:12,.1f}{ours / alone:8.3f}")
        if ours > alone * _ALLOWED and ours > alone + _NOISE:
            slower += [name] if name not in _REASONS else []
    for name, reason in _REASONS.items():
        print(f"{name}: {reason}")
    if arguments.check and slower:
        sys.exit(f"slower than torch alone: {', '.join(slower)}")


if __name__ == "__main__":
    main()
