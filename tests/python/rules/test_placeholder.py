"""A placeholder is written as it was made."""

from __future__ import annotations

from typing import Any

import pytest

from shardprop import ShardingPlaceholder


@pytest.mark.parametrize(
    ("options", "written"),
    [
        ({}, ""),
        ({"even": True}, ", even=True"),
        ({"min_local": 1}, ", min_local=1"),
        ({"multiple_of": 2}, ", multiple_of=2"),
        (
            {"even": True, "min_local": 3, "multiple_of": 4},
            ", even=True, min_local=3, multiple_of=4",
        ),
    ],
)
def test_what_is_asked_of_sizes_is_written(options: dict[str, Any], written: str) -> None:
    placeholder = ShardingPlaceholder(1, **options)
    assert repr(placeholder) == f"ShardingPlaceholder(1{written})"
    assert placeholder.is_constrained == bool(options)
