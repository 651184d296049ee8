"""The public table of corrections."""

from __future__ import annotations

from tools import refused_ops
from tools.corrections_page import page
from tools.torch_faults import version

import shardprop
from shardprop import _torch
from shardprop.propagation.route import Who, route_of

from ..checkout import ROOT


def test_the_page_is_what_its_tool_writes() -> None:
    """If not: python -m tools.corrections_page > docs/corrections.md"""
    assert (ROOT / "docs" / "corrections.md").read_text() == page()


def test_ops_that_torch_refuses_have_no_rule_of_its_own() -> None:
    """If one has: python -m tools.refused_ops"""
    known = {str(op): op for op in _torch.all_ops()}
    listed = refused_ops.recorded().get(version(), [])
    with shardprop.enabled():
        deciders = {name: route_of(known[name]).who for name in listed}
    assert [name for name, who in deciders.items() if who is not Who.DECOMPOSITION] == []
