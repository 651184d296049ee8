"""Writes the rule book: rows of pending sums that hold for every call the validator has.

python -m tools.rule_book            # writes what holds under the installed torch
python -m tools.rule_book --confirm  # keeps of it what holds under this torch, too
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Sequence

import torch

from shardprop._torch import OpOverload
from shardprop.rules.book.book import Book
from shardprop.verification.book.prove import Proved, prove, with_other_sizes
from shardprop.verification.calls.samples import Samples
from shardprop.verification.names import ops_decided, ops_named, overload
from shardprop.verification.pool import run_all
from shardprop.verification.report import collected

_SEEDS = (0, 1)
_SECONDS = 120.0


def main() -> None:
    """Prove, and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("ops", nargs="*", help="these alone, printed and not written")
    parser.add_argument("--confirm", action="store_true")
    parser.add_argument("--jobs", type=int)
    given = parser.parse_args()
    ops = ops_named(given.ops) if given.ops else ops_decided()
    proved = {
        report.op: report.entries for report in collected(_reports(ops, given.jobs), len(ops))
    }
    if given.ops:
        print(Book.of(proved, [torch.__version__]).text())
        return
    if given.confirm:
        Book.shipped().confirmed(proved, torch.__version__).write()
    else:
        Book.of(proved, [torch.__version__]).write()


def _reports(ops: Sequence[OpOverload], jobs: int | None) -> Iterator[Proved]:
    samples = [Samples(ops, seed, every_sample=len(ops) > 24, every_call=True) for seed in _SEEDS]

    def work(name: str) -> Proved:
        op = overload(name)
        calls = [call for each in samples for call in each.calls(op)]
        return prove(op, with_other_sizes(calls), time.monotonic() + 0.8 * _SECONDS)

    yield from run_all(work, [*map(str, ops)], Proved, jobs, _SECONDS)


if __name__ == "__main__":
    main()
