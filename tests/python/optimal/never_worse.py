"""Random decisions by both policies: `optimal` never moves at a higher price than torch."""

from __future__ import annotations

import logging
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import torch.distributed as dist
from torch._subclasses import FakeTensorMode
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor._op_schema import OpSchema, OutputSharding

import shardprop
from shardprop.propagation.policy_settings import exact_planner
from shardprop.propagation.route import route_of

from ..parity.case import Case
from ..parity.cases import Draw, case_at
from ..parity.layouts import Operand
from ..parity.meshes import MeshKey
from ..parity.oracle import forget_history
from ..parity.registry import Rule, propagator
from ..parity.sketch import map_leaves
from ..quiet import quiet
from .moved import Pair, Prices, moved
from .ranks import all_groups, flattened

__all__ = ["Compared", "Gains", "compare"]

_CHUNK = 500
_LAYOUTS = 10  # cases per call: to make up a call takes longer than to decide about it


class FlattenedKey(MeshKey):
    """A mesh of the first ranks that has every set of its dims flattened."""

    __slots__ = ()

    def build(self) -> DeviceMesh:
        return flattened(self.sizes, tuple(all_groups(self.sizes)))


@dataclass(frozen=True)
class Compared:
    """One decision.

    Attributes:
        case: What was asked.
        by: What decides it under policy `optimal`.
        ours: Picoseconds of what policy `optimal` moves, or why there is no price.
        torchs: Of what torch moves by its own plans, likewise.
    """

    case: Case
    by: str
    ours: int | str
    torchs: int | str


def compare(
    seed: int, count: int, topologies: Sequence[str], rule: Rule | None = None
) -> Iterator[tuple[str, Compared]]:
    """(name of the topology, comparison) of `count` random decisions, of ops with a `rule`.

    The topologies take turns, and with them meshes without and with flattened groups.
    """
    # It warns of every plan that it does not merge.
    logging.getLogger("torch.distributed.tensor._redistribute").setLevel(logging.ERROR)
    names = [(name, flat) for name in topologies for flat in (False, True)]
    prices = {name: Prices(exact_planner(name)) for name in topologies}
    cases = _cases(Draw(seed, samples="built", layouts=_LAYOUTS, rule=rule))
    for start in range(0, count, _CHUNK):
        name, flat = names[start // _CHUNK % len(names)]
        chunk = [next(cases) for _ in range(min(_CHUNK, count - start))]
        if flat:
            chunk = [_on_flattened(case) for case in chunk]
        with shardprop.enabled():
            theirs = [_decided(case) for case in chunk]
        with shardprop.enabled(policy="optimal", topology=name):
            ours = [_decided(case) for case in chunk]
        label = f"{name}, flattened" if flat else name
        for case, mine, other in zip(chunk, ours, theirs, strict=True):
            yield label, _compared(case, prices[name], mine, other)
        # torch keeps the metadata of every fake call for good.
        FakeTensorMode.cache_clear()


def _cases(draw: Draw) -> Iterator[Case]:
    """Decisions on meshes of one to three dims with this rank."""
    index = 0
    while True:
        case = case_at(draw, index)
        if case.mesh.ndim > 3 or case.mesh.first_rank > 0:
            index += _LAYOUTS - index % _LAYOUTS  # so are the others of the call
            continue
        yield case
        index += 1


def _on_flattened(case: Case) -> Case:
    """The same on a mesh with flattened groups; these take ranks that are there."""
    if case.mesh.numel > dist.get_world_size():
        return case

    def place(operand: Operand) -> Operand:
        key = FlattenedKey(operand.layout.mesh.sizes)
        return replace(operand, layout=replace(operand.layout, mesh=key))

    args = tuple(map_leaves(Operand, place, arg) for arg in case.args)
    kwargs = {name: map_leaves(Operand, place, value) for name, value in case.kwargs.items()}
    return replace(case, args=args, kwargs=kwargs, mesh=FlattenedKey(case.mesh.sizes))


# The decision, or the type of the error.
Decided = tuple[OpSchema, OutputSharding | str]


def _decided(case: Case) -> Decided:
    forget_history()
    schema = case.schema()
    with quiet():
        try:
            return schema, propagator().propagate_op_sharding_non_cached(schema)
        except Exception as error:
            return schema, type(error).__name__


def _compared(case: Case, prices: Prices, mine: Decided, other: Decided) -> Compared:
    def priced(of: Decided, total: Callable[[list[Pair]], int | str]) -> int | str:
        schema, decision = of
        if isinstance(decision, str):
            return f"the decision raises {decision}"
        return total(moved(schema, decision))

    return Compared(case, _decider(case), priced(mine, prices.ours), priced(other, prices.torchs))


def _decider(case: Case) -> str:
    rule = route_of(case.op).rule
    if rule is None:
        return "torch's function"
    return "follow rule" if rule.as_rows is None else "search"


@dataclass
class Gains:
    """What was compared so far.

    Attributes:
        counts: Decisions by what came of them.
        worse: Those at which torch moves at a lower price, by what decides.
        ratios: torch's price over ours where something has to move, by group of decisions.
    """

    counts: Counter[str] = field(default_factory=Counter)
    worse: list[Compared] = field(default_factory=list)
    ratios: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))

    def add(self, label: str, one: Compared) -> None:
        ours, torchs = one.ours, one.torchs
        if isinstance(torchs, str):
            both = " (ours too)" if isinstance(ours, str) else ""
            self.counts[f"torch without a price: {torchs}{both}"] += 1
        elif isinstance(ours, str):
            self.counts[f"OURS WITHOUT A PRICE: {ours}, by {one.by}"] += 1
        elif torchs == 0 and ours == 0:
            self.counts["nothing moves, or for nothing"] += 1
        else:
            self.counts["compared" if ours <= torchs else f"WORSE, by {one.by}"] += 1
            if ours > torchs:
                self.worse.append(one)
            ratio = torchs / ours if ours else float("inf")
            for group in ("all", f"mesh ndim {one.case.mesh.ndim}", label, f"by {one.by}"):
                self.ratios[group].append(ratio)

    def table(self) -> Iterator[str]:
        yield f"{'':48}{'moves':>8}{'equal':>8}{'free':>8}{'median':>8}{'p90':>8}{'max':>9}"
        for group, ratios in sorted(self.ratios.items()):
            finite = sorted(ratio for ratio in ratios if ratio != float("inf"))
            equal = sum(ratio == 1 for ratio in ratios) / len(ratios)
            free = 1 - len(finite) / len(ratios)
            cells = [f"{finite[int(len(finite) * q)]:.2f}" for q in (0.5, 0.9)] if finite else []
            most = f"{finite[-1]:.1f}" if finite else ""
            yield (
                f"{group:48}{len(ratios):>8}{equal:>8.1%}{free:>8.1%}"
                + "".join(f"{cell:>8}" for cell in cells)
                + f"{most:>9}"
            )
