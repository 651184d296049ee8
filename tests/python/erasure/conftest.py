"""What a test compiles is not there in the next."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

import shardprop


@pytest.fixture(autouse=True)
def nothing_compiled() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    shardprop.disable()
    torch._dynamo.reset()


@pytest.fixture
def enabled() -> Iterator[None]:
    with shardprop.enabled():
        yield
