"""The options that choose a policy, and what they choose."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import typer

from ..errors import ShardpropError

__all__ = ["PolicyOption", "TopologyOption", "chosen_policy"]

PolicyOption = Annotated[
    str, typer.Option(metavar="torch|optimal", help="As torch decides, or the provably cheapest.")
]
TopologyOption = Annotated[
    str | None,
    typer.Option(
        metavar="NAME|FILE",
        help="What `optimal` prices by: a preset such as h100-nvlink, or a calibrated file.",
    ),
]


@contextmanager
def chosen_policy(policy: str, topology: str | None) -> Iterator[None]:
    """Enable it for the block.

    Raises:
        ShardpropError: an unknown policy or topology, or the one without the other.
    """
    from ..propagation.propagator import enabled

    if policy == "optimal" and topology is None:
        raise ShardpropError(
            "--policy optimal: Expected --topology, such as h100-nvlink; got none."
        )
    if policy != "optimal" and topology is not None:
        raise ShardpropError(f"--topology: Expected --policy optimal with it, got {policy!r}.")
    with enabled(policy=policy, topology=topology):
        yield
