"""What the solving of a graph raises."""

from __future__ import annotations

from collections.abc import Sequence

from ...errors import ShardpropError

__all__ = ["InfeasibleError", "UnsolvedError", "fault"]


class InfeasibleError(ShardpropError):
    """No labels meet all constraints.

    Attributes:
        reasons: Names of constraints, of edges (where prices are infinite) and of nodes' costs
            (``costs of 'x'``) that cannot be met together.
        nodes: Names of the nodes that they speak of.
        minimal: Whether all of them could be met if any one of them were dropped. False if the time
            for the search of reasons was over before.
    """

    def __init__(
        self, message: str, reasons: Sequence[str], nodes: Sequence[str], minimal: bool = True
    ) -> None:
        super().__init__(message)
        self.reasons = tuple(reasons)
        self.nodes = tuple(nodes)
        self.minimal = minimal


class UnsolvedError(ShardpropError):
    """Neither labels that meet all constraints nor a proof that there are none, in the time given.

    Attributes:
        lower_bound: No labels have a lower objective.
    """

    def __init__(self, message: str, lower_bound: float) -> None:
        super().__init__(message)
        self.lower_bound = lower_bound


def fault(where: str, expected: str, got: object) -> ShardpropError:
    """The error for one wrong argument."""
    return ShardpropError(f"{where}: Expected {expected}, got {got}.")
