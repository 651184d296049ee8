"""What becomes of outputs: who consumes them, and what a layout of them costs from there on.

consumers   who consumed the outputs of which calls, as a step was watched
layouts     every layout of a tensor, and values by these
uses        the strategies of a consumer, with prices
computing   what an op computes on the shards of a strategy
values      what a layout of an output costs, some ops ahead
"""

from .consumers import Consumers

__all__ = ["Consumers"]
