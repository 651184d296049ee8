"""What calls of the graphs of a plan take, by its model of costs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from torch import fx

from ... import _torch
from ...cost.cost_model import COLLECTIVES
from ...erasure import Duration
from ...model.plan_steps import Step
from .lowering import Part, part_of

__all__ = ["CallDurations"]

Steps = tuple[Step, ...]


class CallDurations:
    """What calls of lowered graphs take. Those that passes have made (views, copies) take nothing.

    Args:
        compute_us: By node of the program microseconds of its op.
        run: Of a redistribution the steps that have to be run.
    """

    def __init__(self, compute_us: NDArray[np.float64], run: Callable[[Part], Steps]) -> None:
        self._compute_us = compute_us
        self._run = run

    def __call__(self, graph: fx.Graph) -> dict[fx.Node, Duration]:
        """By call of those that take time. What a part of the program takes beside collectives, its
        first call does."""
        found: dict[fx.Node, Duration] = {}
        begun: Counter[Part] = Counter()  # collectives of a part
        for call in graph.nodes:
            part = part_of(call)
            if part is None:
                continue
            first = part not in begun
            begun[part] += 0
            op_us = local_us = comm_us = 0.0
            if first and part.moved is None:
                op_us = float(self._compute_us[part.node])
            elif first:
                local_us = sum(step.local_us for step in self._run(part))
            if _torch.begins_collective(call.target):
                comm_us = _communication_us(self._run(part), begun[part])
                begun[part] += 1
            if op_us or local_us or comm_us:
                found[call] = Duration(op_us, local_us, comm_us)
        return found


def _communication_us(steps: Steps, number: int) -> float:
    """Of one of the collectives of a redistribution. A step that takes more of them than one on the
    device that the plan was traced for has its price with the first."""
    prices = [step.comm_us for step in steps if step.kind in COLLECTIVES]
    return prices[number] if number < len(prices) else 0.0
