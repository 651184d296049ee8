"""Every strategy of an op on a whole mesh, with prices: what a planner of whole graphs asks for."""

from .ask import strategies
from .layout_table import LayoutTable
from .table import Strategies, Strategy

__all__ = ["LayoutTable", "Strategies", "Strategy", "strategies"]
