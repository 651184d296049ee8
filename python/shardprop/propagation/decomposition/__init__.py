"""Ops without a rule: rows for one mesh dim from the op's decomposition, traced once."""

from .decomposer import Decomposer
from .program import Declined

__all__ = ["Declined", "Decomposer"]
