"""`shardprop.trace()`: what was decided and what was moved while a program ran, and where.

session       `trace()`                                source_lines  from a frame to the user's line
recording     what runs while a trace is open          module_stack  whose forward or backward it is
events        from what was recorded to `model`        model         a decision, a move, a place
plans         the plan of a move, and its price        rows          events alike, counted together
report        `Trace`, and what it can be made into    text          for a terminal
json_form     as JSON, of which `report/` makes HTML
consumers     `watch_consumers()`: who uses which output
"""

from .consumers import watch_consumers
from .model import Place, TracedDecision, TracedRedistribution
from .report import Trace
from .session import trace

__all__ = ["Place", "Trace", "TracedDecision", "TracedRedistribution", "trace", "watch_consumers"]
