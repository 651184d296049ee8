"""Models of Hugging Face run by plans as one device runs them, and send and hold what plans say."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import pytest
import torch

from tests.python.programs.pool import Pool

from .planned import MODELS, Report, report_of, run

pytestmark = [
    pytest.mark.slow,
    # Of the hooks that CommDebugMode puts on modules.
    pytest.mark.filterwarnings(
        "ignore:For backward hooks to be called", "ignore:Full backward hook is firing"
    ),
]


@pytest.fixture(scope="module")
def pool() -> Iterator[Pool]:
    pytest.importorskip("transformers")
    pool = Pool(4)
    yield pool
    pool.close()


def check(report: Report, tolerance: float) -> None:
    assert report.loss == pytest.approx(report.single, rel=tolerance)
    assert report.gradient <= tolerance
    assert report.counted == report.stated > 0
    assert report.sharded > 0
    assert report.held == pytest.approx(report.allocated, rel=0.05)


@pytest.mark.parametrize("shape", [(4,), (2, 2)], ids=str)
@pytest.mark.parametrize("name", MODELS)
def test_a_model_as_it_comes_runs_by_its_plan(
    name: str, shape: tuple[int, ...], pool: Pool
) -> None:
    for report in pool.run(partial(run, name, shape), report_of):  # type: ignore[arg-type]
        check(report, 1e-5)
        assert report.cannot_run > 0 or name not in ("Llama", "Mixtral") or shape != (2, 2)


def test_mixtral_runs_in_half_precision(pool: Pool) -> None:
    program = partial(run, "Mixtral", (2, 2), torch.bfloat16)
    for report in pool.run(program, report_of):  # type: ignore[arg-type]
        check(report, 2e-2)


def under_autocast() -> Report:
    with torch.autocast("cpu", torch.bfloat16):
        return run("GPT-2", (2, 2))


def test_gpt_2_runs_under_autocast(pool: Pool) -> None:
    for report in pool.run(under_autocast, report_of):  # type: ignore[arg-type]
        check(report, 2e-2)


@pytest.mark.parametrize("name", ["Llama", "GPT-2", "BERT", "ViT"])
def test_a_model_runs_within_a_bound_on_its_memory(name: str, pool: Pool) -> None:
    program = partial(run, name, (2, 2), share=0.85)
    for report in pool.run(program, report_of):  # type: ignore[arg-type]
        check(report, 1e-5)
