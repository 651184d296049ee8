"""What the paths of a decision take, in thousands of instructions, in one checkout or several.

    python -m bench.decision_instructions [--tree CHECKOUT ...]

valgrind counts them, so a busy machine changes nothing (``--tool=cachegrind``: the same counts as
callgrind's in half the time). Each checkout is measured in one process. It imports torch and the
checkout's own package (its core built in place, ``python/shardprop/_core*.so``), makes all calls of
decision_paths.py a few times, and clears the caches before each path. A path then runs in a chain
of forks: a process ends at each mark, and its child goes on to the next. A child counts more than
its parent by the calls between the two marks and by one fork, which is counted alone and
subtracted. So start-up cancels.

The first miss is the first call. The second miss is the one that finds other sizes than before.
Later misses are the mean of calls 5 to 12. Whole calls are counted: torch's dispatch and the local
op, on small tensors, are part of them. Addresses differ between checkouts, so dicts collide
differently: a difference of one percent is noise, as is one of 2,000 instructions on a short path.
Takes about two minutes of one processor per checkout.
"""

from __future__ import annotations

import argparse
import gc
import os
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from .valgrind import instructions_by_process, run_counted

# Calls made when a process of the chain ends, and what the calls since the one before are. Those
# between the second mark and the third find out between which sizes an answer holds.
_MARKS = (0, 1, 2, 4, 12)
_STEPS = {"first miss": (0, 1), "second miss": (1, 2), "later misses": (4, 12)}

_FORK_ALONE = "a fork"
_WARM_UP_ROUNDS = 3

Counts = dict[tuple[str, str], float]


# --- the process that is counted ---------------------------------------------------------------


def chain(name: str, calls: Sequence[Callable[[], object]], marks: Sequence[int]) -> None:
    """Make the calls, with a process that ends at each mark; it says whose it is."""
    if (first := os.fork()) != 0:
        _wait(first)
        return
    done = 0
    for mark in marks:
        for call in calls[done:mark]:
            call()
        done = mark
        os.write(1, b"%s\t%08d\n" % (name.encode(), os.getpid()))
        child = os.fork()
        if child != 0:
            _wait(child)
            os._exit(0)
    os._exit(0)


def _wait(child: int) -> None:
    _, status = os.waitpid(child, 0)
    if status != 0:
        os._exit(1)


def measured_process() -> None:
    """All paths, after a warm-up of each, from cold caches."""
    import torch
    import torch.distributed as dist

    import shardprop

    from .decision_paths import CALLS, PATHS

    assert max(_MARKS) == CALLS
    torch.set_num_threads(1)
    gc.disable()
    warnings.simplefilter("ignore")
    dist.init_process_group("fake", rank=0, world_size=8)
    for path in PATHS.values():
        for _ in range(_WARM_UP_ROUNDS):
            shardprop.clear_caches()
            calls = path.calls()
            with path.enabled():
                for call in calls:
                    call()
    for _ in range(2):  # a fork's own code is to be warm, too
        chain(_FORK_ALONE, [], (0, 0))
    for name, path in PATHS.items():
        calls = path.calls()
        with path.enabled():
            shardprop.clear_caches()
            chain(name, calls, _MARKS)
    print(shardprop.__file__, flush=True)


# --- the process that counts -------------------------------------------------------------------


def counts(tree: Path) -> Counts:
    """Instructions by path and step.

    Raises:
        SystemExit: the checkout cannot be measured.
    """
    module = ("bench.decision_instructions", "--measured-process")
    ran = run_counted("cachegrind", ["--cache-sim=no"], module, PYTHONPATH=f"{tree}/python")
    *reports, package = ran.stdout.splitlines()
    if not Path(package).is_relative_to(tree):
        raise SystemExit(f"{tree}: {package} was measured. Build its core in place.")
    collected = instructions_by_process(ran)
    chains: dict[str, list[int]] = {}
    for report in reports:
        name, process = report.split("\t")
        chains.setdefault(name, []).append(collected[int(process)])
    *_, before, after = chains.pop(_FORK_ALONE)
    return _by_step(chains, after - before)


def _by_step(chains: dict[str, list[int]], fork: int) -> Counts:
    """Instructions of a call between two marks, without the forks."""
    by_step: Counts = {}
    for name, at_marks in chains.items():
        reached = dict(zip(_MARKS, at_marks, strict=True))
        for step, (few, many) in _STEPS.items():
            by_step[name, step] = (reached[many] - reached[few] - fork) / (many - few)
    return by_step


def table(trees: Sequence[str], counted: Sequence[Counts]) -> str:
    """Thousands of instructions by tree, and what they are of those of the last tree."""
    *_, last = counted
    headings = [*trees, *(f"{tree} / {trees[-1]}" for tree in trees[:-1])]
    lines = [f"{'thousands of instructions':40}" + "".join(f"  {h:>14}" for h in headings)]
    for key in last:
        cells = [f"{each[key] / 1e3:14,.1f}" for each in counted]
        cells += [f"{each[key] / last[key]:14.3f}" for each in counted[:-1]]
        lines.append(f"{key[0] + ', ' + key[1]:40}" + "".join(f"  {cell}" for cell in cells))
    return "\n".join(lines)


def main() -> None:
    """Count, and print a table."""
    parser = argparse.ArgumentParser(prog="python -m bench.decision_instructions")
    parser.add_argument(
        "--tree",
        action="append",
        metavar="CHECKOUT",
        help="a checkout with its core built in place; "
        "several are compared with the last (default: this one)",
    )
    parser.add_argument("--measured-process", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measured_process:
        measured_process()
        return
    named: list[str] = arguments.tree or ["."]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        counted = list(pool.map(counts, (Path(tree).resolve() for tree in named)))
    print(table(named, counted))


if __name__ == "__main__":
    main()
