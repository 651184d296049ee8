"""How many devices a host has, which decides what torch thinks a mesh dim costs.

torch asks `torch.cpu.device_count()`, which is 1, so every mesh dim would count as a slow link. A
process may pretend that hosts have more; it must do so before torch prices anything, because torch
keeps the answer per mesh for good.
"""

from __future__ import annotations

import torch


def set_devices_per_host(count: int) -> None:
    if count != torch.cpu.device_count():
        torch.cpu.device_count = lambda: count
