"""The pool of gloo processes, started by the first test that needs it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from .pool import Pool

PROCESSES = 4


@pytest.fixture(scope="package")
def gloo() -> Iterator[Pool]:
    pool = Pool(PROCESSES)
    yield pool
    pool.close()
