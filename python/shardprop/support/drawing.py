"""The hook by which layouts and plans are drawn.

Layouts and plans are defined below the code that draws them. So the top package registers that code
once (`draw_with`), and their `plot` methods look it up when they are called (`drawer`). The package
loads this file whenever it is imported, so nothing else is loaded here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any, Protocol

    from .picture import Picture

    class Drawer(Protocol):
        """Draws layouts (`model.plan_steps.Layout`) and plans (`redistribution.plan.Plan`)."""

        def draw_layout(
            self,
            layout: Any,
            shape: Sequence[int],
            mesh_shape: Sequence[int],
            mesh_dim_names: Sequence[str] | None,
            dims: Sequence[int] | None,
        ) -> Picture:
            """Which rank holds which block of a tensor."""

        def plot_plan(self, plan: Any, *, dims: Sequence[int] | None = None) -> Picture:
            """The layouts that a plan passes through, with the steps between them."""


__all__ = ["draw_with", "drawer"]

_load: Callable[[], Drawer] | None = None


def draw_with(load: Callable[[], Drawer]) -> None:
    """Register what draws: `load` returns it, and is called for each picture."""
    global _load
    _load = load


def drawer() -> Drawer:
    """What draws, as registered."""
    assert _load is not None, "shardprop/__init__.py registers it"
    return _load()
