from __future__ import annotations

from collections.abc import Iterator

import pytest

import shardprop


@pytest.fixture(autouse=True)
def rules_of_before() -> Iterator[None]:
    """A capture registers rules of its own: tests that draw from torch's registry are to have it as
    it came."""
    with shardprop.temporary_rules():
        yield
