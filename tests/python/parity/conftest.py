"""How many cases the parity tests draw, and from which seed."""

from __future__ import annotations

import pytest


@pytest.fixture(scope="session")
def parity_cases(request: pytest.FixtureRequest) -> int:
    return int(request.config.getoption("--parity-cases"))


@pytest.fixture(scope="session")
def parity_seed(request: pytest.FixtureRequest) -> int:
    return int(request.config.getoption("--parity-seed"))
