"""Options of the parity tests: how many cases, and from which seed."""

from __future__ import annotations

from typing import Any

import pytest

DEFAULT_CASES = 2_000
DEFAULT_SEED = 0


def pytest_addoption(parser: Any) -> None:
    # Known only when pytest is started on this folder; elsewhere the defaults hold.
    group = parser.getgroup("parity")
    group.addoption("--parity-cases", type=int, default=DEFAULT_CASES)
    group.addoption("--parity-seed", type=int, default=DEFAULT_SEED)


@pytest.fixture(scope="session")
def parity_cases(request: pytest.FixtureRequest) -> int:
    return int(request.config.getoption("--parity-cases", default=DEFAULT_CASES))


@pytest.fixture(scope="session")
def parity_seed(request: pytest.FixtureRequest) -> int:
    return int(request.config.getoption("--parity-seed", default=DEFAULT_SEED))
