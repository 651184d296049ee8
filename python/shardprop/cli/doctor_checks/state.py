"""What this process holds and has been told: caches, logging."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator

from ...propagation import propagator
from ...redistribution.mesh_cost_models import MeshModels
from .finding import Finding, note, ok

__all__ = ["caches", "fallbacks", "logs"]

# Of a cache this full the oldest entries may be going. (What is held for each mesh goes with it.)
_NEARLY_FULL = 0.95


def caches() -> Iterator[Finding]:
    """How much the caches hold, and is one of them full?"""
    stats = propagator.stats()
    text = f"{stats.cache_entries:,} entries, {stats.cache_bytes / 2**20:.1f} MiB; all are bounded"
    full = [
        name
        for name, held in stats.caches.items()
        if name != MeshModels.name
        and held.capacity > 1
        and held.entries >= held.capacity * _NEARLY_FULL
    ]
    if full:
        yield note(
            "caches",
            f"{text}; full: {', '.join(full)}",
            "nothing goes wrong, but what was forgotten is decided again: does every step meet "
            "new shapes or new meshes?",
        )
    else:
        yield ok("caches", text)


def fallbacks() -> Iterator[Finding]:
    """What went to torch's own code so far?"""
    stats = propagator.stats()
    counts = {**stats.fallbacks, **stats.policy_fallbacks}
    if not counts:
        yield ok("fallbacks", f"none among {stats.decisions:,} decisions of this process")
        return
    most = ", ".join(f"{reason} ({counts[reason]})" for reason in [*counts][:3])
    yield note(
        "fallbacks",
        f"{sum(counts.values()):,} beside {stats.decisions:,} decisions: {most}",
        "shardprop.stats() has all reasons; shardprop trace has the lines",
    )


def logs() -> Iterator[Finding]:
    """Who logs what?"""
    level = logging.getLogger("shardprop").getEffectiveLevel()
    torch_logs, torch_trace = (os.environ.get(name) for name in ("TORCH_LOGS", "TORCH_TRACE"))
    parts = [f"logger 'shardprop' at {logging.getLevelName(level)}"]
    parts += [f"TORCH_LOGS={torch_logs}"] if torch_logs else []
    parts += [f"TORCH_TRACE={torch_trace}"] if torch_trace else []
    if level <= logging.DEBUG:
        yield note("logging", "; ".join(parts), "a line for each decision takes time")
    else:
        yield ok("logging", "; ".join(parts))
