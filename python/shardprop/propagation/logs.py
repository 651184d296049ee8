"""What the logger ``shardprop`` is told.

At DEBUG a line for each decision, in the form of torch's own (``sharding_prop MISS``); at INFO,
once for each op and reason, what was left to torch; nothing for each op at the default level.
``TORCH_LOGS="+shardprop"`` is DEBUG, ``TORCH_LOGS="shardprop"`` INFO: torch takes any package's
name there.
"""

from __future__ import annotations

import logging

from .._torch import OpOverload, OpSchema

__all__ = ["decided", "declined_inside", "fell_back", "tells_decisions"]

_logger = logging.getLogger("shardprop")

# What fell back, told already. Reasons may name sizes, so there can be many.
_told: set[tuple[str, str]] = set()
_TOLD_AT_MOST = 1000


def tells_decisions() -> bool:
    """Is the log at DEBUG?"""
    return _logger.isEnabledFor(logging.DEBUG)


def decided(schema: OpSchema, result: object, seconds: float, decider: str) -> None:
    """A line for a decision that no cache answered; `result` is the output's spec or the error."""
    _logger.debug(
        "sharding_prop MISS: %s -> %s, %.3f ms, %s", schema, result, 1e3 * seconds, decider
    )


def fell_back(op: OpOverload, reason: str) -> None:
    """An op that has a rule was left to torch; the first time it is, a line at INFO."""
    if not _logger.isEnabledFor(logging.INFO):
        return
    key = (str(op), reason)
    if key in _told or len(_told) >= _TOLD_AT_MOST:
        return
    _told.add(key)
    _logger.info("fallback to torch for %s: %s", op, reason)


def declined_inside(op: OpOverload, reason: object) -> None:
    """torch decides a call inside a decomposition that the core has a rule for."""
    _logger.debug("torch decides %s inside a decomposition: %s", op, reason)
