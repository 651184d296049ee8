"""Calibration: the collectives of the running process group, measured and fitted.

`calibrate` measures what redistribution runs on a mesh and gives a topology of it; the command
`shardprop calibrate` starts local processes for that, or runs under torchrun.
"""

from .fit import Fit
from .measuring import calibrate
from .result import Calibration, Fitted
from .settings import Settings

__all__ = ["Calibration", "Fit", "Fitted", "Settings", "calibrate"]
