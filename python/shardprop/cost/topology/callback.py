"""Prices from a Python function."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field

from ..._torch import DeviceMesh
from ...errors import ShardpropError
from ...support.numbers import is_finite_number
from ..cost_model import COLLECTIVES, CostModel, GroupCosts, LinearPrice, Price
from .groups import groups_of
from .links import us_per_byte
from .topology import Memory

__all__ = ["CallbackTopology"]


@dataclass(frozen=True)
class _CheckedPrice:
    """A user's function whose answers are looked at before they are believed."""

    price: Price
    _of_thread: threading.local = field(
        default_factory=threading.local, init=False, repr=False, compare=False
    )

    def __call__(
        self, collective: str, mesh_dims: tuple[int, ...], ranks: int, wire_bytes: int
    ) -> float:
        call = f"callback({collective!r}, {mesh_dims}, {ranks}, {wire_bytes})"
        inside = getattr(self._of_thread, "call", None)
        if inside is not None:
            raise ShardpropError(
                f"{call}: Expected a function that needs no price itself, got asked for one inside "
                f"{inside}. Run no op on DTensors in it, and ask for no plan."
            )
        self._of_thread.call = call
        try:
            us: object = self.price(collective, mesh_dims, ranks, wire_bytes)
        except Exception as error:
            raise ShardpropError(
                f"{call}: Expected microseconds, got {type(error).__name__}: {error}"
            ) from error
        finally:
            self._of_thread.call = None
        if is_finite_number(us) and us >= 0:
            return float(us)
        raise ShardpropError(f"{call}: Expected microseconds, a number of at least 0, got {us!r}.")


@dataclass(frozen=True)
class CallbackTopology:
    """Collectives cost what a function says.

    It must give the same answers on every rank, or the ranks plan differently and hang.

    Attributes:
        price: (collective, mesh dims, ranks, wire bytes per rank) -> microseconds.
        memory: Of local work; None for none.
        all_to_all_gathers: An all-to-all is made of an all-gather, as torch does over gloo.
    """

    price: Price
    memory: Memory | None = None
    all_to_all_gathers: bool = False

    def on(self, mesh: DeviceMesh, flattened: Sequence[tuple[int, ...]] = ()) -> CostModel:
        """The costs on one mesh; the lines in it are empty.

        Raises:
            ShardpropError: a flattened group is not one of ascending mesh dims; later, from the
                callback of the model: the function raises or needs a price itself, or its answer is
                no number of at least 0.
        """
        nothing = tuple(LinearPrice(0.0, 0.0) for _ in COLLECTIVES)
        memory = self.memory
        return CostModel(
            sizes=tuple(mesh.shape),
            groups=tuple(GroupCosts(dims, nothing) for dims in groups_of(mesh, flattened)),
            kernel_us=0.0 if memory is None else memory.kernel_us,
            memory_us_per_byte=0.0 if memory is None else us_per_byte(memory.bandwidth_gb_s),
            all_to_all_gathers=self.all_to_all_gathers,
            callback=_CheckedPrice(self.price),
        )
