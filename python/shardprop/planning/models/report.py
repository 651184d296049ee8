"""What a plan does in each module, and what it costs beside well-known ways to shard."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from ..._torch import Placement, has_strided
from ...support.console import COLUMNS, table, table_lines
from ...support.files import write_text
from .moves import Volume, volume
from .report_page import report_page

if TYPE_CHECKING:
    from .model_plan import ModelPlan

__all__ = ["ModuleCosts", "PlanReport", "costs_by_module", "report_of"]


@dataclass
class ModuleCosts:
    """What happens in one module; a redistribution belongs to the op that reads the tensor.

    Attributes:
        compute_us: Microseconds of its ops.
        redistribute_us: Microseconds of its redistributions.
        volume: Their number, collectives and bytes sent by a rank.
        parameters: Placements of the parameters that are its own, by name.
        strided: How many of its tensors lie in a `_StridedShard`.
    """

    compute_us: float = 0.0
    redistribute_us: float = 0.0
    volume: Volume = field(default_factory=Volume)
    parameters: dict[str, tuple[Placement, ...]] = field(default_factory=dict)
    strided: int = 0

    @property
    def us(self) -> float:
        """Microseconds in all."""
        return self.compute_us + self.redistribute_us

    def add(self, other: ModuleCosts) -> None:
        """Count what happens in another as well."""
        self.compute_us += other.compute_us
        self.redistribute_us += other.redistribute_us
        self.volume.add(other.volume)
        self.strided += other.strided

    def by_placements(self) -> list[tuple[str, str]]:
        """Placements as torch writes them, and the parameters that have them."""
        names: dict[str, list[str]] = {}
        for name, placements in self.parameters.items():
            names.setdefault("".join(map(str, placements)), []).append(name)
        return [(placements, ", ".join(of)) for placements, of in names.items()]


@dataclass(frozen=True)
class PlanReport:
    """A plan by module, beside baselines under the same cost model.

    Attributes:
        modules: By path, in the order of the program.
        cost_us: Microseconds of the plan.
        lower_bound_us: No plan costs less.
        proved: Is the plan proved to be the cheapest?
        memory_limit: Bytes that a rank may hold by it, and by those that it is the cheapest of;
            None: any.
        baselines: Per way to shard the microseconds by module; None where it has no plan.
        why_not: Per way to shard without a plan, why.
    """

    modules: dict[str, ModuleCosts]
    cost_us: float
    lower_bound_us: float
    proved: bool
    memory_limit: float | None
    baselines: dict[str, dict[str, float] | None]
    why_not: dict[str, str]

    def to_json(self) -> dict[str, Any]:
        """What `json.dump` takes."""
        modules = {
            path: {
                **{name: value for name, value in asdict(costs).items() if name != "parameters"},
                "parameters": {name: list(map(str, p)) for name, p in costs.parameters.items()},
            }
            for path, costs in self.modules.items()
        }
        return {
            "cost_us": self.cost_us,
            "lower_bound_us": self.lower_bound_us,
            "proved": self.proved,
            "memory_limit": self.memory_limit,
            "modules": modules,
            "baselines": {
                name: None if costs is None else {"us": sum(costs.values()), "modules": costs}
                for name, costs in self.baselines.items()
            },
            "why_not": self.why_not,
        }

    def to_html(self, *, title: str = "A plan") -> str:
        """One HTML file that needs no other, without scripts.

        Args:
            title: The heading.
        """
        return report_page(self, title)

    def save_html(self, path: str | os.PathLike[str], *, title: str = "A plan") -> None:
        """Write `to_html` to a file.

        Raises:
            ShardpropError: it cannot be written.
        """
        write_text(path, self.to_html(title=title))

    @property
    def total(self) -> ModuleCosts:
        """All modules together, without their parameters."""
        total = ModuleCosts()
        for costs in self.modules.values():
            total.add(costs)
        return total

    def beside(self, baseline: str, path: str | None) -> float | None:
        """Microseconds of a baseline in a module; with None for the path, in all. None where it has
        no plan."""
        costs = self.baselines[baseline]
        if costs is None:
            return None
        return sum(costs.values()) if path is None else costs.get(path, 0.0)

    @property
    def verdict(self) -> str:
        """What it costs, and what is proved of that."""
        proof = (
            "no plan costs less"
            if self.proved
            else f"no plan costs less than {self.lower_bound_us:.1f} us"
        )
        within = "" if self.memory_limit is None else f" within {self.memory_limit:,.0f} bytes"
        return f"{self.cost_us:.1f} us{within}; {proof} under this cost model."

    def __str__(self) -> str:
        headings = ("module", "us", "compute", "moving", "collectives", "MB sent", *self.baselines)
        shown = table(headings, right=range(1, len(headings)))
        lie = table(("module", "placements", "parameters"))
        for path, costs in self.modules.items():
            name = path or "(model)"
            shown.add_row(name, *_figures(costs), *self._beside(path))
            for row in costs.by_placements():
                lie.add_row(name, *row)
        shown.add_row("in all", *_figures(self.total), *self._beside(None), style="bold")
        tables = [table_lines(each, indent="", width=COLUMNS) for each in (shown, lie)]
        why_not = [f"{name}: no plan: {why}" for name, why in self.why_not.items()]
        return "\n".join([*tables[0], "", *tables[1], "", self.verdict, *why_not])

    def _beside(self, path: str | None) -> list[str]:
        found = (self.beside(name, path) for name in self.baselines)
        return ["-" if us is None else f"{us:.0f}" for us in found]


def _figures(costs: ModuleCosts) -> list[str]:
    return [
        f"{costs.us:.0f}",
        f"{costs.compute_us:.0f}",
        f"{costs.redistribute_us:.0f}",
        str(costs.volume.collectives),
        f"{costs.volume.wire_bytes / 1e6:.1f}",
    ]


def costs_by_module(plan: ModelPlan, depth: int | None) -> dict[str, ModuleCosts]:
    """The costs of a plan by the path of the module, cut at `depth` names; None: not cut."""
    program = plan.program
    modules: dict[str, ModuleCosts] = {}

    def of(path: str) -> ModuleCosts:
        return modules.setdefault(_cut(path, depth), ModuleCosts())

    for node, us in zip(program.nodes, plan.compute_us, strict=True):
        if node.op is not None:
            costs = of(node.module)
            costs.compute_us += float(us)
            costs.strided += sum(_is_strided(placements) for placements in plan.given(node.index))
    for moved in plan.redistributions:
        costs = of(program.nodes[moved.consumer].module)
        costs.redistribute_us += moved.us
        costs.volume.add(volume(moved.run))
    placed = plan.placements().parameters
    for name, placements in placed.items():
        path = name.rpartition(".")[0]
        own = _cut(path, depth)
        shown = name[len(own) + 1 :] if own else name
        of(path).parameters[shown] = placements
    return modules


def _is_strided(placements: Sequence[Placement] | None) -> bool:
    return placements is not None and has_strided(placements)


def _cut(path: str, depth: int | None) -> str:
    return path if depth is None else ".".join(path.split(".")[:depth])


def report_of(
    plan: ModelPlan, others: dict[str, ModelPlan | None], why_not: dict[str, str], depth: int | None
) -> PlanReport:
    """The report of a plan beside others of the same program."""
    return PlanReport(
        modules=costs_by_module(plan, depth),
        cost_us=plan.cost_us,
        lower_bound_us=plan.solution.lower_bound,
        proved=plan.solution.proved,
        memory_limit=plan.memory_limit,
        baselines={
            name: None
            if other is None
            else {path: costs.us for path, costs in costs_by_module(other, depth).items()}
            for name, other in others.items()
        },
        why_not=why_not,
    )
