"""The long runs: `python -m tests.python.optimal.run plans --seed 1`, `decisions`, `never-worse`.

Each exits with 1 if it finds anything wrong, and prints what, and how much it looked at.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections import Counter
from collections.abc import Iterable

import torch.distributed as dist

from shardprop import _torch
from shardprop.cost.topology import PRESETS

from ..parity.topology import set_devices_per_host
from .carried import Carried
from .decisions import choice_fault, random_decision
from .never_worse import Gains, compare
from .pairs import Batch, all_pairs, planned, random_pairs
from .threads import fault_by_threads
from .walks import Tensor

_SHOWN = 10


def main() -> int:
    options = _parse()
    _torch.make_fake_process_group(4096)
    return options.run(options)


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    runs = parser.add_subparsers(required=True)
    plans = runs.add_parser("plans", help="plans against the oracle, and carried out")
    plans.add_argument("--seed", type=int, default=1)
    plans.add_argument("--sources", type=int, default=250, help="of 3-D and of 4-D pairs, each")
    plans.add_argument("--meshes", type=int, default=4, help="2-D meshes of which all pairs")
    plans.add_argument("--plan-only", action="store_true", help="carry nothing out")
    plans.set_defaults(run=_plans)
    search = runs.add_parser("decisions", help="the search against all strategies")
    search.add_argument("--seed", type=int, default=1)
    search.add_argument("--decisions", type=int, default=3000, help="of 1-D, 2-D; a fifth of 3-D")
    search.set_defaults(run=_decisions)
    worse = runs.add_parser("never-worse", help="decisions priced against torch's")
    worse.add_argument("--seed", type=int, default=1)
    worse.add_argument("--decisions", type=int, default=100_000)
    worse.add_argument("--topologies", nargs="+", default=[*PRESETS])
    worse.set_defaults(run=_never_worse)
    return parser.parse_args()


# Decisions ----------------------------------------------------------------------------------------


def _decisions(options: argparse.Namespace) -> int:
    wrong = []
    for mesh_ndim in (1, 2, 3):
        count = options.decisions // (5 if mesh_ndim == 3 else 1)
        for weighed in (False, True):
            started = time.monotonic()
            for number in range(count):
                rng = random.Random(f"decision {options.seed} {mesh_ndim} {weighed} {number}")
                fault = choice_fault(random_decision(rng, mesh_ndim, weighed=weighed))
                if fault is not None:
                    wrong.append(f"{mesh_ndim}-D, weighed {weighed}, number {number}: {fault}")
            kind = "with weighed outputs" if weighed else "of operands alone"
            seconds = time.monotonic() - started
            print(f"{count} decisions, {mesh_ndim}-D, {kind}: {seconds:.0f} s", flush=True)
    print(f"{len(wrong)} wrong")
    _show(wrong)
    return int(bool(wrong))


def _never_worse(options: argparse.Namespace) -> int:
    # torch takes a mesh dim for slow if it leaves the host, and a CPU host for one device.
    set_devices_per_host(8)
    started = time.monotonic()
    gains = Gains()
    for number, (label, compared) in enumerate(
        compare(options.seed, options.decisions, options.topologies), 1
    ):
        gains.add(label, compared)
        if number % 10_000 == 0 or number == options.decisions:
            print(f"{number} decisions, {time.monotonic() - started:.0f} s", flush=True)
            print("\n".join(gains.table()), flush=True)
    for outcome, count in gains.counts.most_common():
        print(f"  {count} decisions: {outcome}")
    _show([f"{w.by}: {w.ours} ps, torch {w.torchs} ps: {w.case}" for w in gains.worse])
    return int(any(worse.by == "search" for worse in gains.worse))


# Plans --------------------------------------------------------------------------------------------


def _plans(options: argparse.Namespace) -> int:
    seed, sources = options.seed, options.sources
    carried = Carried()
    wrong = 0
    meshes = ((2, 4), (3, 2), (4, 4), (1, 4))[: options.meshes]
    for name, batches, is_small in (
        ("random pairs, 3-D", random_pairs(seed, sources, 3), True),
        ("random pairs, 4-D", random_pairs(seed, sources, 4), True),
        ("large meshes, 3-D", random_pairs(seed, sources // 5, 3, max_ranks=512), False),
        ("large meshes, 4-D", random_pairs(seed, sources // 5, 4, max_ranks=4096), False),
        ("all pairs, 2-D", all_pairs(seed, meshes), True),
    ):
        runs = is_small and not options.plan_only
        wrong += _plan_all(name, batches, carried if runs else None)
    wrong += _by_threads(carried)
    for outcome, count in carried.counts.most_common():
        print(f"  {count} plans: {outcome}")
    _show(carried.faults)
    return int(wrong > 0 or bool(carried.faults))


def _plan_all(name: str, batches: Iterable[Batch], carried: Carried | None) -> int:
    """How many pairs have a wrong plan; large meshes have too many ranks to carry plans out."""
    started = time.monotonic()
    counts: Counter[str] = Counter()
    faults = []
    for batch in batches:
        for plan in planned(batch):
            counts["pairs"] += 1
            counts["without a plan"] += plan.steps is None
            counts["steps"] += len(plan.steps or ())
            counts["with a merged step"] += any(len(s.mesh_dims) > 1 for s in plan.steps or ())
            if plan.fault:
                faults.append(f"{plan}: {plan.fault}")
            if carried is not None:
                carried.add(plan)
    text = ", ".join(f"{count} {what}" for what, count in counts.items())
    print(f"{name}: {text}; {len(faults)} wrong; {time.monotonic() - started:.0f} s", flush=True)
    _show(faults)
    return len(faults)


def _by_threads(carried: Carried) -> int:
    """What torch's simulation refuses, once more by threads."""
    started = time.monotonic()
    dist.destroy_process_group()
    wrong = []
    for plan, refusal in carried.refused:
        tensor = Tensor(plan.batch.shape, plan.batch.model.sizes, plan.batch.groups)
        assert plan.steps is not None
        fault = fault_by_threads(plan.steps, tensor)
        short = refusal.splitlines()[0][:60]
        if fault is None:
            carried.counts[f"right data by threads (simulation: {short})"] += 1
        elif "does not support" in fault:
            carried.counts[f"not carried out: threads {fault[:60]}"] += 1
        else:
            wrong.append(f"{plan}: {refusal}; by threads: {fault[:300]}")
    print(f"{len(carried.refused)} by threads: {time.monotonic() - started:.0f} s")
    _show(wrong)
    return len(wrong)


def _show(texts: list[str]) -> None:
    for text in texts[:_SHOWN]:
        print("  " + text)


if __name__ == "__main__":
    sys.exit(main())
