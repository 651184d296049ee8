"""Policy `optimal` never moves at a higher price than torch; the long run tries 100,000."""

from __future__ import annotations

import pytest

from ..parity.meshes import ensure_process_group
from .never_worse import Gains, compare

TOPOLOGIES = ("torch", "h100-nvlink", "cpu-gloo")


@pytest.mark.slow
def test_decisions_never_cost_more_than_torchs() -> None:
    ensure_process_group()
    gains = Gains()
    for label, compared in compare(5, 1200, TOPOLOGIES):
        gains.add(label, compared)
    assert not [f"{one.by}: {one.ours} > {one.torchs}: {one.case}" for one in gains.worse]
    ratios = gains.ratios["all"]
    assert len(ratios) > 300 and max(ratios) > 2
    # Wherever torch's plans have a price, ours have one.
    assert not [outcome for outcome in gains.counts if outcome.startswith("OURS")]
