"""What an op costs on one device: from local shapes to microseconds.

`work_of` says what a call does (operations, bytes), whatever the machine; `ComputeCost` prices it
under a topology. docs/cost-models.md tells the model and its limits.
"""

from .cost import ComputeCost
from .work import Work, work_of

__all__ = ["ComputeCost", "Work", "work_of"]
