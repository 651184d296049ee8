"""A sample of the random redistributions on four processes; all of them by their own command."""

from __future__ import annotations

import pytest

from .gloo import PROCESSES, Processes
from .random_redistributions import faults

pytestmark = pytest.mark.slow


def test_random_redistributions_forward_and_backward(gloo: Processes) -> None:
    assert gloo.call(faults, PROCESSES, 0, 45) == [([], {})] * PROCESSES
