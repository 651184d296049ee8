"""Every strategy of an op on a whole mesh, with prices: what a planner of whole graphs asks for."""

from .ask import strategies
from .layout_table import LayoutTable
from .op_strategies import from_op_strategy, make_spec, to_op_strategy
from .table import Strategies, Strategy

__all__ = [
    "LayoutTable",
    "Strategies",
    "Strategy",
    "from_op_strategy",
    "make_spec",
    "strategies",
    "to_op_strategy",
]
