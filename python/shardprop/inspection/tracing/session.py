"""`trace()`: a block of a program, recorded; `corrected_calls()`: its calls with corrections."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import torch

from ... import _torch
from ...errors import ShardpropError
from ...propagation import observers
from ...propagation.observers import Observed
from ...propagation.policy_settings import TopologyLike
from ...propagation.propagator import enabled, is_enabled
from .plans import Plans
from .recording import CorrectedCalls, Recording, begin, end
from .report import Trace, measured

__all__ = ["corrected_calls", "trace"]

_LIMIT = 100_000


@contextmanager
def trace(
    model: torch.nn.Module | None = None,
    *,
    root: torch.nn.Module | None = None,
    limit: int = _LIMIT,
    topology: TopologyLike | None = None,
) -> Iterator[Trace]:
    """Record the decisions that no cache answers, and every redistribution, of a block.

    The trace can be read from the end of the block on. Recording puts by a small tuple for each
    event; plans, prices and texts are made when they are asked for. Where shardprop is not enabled,
    policy ``"torch"`` is for the block: the decisions are torch's own, and torch's caches of them
    start empty.

    Events of all threads count. Of traces in one another, each has the events of its own block.

    Args:
        model: The outermost module, for its modules to go by their paths in it ("layers.0.attn").
            None: paths begin with the class of the module that is called first
            ("Transformer.layers.0.attn").
        root: The same as `model`, by name.
        limit: How many events are held at most; the rest is counted in `Trace.dropped`.
        topology: As in `enable`; what torch's plans are priced under. None: torch's own ring model.
            Plans of policy ``"optimal"`` have the prices of the topology it was enabled with.

    Raises:
        ShardpropError: a model that is no module, both `model` and `root`, a limit that is no
            positive int, or a topology with a fault.
    """
    plans = Plans(topology)
    model = _checked_model(model, root)
    if isinstance(limit, bool) or not isinstance(limit, int) or limit < 1:
        raise ShardpropError(f"limit: Expected a count of events above 0, got {limit!r}.")
    with _recorded(Recording(limit), plans, model) as found:
        yield found
    _announce(found)


@contextmanager
def corrected_calls(limit: int = _LIMIT) -> Iterator[Trace]:
    """Record of a block each redistribution, and each call of an op, that puts a fault of torch's
    right, calls that are decided with corrections off, and nothing else.

    torch's caches are emptied after each decision, so every call is decided anew: unlike `trace`,
    this counts calls, and finds them on every line. A program takes longer so.

    Args:
        limit: How many calls are held at most; the rest is counted in `Trace.dropped`.
    """
    observers.add(_forget)
    try:
        with _recorded(CorrectedCalls(limit), Plans()) as found:
            yield found
    finally:
        observers.remove(_forget)


def _forget(_: Observed) -> None:
    """Have torch forget the decision before the next op; it holds on to it until then."""
    _torch.forget_decisions()


@contextmanager
def _recorded(
    recording: Recording, plans: Plans, model: torch.nn.Module | None = None
) -> Iterator[Trace]:
    found = Trace(recording, plans)
    with ExitStack() as stack:
        if not is_enabled():
            stack.enter_context(enabled())
        with measured(found):
            begin(recording, model)
            try:
                yield found
            finally:
                end(recording)


def _announce(found: Trace) -> None:
    """Tell torch's own tools: an artifact ``shardprop_trace`` where torch records a structured
    trace (``TORCH_TRACE``), and a line of counters where a DebugMode is on."""
    if _torch.records_structured_trace():
        _torch.record_artifact("shardprop_trace", lambda: json.dumps(found.to_json(), indent=0))
    _torch.annotate_debug_mode(lambda: f"shardprop: {found.counters()}")


def _checked_model(
    model: torch.nn.Module | None, root: torch.nn.Module | None
) -> torch.nn.Module | None:
    if model is not None and root is not None:
        raise ShardpropError("Expected model or root, got both: they are the same.")
    given = root if model is None else model
    if given is not None and not isinstance(given, torch.nn.Module):
        raise ShardpropError(f"model: Expected a torch.nn.Module, got a {type(given).__name__}.")
    return given
