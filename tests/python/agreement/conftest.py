"""The core decides in all of these tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import shardprop


@pytest.fixture(autouse=True)
def enabled() -> Iterator[None]:
    with shardprop.enabled():
        yield
