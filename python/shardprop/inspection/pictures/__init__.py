"""Pictures of layouts, plans and decisions (extra ``plot``); the geometry alone needs nothing."""

from .geometry import Block, blocks
from .landscape import landscape
from .layout_picture import plot_layout
from .plan_picture import plot_plan

__all__ = ["Block", "blocks", "landscape", "plot_layout", "plot_plan"]
