"""Pictures of layouts, plans and decisions, and the HTML report of a trace.

Which rank holds which block is `geometry`, numbers alone; everything that is drawn comes from it.
"""

from .geometry import Block, blocks
from .landscape import landscape
from .layout_picture import draw_layout, plot_layout
from .page import page
from .plan_picture import plot_plan

__all__ = ["Block", "blocks", "draw_layout", "landscape", "page", "plot_layout", "plot_plan"]
