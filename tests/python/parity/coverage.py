"""Which ops the suite reaches, how often, and why it does not reach the others."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from .cases import Draw, case_at, draw_op
from .op_choice import UNREACHABLE
from .recorded import library
from .registry import Rule, find_op, full_mesh_only, rule_of, single_dim_entries


@dataclass(frozen=True)
class Coverage:
    """How often each op occurred in a run, and what did not occur at all."""

    counts: Mapping[str, int]
    never: Mapping[str, str]  # ops with a rule of torch's, each with the reason

    def by_rule(self) -> dict[Rule, list[tuple[str, int]]]:
        """Ops by what decides them, the rare ones first."""
        found: dict[Rule, list[tuple[str, int]]] = {rule: [] for rule in Rule}
        for name, count in sorted(self.counts.items(), key=lambda item: (item[1], item[0])):
            found[rule_of(find_op(name))].append((name, count))
        return found


def ops_with_a_rule() -> list[str]:
    return [str(entry.op) for entry in single_dim_entries()] + sorted(map(str, full_mesh_only()))


def coverage_of(counts: Counter[str]) -> Coverage:
    """What a run that decided so many cases of each op left out."""
    missing = [name for name in ops_with_a_rule() if name not in counts]
    undrawable = ops_without_calls()
    never = {name: undrawable.get(name, "not drawn so far") for name in missing}
    return Coverage(counts, never)


def draw_only(draw: Draw, cases: int) -> Counter[str]:
    """The ops of a run without its decisions."""
    return Counter(str(case_at(draw, index).op) for index in range(cases))


def ops_without_calls() -> dict[str, str]:
    """Ops with a rule that no builder can call, each with the reason."""
    missing: dict[str, str] = {}
    for name in ops_with_a_rule():
        try:
            draw_op(random.Random(0), find_op(name))
        except Exception as error:
            missing[name] = UNREACHABLE.get(name, f"{type(error).__name__}: {error}")
    return missing


def opinfos_without_calls() -> dict[str, str]:
    """torch's sample inputs that gave nothing to decide about, each with the reason."""
    return dict(library().failed)
