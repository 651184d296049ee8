"""`shardprop.trace()`: what was decided and what was moved while a program ran, and where.

model       a decision, a redistribution, a place      places     from a frame to the user's line
whereabouts modules, and the forward of a backward     recording  what runs while a trace is open
plans       the plan of a redistribution, its price    rows       events alike, counted together
text        the report in a terminal                   document   the report as JSON
session     `trace()`                                  report     `Trace`
"""

from .model import Place, TracedDecision, TracedRedistribution
from .report import Trace
from .session import trace

__all__ = ["Place", "Trace", "TracedDecision", "TracedRedistribution", "trace"]
