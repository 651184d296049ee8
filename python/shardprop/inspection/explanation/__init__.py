"""Why an op was placed as it was: rows, candidates, the tie-break, moves, and advice."""

from ...rules.rule import RuleFacts
from .entry import explain
from .explaining import explain_schema
from .explanation import Explanation
from .model import (
    Advice,
    Candidate,
    DecisionExplanation,
    OperandFacts,
    OperandMove,
    Rejection,
    Row,
)

__all__ = [
    "Advice",
    "Candidate",
    "DecisionExplanation",
    "Explanation",
    "OperandFacts",
    "OperandMove",
    "Rejection",
    "Row",
    "RuleFacts",
    "explain",
    "explain_schema",
]
