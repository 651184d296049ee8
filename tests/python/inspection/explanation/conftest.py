"""The gloo processes, started by the first test that needs them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ...optimal.gloo import Processes


@pytest.fixture(scope="package")
def gloo() -> Iterator[Processes]:
    processes = Processes(2)
    yield processes
    processes.close()
