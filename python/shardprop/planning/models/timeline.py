"""When what a planned step does begins and ends: ops one after another, collectives beside them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from torch import fx

from ... import _torch
from ...erasure import NO_TIME, Durations, LocalGraphs
from .lowering import part_of

__all__ = ["Event", "Timeline", "timeline_of"]

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


def timeline_of(graphs: LocalGraphs, durations: Durations) -> Timeline:
    """That of the graphs of a plan.

    Args:
        graphs: What runs.
        durations: What their calls take.
    """
    forward = Timeline((*_events(graphs.forward, durations, 0.0),), ())
    if graphs.backward is None:
        return forward
    return Timeline(forward.forward, (*_events(graphs.backward, durations, forward.us),))


def _events(graph: fx.Graph, durations: Durations, begin_us: float) -> Iterator[Event]:
    took = durations(graph)
    computing = communicating = begin_us  # when each stream is free
    over: dict[fx.Node, float] = {}  # by collective
    for call in graph.nodes:
        if _torch.waits_for_collective(call.target):
            (of,) = call.all_input_nodes
            computing = max(computing, over.get(of, begin_us))
        duration, part = took.get(call, NO_TIME), part_of(call)
        node = -1 if part is None else part.node
        us = duration.op_us + duration.local_us
        if us:
            yield Event(call.name, "compute", node, computing, us)
            computing += us
        if _torch.begins_collective(call.target):
            start = max(computing, communicating)
            yield Event(call.name, "collectives", node, start, duration.comm_us)
            communicating = over[call] = start + duration.comm_us
            if not _torch.is_waited_for(call):
                computing = communicating  # the call itself waits
