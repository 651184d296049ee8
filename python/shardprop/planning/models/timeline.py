"""When what a planned step does begins and ends: ops one after another, collectives beside them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import fx

from ... import _torch
from ...cost.cost_model import COLLECTIVES
from ...erasure import LocalGraphs
from ...model.plan_steps import Step
from .lowering import Part, part_of

__all__ = ["Event", "Timeline", "timeline_of"]

Steps = tuple[Step, ...]
Stream = Literal["compute", "collectives"]
_STREAMS: tuple[Stream, ...] = ("compute", "collectives")


class Event(NamedTuple):
    """An op, the local work of a redistribution, or a collective.

    Attributes:
        name: Of the call of the local graph that begins it.
        stream: What carries it out; each does one thing after another.
        node: The index of the node of the program that it is for.
        start_us: Microseconds after the step began.
        us: Microseconds that it takes.
    """

    name: str
    stream: Stream
    node: int
    start_us: float
    us: float

    @property
    def end_us(self) -> float:
        """Microseconds after the step began."""
        return self.start_us + self.us


@dataclass(frozen=True)
class Timeline:
    """A step as the model of costs has it, with two streams. Calls run in their order; a collective
    begins when the graph comes to it and that before it is done, and who waits for it waits to its
    end. What launches cost, and that the two slow one another, is not in it.

    Attributes:
        forward: What takes time in the forward, in the order in which it is begun.
        backward: Likewise; empty where there is none. It begins when the forward is over.
    """

    forward: tuple[Event, ...]
    backward: tuple[Event, ...]

    @property
    def events(self) -> tuple[Event, ...]:
        """All of them."""
        return (*self.forward, *self.backward)

    @property
    def us(self) -> float:
        """Microseconds of the step."""
        return max((each.end_us for each in self.events), default=0.0)

    def busy_us(self, stream: Stream) -> float:
        """Microseconds in which a stream does something."""
        return sum(each.us for each in self.events if each.stream == stream)

    def to_json(self) -> dict[str, Any]:
        """What `json.dump` takes, in the form that chrome://tracing and Perfetto read: complete
        events, a thread for each stream (Google, "Trace Event Format")."""
        names = [
            {"ph": "M", "name": "thread_name", "pid": 0, "tid": at, "args": {"name": stream}}
            for at, stream in enumerate(_STREAMS)
        ]
        events = [
            {
                "ph": "X",
                "name": each.name,
                "pid": 0,
                "tid": _STREAMS.index(each.stream),
                "ts": each.start_us,
                "dur": each.us,
                "args": {"node": each.node},
            }
            for each in self.events
        ]
        return {"traceEvents": [*names, *events], "displayTimeUnit": "ms"}


def timeline_of(
    graphs: LocalGraphs, compute_us: NDArray[np.float64], run: Callable[[Part, bool], Steps]
) -> Timeline:
    """That of the graphs of a plan.

    Args:
        graphs: What runs.
        compute_us: By node of the program microseconds of its op.
        run: Of a redistribution in the backward, or not, the steps that have to be run.
    """

    def events(graph: fx.Graph, backward: bool, begin_us: float) -> tuple[Event, ...]:
        return tuple(_events(graph, compute_us, lambda part: run(part, backward), begin_us))

    forward = Timeline(events(graphs.forward, False, 0.0), ())
    if graphs.backward is None:
        return forward
    return Timeline(forward.forward, events(graphs.backward, True, forward.us))


def _events(
    graph: fx.Graph,
    compute_us: NDArray[np.float64],
    run: Callable[[Part], Steps],
    begin_us: float,
) -> Iterator[Event]:
    """What a graph does; calls that passes have made (views, copies) take nothing."""
    computing = communicating = begin_us  # when each stream is free
    done: dict[fx.Node, float] = {}  # by collective
    begun: Counter[Part] = Counter()  # collectives of a part
    for call in graph.nodes:
        if _torch.waits_for_collective(call.target):
            (of,) = call.all_input_nodes
            computing = max(computing, done.get(of, begin_us))
        part = part_of(call)
        if part is None:
            continue
        if part not in begun:
            begun[part] = 0
            local = sum(step.local_us for step in run(part))
            us = float(compute_us[part.node]) if part.moved is None else local
            if us:
                yield Event(call.name, "compute", part.node, computing, us)
                computing += us
        if _torch.begins_collective(call.target):
            start, us = max(computing, communicating), _communication_us(run(part), begun[part])
            begun[part] += 1
            yield Event(call.name, "collectives", part.node, start, us)
            communicating = done[call] = start + us


def _communication_us(steps: Steps, number: int) -> float:
    """Of one of the collectives of a redistribution. A step that takes more of them than one on the
    device that the plan was traced for has its price with the first."""
    prices = [step.comm_us for step in steps if step.kind in COLLECTIVES]
    return prices[number] if number < len(prices) else 0.0
