"""The pool of gloo processes, started by the first test that needs it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from .pool import Pool

PROCESSES = 4


def pytest_addoption(parser: Any) -> None:
    # Known only when pytest is started on this folder; elsewhere the sample is run.
    for option in ("--all-optimal", "--all-erased"):
        parser.getgroup("programs").addoption(option, action="store_true")


@pytest.fixture(scope="package")
def gloo() -> Iterator[Pool]:
    pool = Pool(PROCESSES)
    yield pool
    pool.close()
