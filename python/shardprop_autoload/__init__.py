"""What ``import torch`` calls (entry-point group ``torch.backends``): with SHARDPROP=1 in the
environment a program runs with shardprop, though nobody edited it.

A package of its own, for to import shardprop takes longer than the one look that is due without.
"""

import os
import sys

__all__ = ["autoload"]


def autoload() -> None:
    """Have shardprop look what the environment asks for; the import of torch never fails by it."""
    if os.environ.get("SHARDPROP", "0") in ("", "0"):
        return
    try:
        from shardprop.environment import follow

        follow()
    except Exception as error:
        print(f"shardprop: not enabled, {type(error).__name__}: {error}", file=sys.stderr)
