"""What stands in for torch's code around every op whose decision is known, and compiled code."""

from __future__ import annotations

from .compiled_outputs import COMPILED_OUTPUTS
from .dispatch_rules import DISPATCH_RULES
from .held_functions import StandIn
from .op_info import OP_INFO
from .op_outputs import OP_OUTPUTS
from .rewritten_calls import REWRITTEN_CALLS
from .spec_constructor import SPEC_CONSTRUCTOR

__all__ = ["STAND_INS"]

STAND_INS: tuple[StandIn, ...] = (
    SPEC_CONSTRUCTOR,
    DISPATCH_RULES,
    OP_INFO,
    REWRITTEN_CALLS,
    OP_OUTPUTS,
    COMPILED_OUTPUTS,
)
