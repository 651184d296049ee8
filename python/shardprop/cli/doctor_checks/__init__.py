"""The doctor: is all well with shardprop here, and if not, what is to be done?

A program can ask about its own meshes: ``print(examine(meshes=[mesh]))``.

finding     a check's result, a report     examining  all checks, in order
versions    torch, Python, the extension   hook       who decides for DTensor, and rightly?
state       caches, logging                groups     process group, flattened meshes
"""

from .examining import examine
from .finding import Finding, Report, Status

__all__ = ["Finding", "Report", "Status", "examine"]
