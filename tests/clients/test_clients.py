"""Programs of other libraries are the same to the bit with shardprop, on every rank and step.

    pip install '.[test,clients]' && pytest tests/clients

Not part of the other tests: some of these libraries are large. One that is not installed is left
out. ``python -m tests.clients.table`` writes what was found into docs/clients.md.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.python.programs.check import NONE
from tests.python.programs.pool import Pool

from .cases import CASES

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def pools() -> Iterator[dict[int, Pool]]:
    made: dict[int, Pool] = {}
    yield made
    for pool in made.values():
        pool.close()


@pytest.mark.parametrize("name", CASES)
def test_a_client_is_equal_to_the_bit(name: str, pools: dict[int, Pool]) -> None:
    case = CASES[name]
    pytest.importorskip(case.library)
    if case.ranks not in pools:
        pools[case.ranks] = Pool(case.ranks)
    reports = pools[case.ranks].run(case.program)
    for rank, report in enumerate(reports):
        where = f"rank {rank}: {report.summary()}"
        assert report.differences == (), "\n".join([where, *report.differences])
        assert report.finite, f"{where}: results with NaN or infinity"
        assert report.stats.decisions > 0, where
        assert set(report.stats.fallbacks) == NONE, where
